//! Logs as a stream of requests: several files, compressed or not, or standard input.

// Order: logs, report, lines, decoded
mod decoded;
mod lines;
mod logs;
mod report;

pub use logs::{Logs, OpenError, Place, Source};
pub use report::{Bad, Cut, Report};
