//! Why could a plan not be started?

use evenkeel_config::plan::{LineSink, LogTarget};
use evenkeel_net::listen::CannotListen;
use evenkeel_tls::Problem;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a plan could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A listener's address cannot be listened on.
    Listen(CannotListen),
    /// Probes cannot be taken at a listener's address.
    Probes(SocketAddr, io::Error),
    /// The access log cannot be opened.
    AccessLog(LineSink, io::Error),
    /// The journal of a pool cannot be opened.
    Journal(LogTarget, io::Error),
    /// A pool's algorithm refuses its parameters.
    Balance(Arc<str>, evenkeel_balance::params::ParamError),
    /// The key of a pool's sticky sessions cannot be had.
    Sticky(Arc<str>, io::Error),
    /// An error page cannot be read, or is too large.
    ErrorPage(PathBuf, io::Error),
    /// The secret that asks for explanations cannot be had.
    Explain(PathBuf, io::Error),
    /// A file of a listener or a pool that speaks TLS cannot be used.
    Tls(Problem),
    /// A pool's connections shall come from clients' addresses, and the process may not do that.
    Source(Arc<str>, io::Error),
    /// A thread cannot be made.
    Thread(io::Error),
    /// The process is to end, and a worker has not applied the plan.
    Interrupted,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(error) => error.fmt(f),
            StartError::Probes(addr, error) => write!(f, "cannot take probes by datagram at {addr}: {error}"),
            StartError::AccessLog(LineSink::File(path), error) => {
                write!(f, "access log: cannot open {}: {error}", path.display())
            }
            StartError::AccessLog(_, error) => write!(f, "access log: {error}"),
            StartError::Journal(LogTarget::File(path), error) => {
                write!(f, "journal: cannot open {}: {error}", path.display())
            }
            StartError::Journal(LogTarget::Stdout, error) => write!(f, "journal: {error}"),
            StartError::Sticky(pool, error) => write!(f, "pool \"{pool}\": the key of its sticky sessions: {error}"),
            StartError::ErrorPage(path, error) => write!(f, "error page {}: {error}", path.display()),
            StartError::Explain(path, error) => write!(f, "telemetry.explain: {}: {error}", path.display()),
            StartError::Tls(problem) => problem.fmt(f),
            StartError::Source(pool, error) => write!(
                f,
                "pool \"{pool}\": source = \"client\" takes CAP_NET_ADMIN or CAP_NET_RAW, which this process lacks: {error}"
            ),
            StartError::Balance(pool, error) => write!(f, "pool \"{pool}\": {error}"),
            StartError::Thread(error) => write!(f, "cannot start a worker: {error}"),
            StartError::Interrupted => f.write_str("interrupted while a worker had not applied the plan"),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StartError::Listen(e) => e.source(),
            StartError::Probes(_, e) => Some(e),
            StartError::AccessLog(_, e) | StartError::Journal(_, e) => Some(e),
            StartError::Sticky(_, e)
            | StartError::ErrorPage(_, e)
            | StartError::Explain(_, e)
            | StartError::Source(_, e)
            | StartError::Thread(e) => Some(e),
            StartError::Balance(_, e) => Some(e),
            StartError::Tls(e) => Some(e),
            StartError::Interrupted => None,
        }
    }
}
