//! `[runtime]`: worker threads, shutdown, state and log of the process. See [`Runtime`].

use crate::form::{Form, REGEX_SIZE_MAX};
use crate::table::{Absent, DAY, Field, H, Key, Kind, Value, quote, table, words};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The usual folder for the state of a service.
const STATE_FOLDER: &str = "/var/lib/evenkeel";

table! {
    pub(crate) static RUNTIME = "[runtime]",
        "Worker threads, shutdown, and the log of the process.";

    /// `[runtime]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Runtime {
        workers: Workers = Key {
            name: "workers",
            kind: Kind::IntOr { min: 1, max: 1024, word: "auto" },
            absent: Absent::Default("\"auto\""),
            help: "Number of event loops, each on a separate thread.",
            why: "`\"auto\"` is one per core available to the process. More workers would only share the cores.",
        };
        /// Time from an order to stop until no more is accepted; the process is not ready meanwhile.
        shutdown_delay: Duration = Key {
            name: "shutdown_delay",
            kind: Kind::Duration { min: 0, max: H, off: false },
            absent: Absent::Default("\"0s\""),
            help: "Time from a stop request until evenkeel stops accepting connections. Until then, everything is \
                served as before, but `/readyz` and `evenkeel ready` report that the process is not ready, so that \
                load balancers in front can send clients elsewhere.",
            why: "The delay helps only if a load balancer in front checks readiness. Set it longer than the interval \
                of those checks.",
        };
        /// Longest time that requests in flight may take after a stop or a reload.
        drain_timeout: Duration = Key {
            name: "drain_timeout",
            kind: Kind::Duration { min: 0, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "Longest time for requests in flight to finish after a stop.",
            why: "Kubernetes waits 30 s between TERM and KILL, systemd 90 s.",
        };
        /// True if the process reloads when a configuration file changes.
        watch: bool = Key {
            name: "watch",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Reloads when this file, or a file that it includes, changes. Files of `access` are also read again \
                when they change.",
            why: "A file that is edited by hand may be saved half finished. Turn it on if a tool replaces the whole \
                file atomically.",
        };
        /// File for the orders of operators; `None` = they are lost at a restart.
        state: Option<PathBuf> = Key {
            name: "state",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("drains and other orders are lost at a restart"),
            help: "File that keeps operators' orders, such as drained endpoints, across restarts.",
            why: "Reloads and upgrades keep the orders without a file.",
        };
        /// True if other processes of the same user may listen at the same addresses.
        share_ports: bool = Key {
            name: "share_ports",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Allows another evenkeel of the same user, with the same setting, to listen on the same addresses, \
                such as a container that replaces this one. The kernel spreads clients over both. Without it, an \
                address in use is an error.",
            why: "It is rarely intended that two processes each get half of the clients.",
        };
        /// Most idle connections to endpoints, over all pools and workers.
        idle_connections: IdleConnections = Key {
            name: "idle_connections",
            kind: Kind::IntOr { min: 0, max: 10_000_000, word: "auto" },
            absent: Absent::Default("\"auto\""),
            help: "Maximum idle connections to endpoints, over all pools and workers. The least recently used \
                connections are closed first. `\"auto\"`: a quarter of the process's file descriptor limit.",
            why: "Each connection takes a descriptor that a client may need, and most requests use the most recent \
                connections.",
        };
        /// Largest program of a regular expression, in bytes.
        regex_size: usize = Key {
            name: "regex_size",
            kind: Kind::Size { min: 1 << 10, max: REGEX_SIZE_MAX as u64, off: false },
            absent: Absent::Default("\"32KiB\""),
            help: "Maximum size of a compiled regular expression of this file. For objects of providers, the limit is \
                32 KiB, or this value if it is lower.",
            why: "Memory and the time of a reload grow with the size. `\\w+` takes 18 KiB, since it includes all \
                letters of Unicode; `[A-Za-z0-9_]+` takes 1 KiB.",
        };
        /// Most memory of all compressors for responses, in bytes.
        compression_memory: u64 = Key {
            name: "compression_memory",
            kind: Kind::Size { min: 1 << 20, max: 1 << 40, off: false },
            absent: Absent::Default("\"256MiB\""),
            help: "Maximum memory for compressing responses while they are sent, over all routes. Beyond that, \
                responses are compressed by gzip with a small window, and then not at all.",
            why: "Some 200 streams in zstd or Brotli, or 700 in gzip. A client that does not read holds a compressor \
                for each of its streams.",
        };
        /// Log of the process. Requests go to [`Telemetry::access_log`](crate::plan::Telemetry::access_log).
        log: Log = Key {
            name: "log",
            kind: Kind::Table(&LOG),
            absent: Absent::Means("its defaults"),
            help: "Log of the process, on standard error.",
            why: "",
        };
    }
}

table! {
    static LOG = "log of [runtime]",
        "Log of the process. Requests are never logged here, only in the access log.";

    /// `log` of `[runtime]`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Log {
        /// Least severe level that is written.
        level: Level = Key {
            name: "level",
            kind: Kind::Choice(Level::WORDS),
            absent: Absent::Default("\"info\""),
            help: "Least severe level to write.",
            why: "Covers starts, stops and changes, but nothing per request.",
        };
        format: LogFormat = Key {
            name: "format",
            kind: Kind::Choice(LogFormat::WORDS),
            absent: Absent::Default("\"text\""),
            help: "Format of a line.",
            why: "The first reader is a person at a terminal. Collectors want `json`.",
        };
    }
}

/// Number of event loops, each on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// A loop per core available to the process.
    Auto,
    /// This many: 1 to 1024.
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

/// Limit of idle connections to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleConnections {
    /// A quarter of the file descriptor limit.
    Auto,
    /// This many: 0 to 10,000,000.
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

impl Runtime {
    /// File of the key that signs cookies of sticky sessions, for pools without a separate key.
    pub fn sticky_key(&self) -> PathBuf {
        let folder = self.state.as_deref().and_then(Path::parent).unwrap_or(Path::new(STATE_FOLDER));
        folder.join("sticky.key")
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
    /// Format of the process log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogFormat {
        /// Lines for people at a terminal.
        Text = "text",
        /// Lines of JSON, each an object.
        Json = "json",
    }
}
