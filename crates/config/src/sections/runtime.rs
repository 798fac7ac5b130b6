//! How does the process run? [`Runtime`], `[runtime]`.

use crate::form::Form;
use crate::table::{Absent, DAY, Field, Key, Kind, Value, quote, table, words};
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static RUNTIME = "[runtime]",
        "The process.";

    /// `[runtime]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Runtime {
        /// How many event loops.
        workers: Workers = Key {
            name: "workers",
            kind: Kind::IntOr { min: 1, max: 1024, word: "auto" },
            absent: Absent::Default("\"auto\""),
            help: "Event loops, each on its own thread.",
            why: "One for each core that the process may use; more would only share the cores.",
        };
        /// How long running requests may go on after a stop or a reload.
        drain_timeout: Duration = Key {
            name: "drain_timeout",
            kind: Kind::Duration { min: 0, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "How long running requests may go on after a stop.",
            why: "Kubernetes waits 30 s between TERM and KILL, systemd 90 s.",
        };
        /// Whether a change of the file, or of one that it includes, is a reload.
        watch: bool = Key {
            name: "watch",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Reloads when this file, or one that it includes, changes.",
            why: "A file that is edited by hand may be saved half done. Turn it on where a tool replaces the whole file \
                  at once.",
        };
        /// The file that keeps what operators want of endpoints.
        state: Option<PathBuf> = Key {
            name: "state",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("they are forgotten at a restart"),
            help: "A file that keeps operators' orders, such as drained endpoints, over restarts.",
            why: "Reloads and upgrades keep them without it.",
        };
        /// Idle connections to endpoints.
        idle_connections: IdleConnections = Key {
            name: "idle_connections",
            kind: Kind::IntOr { min: 0, max: 10_000_000, word: "auto" },
            absent: Absent::Default("\"auto\""),
            help: "Idle connections to the endpoints of all pools, all workers together. Where there are more, those that were \
                   used last are kept. `\"auto\"`: a quarter of the file descriptors that the process may have.",
            why: "Each is a descriptor that a client may need; most requests find theirs among those used last.",
        };
        /// The log of the process itself (requests go to [`Telemetry::access_log`](crate::plan::Telemetry::access_log)).
        log: Log = Key {
            name: "log",
            kind: Kind::Table(&LOG),
            absent: Absent::Means("its defaults"),
            help: "The log of the process, on standard error.",
            why: "",
        };
    }
}

table! {
    static LOG = "log of [runtime]",
        "The log of the process. Requests go to the access log, never here.";

    /// The log of the process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Log {
        /// The least severe lines that are written.
        level: Level = Key {
            name: "level",
            kind: Kind::Choice(Level::WORDS),
            absent: Absent::Default("\"info\""),
            help: "The least severe lines that are written.",
            why: "Starts, stops and changes, but nothing for each request.",
        };
        /// How a line looks.
        format: LogFormat = Key {
            name: "format",
            kind: Kind::Choice(LogFormat::WORDS),
            absent: Absent::Default("\"text\""),
            help: "How a line looks.",
            why: "The first reader is a person at a terminal; collectors want `json`.",
        };
    }
}

/// How many event loops run, each on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each core that the process may use.
    Auto,
    /// So many: 1 to 1024.
    Count(u16),
}

impl Field for Workers {
    fn read(value: Value) -> Workers {
        match value {
            Value::Int(n) => Workers::Count(u16::try_from(n).unwrap_or(u16::MAX)),
            _ => Workers::Auto,
        }
    }

    fn write(&self, _: &Workers, _: &Kind) -> String {
        match self {
            Workers::Auto => quote("auto"),
            Workers::Count(n) => n.to_string(),
        }
    }
}

/// Number of idle connections to endpoints that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleConnections {
    /// A share of the file descriptors.
    Auto,
    /// So many: 0 to 10,000,000.
    Count(u32),
}

impl Field for IdleConnections {
    fn read(value: Value) -> IdleConnections {
        match value {
            Value::Int(n) => IdleConnections::Count(u32::try_from(n).unwrap_or(u32::MAX)),
            _ => IdleConnections::Auto,
        }
    }

    fn write(&self, _: &IdleConnections, _: &Kind) -> String {
        match self {
            IdleConnections::Auto => quote("auto"),
            IdleConnections::Count(n) => n.to_string(),
        }
    }
}

words! {
    /// Severity of a log line, most severe first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

words! {
    /// How a log line looks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}
