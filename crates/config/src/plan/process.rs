//! How does the process run, and what does it tell? [`Runtime`], [`Admin`] and [`Telemetry`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `[runtime]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// How many event loops.
    pub workers: Workers,
    /// How long running requests may go on after a stop or a reload.
    pub drain_timeout: Duration,
    /// The log of the process itself (requests go to [`Telemetry::access_log`]).
    pub log: Log,
    /// Whether a change of the file, or of one that it includes, is a reload.
    pub watch: bool,
}

/// How many event loops run, each on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each core that the process may use.
    Auto,
    /// So many: 1 to 1024.
    Count(u16),
}

/// The log of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least severe lines that are written.
    pub level: Level,
    /// How a line looks.
    pub format: LogFormat,
}

/// Severity of a log line, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// `[admin]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Address of the plain HTTP listener for `/metrics`, `/livez` and `/readyz`, if there is one.
    pub bind: Option<SocketAddr>,
    /// Absolute path of the Unix socket for those who may also change things, if there is one. The mode of the file says
    /// who that is. At least one of the two is there.
    pub socket: Option<PathBuf>,
}

/// `[telemetry]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// Prometheus metrics, served on [`Admin::bind`].
    pub metrics: Metrics,
    /// One line for each request; `None` = off.
    pub access_log: Option<AccessLog>,
    /// All that the picks of one pool depend on; `None` = off. Only with one worker.
    pub journal: Option<Journal>,
}

/// `telemetry.metrics`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Path on the admin listener.
    pub path: String,
    /// Whether upstream series carry the endpoint.
    pub per_endpoint: bool,
    /// Upper bounds of the duration histograms in seconds: positive, ascending, finite.
    pub buckets: Vec<f64>,
}

/// `telemetry.access_log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where the lines go.
    pub to: LogTarget,
    /// How a line looks. Only JSON exists so far.
    pub format: LogFormat,
}

/// `telemetry.journal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Where the lines go.
    pub to: LogTarget,
    /// The name of the pool.
    pub pool: String,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output (`"-"` or `"stdout"`).
    Stdout,
    /// Appended to this file.
    File(PathBuf),
}
