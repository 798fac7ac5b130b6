//! Metrics, health, the API and the dashboard over plain HTTP, on a separate thread, so that slow or frequent clients
//! never stop a worker.
//!
//! 1. [`pages`]: the answer at each path; [`exposition`]: formats of metrics; [`scrape`]: metrics for a client.
//! 2. [`server`]: the listeners and their connections; [`admission`], [`stalled`] and [`numbers`]: their limits, and
//!    metrics of these; [`host`]: names of this host; [`socket`]: the Unix socket, over which changes are made.
//! 3. [`api`]: state and changes, for programs; [`dashboard`]: the same for people.
//! 4. [`process`]: metrics that the kernel has of the process.
//!
//! Nothing in here measures anything: the binary passes in closures.
#![forbid(unsafe_code)]

// Order: server, process, dashboard, pages, host, api, scrape, exposition, admission, socket, stalled, numbers
pub mod admission;
pub mod api;
pub mod dashboard;
pub mod exposition;
mod host;
pub mod numbers;
pub mod pages;
pub mod process;
pub mod scrape;
pub mod server;
pub mod socket;
mod stalled;

pub use admission::Limits;
pub use numbers::Numbers;
pub use pages::{Pages, Ready};
pub use process::Process;
pub use scrape::Scrapes;
pub use server::Admin;
