//! The contract of algorithms, run over the registry: with default parameters, and with each parameter at the ends of
//! its range. A failure prints row, seed and scenario.

mod affinity;
mod answers;
mod choices;
mod explanations;
mod hangs;
mod histories;
mod memories;
mod refusals;
mod registry;
mod replays;
mod shares;
