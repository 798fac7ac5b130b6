//! Deterministic simulator: runs the production balancing code in virtual time. Servers, load and delays are simulated,
//! decisions are not. Read the modules in this order:
//!
//! 1. [`scenario`]: the simulated system as plain data; [`work`]: distributions of durations; [`planes`]: costs of balancing.
//! 2. [`engine`]: the event loop around production [`Balancer`](evenkeel_balance::Balancer)s.
//! 3. [`run`]: the results.
//! 4. [`file`](mod@file): the reader of scenario files; [`experiment`]: its result; [`builtin`] scenarios.
//! 5. [`results`]: runs of an experiment over seeds, on all cores; [`metric`], [`interval`] and [`verdict`] judge them.
//! 6. [`replay`]: recorded requests with other algorithms; [`shadow`]: those of a running pool.
//! 7. [`text`], [`json`](mod@json) and [`report`]: results as text, JSON and HTML.
#![forbid(unsafe_code)]

// Order: builtin, shadow, report, json, text, verdict, results, interval, file, experiment, metric, replay, engine,
// scenario, planes, run, work
pub mod builtin;
pub mod engine;
pub mod experiment;
pub mod file;
pub mod interval;
pub mod json;
pub mod metric;
pub mod planes;
pub mod replay;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod shadow;
pub mod text;
pub mod verdict;
pub mod work;

pub use engine::{Logged, LoggedTry, simulate, simulate_logged, simulate_remembered};
pub use run::Run;
pub use scenario::{Policy, Scenario};
