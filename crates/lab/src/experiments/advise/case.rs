//! A case: a configuration, the endpoints behind it, and the requests of its clients.

use crate::timed::Server;

/// Configuration with its endpoints and its load.
pub struct Case {
    pub name: &'static str,
    /// Property of the endpoints or the load that advice may depend on.
    pub about: &'static str,
    /// Program whose configuration `text` is; `None` for evenkeel's own.
    pub from: Option<&'static str>,
    pub text: &'static str,
    /// Replacements of addresses and paths. `{l0}` is the port of the first listener, `{s0}` of the first endpoint,
    /// `{admin}` of the admin listener, `{log}` the access log, `{folder}` the folder of the case.
    pub edits: &'static [(&'static str, &'static str)],
    pub servers: &'static [Server],
    pub streams: &'static [Stream],
    /// Mean requests per second, of all streams.
    pub rate: f64,
    /// Distribution of work: log-normal with sigma 1.2 instead of exponential.
    pub heavy: bool,
    /// True if clients open a connection for each request.
    pub fresh: bool,
    /// True if it runs with `--quick`.
    pub quick: bool,
}

pub struct Stream {
    pub share: f64,
    /// Counts from 0, in the order of `{l0}`.
    pub listener: usize,
    pub method: &'static str,
    pub host: &'static str,
    /// Path; `{}` is replaced by a number. Responses below `/static/` are fresh for a minute.
    pub path: &'static str,
    /// Count of different numbers in paths; 0 for a new number in each request.
    pub paths: usize,
    /// Body of a response, in bytes.
    pub size: usize,
    /// Mean work of a request, in milliseconds.
    pub work_ms: f64,
}

impl Stream {
    pub const fn get(host: &'static str, path: &'static str, work_ms: f64) -> Stream {
        Stream { share: 1.0, listener: 0, method: "GET", host, path, paths: 0, size: 600, work_ms }
    }

    pub const fn post(host: &'static str, path: &'static str, work_ms: f64) -> Stream {
        Stream { method: "POST", ..Stream::get(host, path, work_ms) }
    }

    pub const fn share(self, share: f64) -> Stream {
        Stream { share, ..self }
    }

    pub const fn of(self, paths: usize, size: usize) -> Stream {
        Stream { paths, size, ..self }
    }

    pub const fn at(self, listener: usize) -> Stream {
        Stream { listener, ..self }
    }
}
