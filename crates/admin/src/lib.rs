//! What is happening in this process? Metrics, health and changes over plain HTTP, on a thread of its own, so that whoever asks
//! slowly or often never stops a worker.
//!
//! 1. [`pages`]: what is answered at which path.
//! 2. [`server`]: the listeners and their connections; [`socket`]: the one of those who may change something.
//! 3. [`process`]: what the kernel says of the process.
//!
//! Nothing in here knows what is measured: the binary hands in closures.
#![forbid(unsafe_code)]

pub mod pages;
pub mod process;
pub mod server;
pub mod socket;

pub use pages::{Changed, Pages, Ready};
pub use process::Process;
pub use server::Admin;
