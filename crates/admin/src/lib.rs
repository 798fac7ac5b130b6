//! What is happening in this process? Metrics, health and changes over plain HTTP, on a thread of its own, so that slow
//! or frequent clients never stop a worker.
//!
//! 1. [`pages`]: the answer at each path; [`exposition`]: in which format metrics are.
//! 2. [`server`]: the listeners and their connections; [`admission`], [`stalled`] and [`numbers`]: their limits, and metrics of these;
//!    [`host`]: names of this host; [`socket`]: the Unix socket, over which changes are made.
//! 3. [`api`]: the same for programs, and more; [`dashboard`]: for people.
//! 4. [`process`]: what the kernel knows of the process.
//!
//! Nothing in here knows what is measured: the binary passes in closures.
#![forbid(unsafe_code)]

pub mod admission;
pub mod api;
pub mod dashboard;
pub mod exposition;
mod host;
pub mod numbers;
pub mod pages;
pub mod process;
pub mod server;
pub mod socket;
mod stalled;

pub use admission::Limits;
pub use numbers::Numbers;
pub use pages::{Pages, Ready};
pub use process::Process;
pub use server::Admin;
