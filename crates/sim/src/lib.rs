//! Deterministic simulator: the balancing code that serves live traffic, in virtual time. Servers, load and delays are
//! simulated, decisions are not. Read the files in this order:
//!
//! 1. [`scenario`]: the simulated system as plain data; [`work`]: distributions of durations.
//! 2. [`engine`]: the loop of events around production [`Balancer`](evenkeel_balance::Balancer)s.
//! 3. [`run`]: the results.
//! 4. [`file`](mod@file): scenarios as files, and [`experiment`]: what one asks for; [`builtin`] ones come along.
//! 5. [`results`]: an experiment over seeds and cores; [`metric`], [`interval`] and [`verdict`]: what may be said of it.
//! 6. [`shadow`]: requests of a running pool played again, with other algorithms.
//! 7. [`text`], [`json`](mod@json) and [`report`]: how it is shown.
#![forbid(unsafe_code)]

pub mod builtin;
pub mod engine;
pub mod experiment;
pub mod file;
pub mod interval;
pub mod json;
pub mod metric;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod shadow;
pub mod text;
pub mod verdict;
pub mod work;

pub use engine::{simulate, simulate_remembered};
pub use run::Run;
pub use scenario::{Policy, Scenario};
