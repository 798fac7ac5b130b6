//! Access logs of load balancers as requests. Read the modules in this order:
//!
//! 1. [`request`]: a request as a log has it; [`tries`]: its tries at endpoints.
//! 2. [`formats`]: the formats that are read; [`find`]: the format of given lines.
//! 3. [`read`]: files, compressed or not, as a stream of requests.
//! 4. [`coverage`]: counts of known values; [`lacks`]: missing values, and the configuration that adds them.
#![forbid(unsafe_code)]

// Order: lacks, read, coverage, find, formats, syslog, json, template, field, request, tries, fault, date, number, time
pub mod coverage;
mod date;
mod fault;
mod field;
pub mod find;
pub mod formats;
mod json;
pub mod lacks;
mod number;
pub mod read;
pub mod request;
mod syslog;
mod template;
pub mod time;
pub mod tries;

pub use fault::Fault;
pub use find::{Found, find};
pub use formats::Format;
pub use read::Logs;
pub use request::Request;
pub use time::{Span, Time};
pub use tries::{Outcome, Try};
