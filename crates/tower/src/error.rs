//! Errors of the balancer itself, as opposed to errors of endpoints.

use evenkeel_balance::algorithms;
use evenkeel_balance::params::ParamError;
use std::fmt;
use tower::BoxError;

/// Reason why a [`Builder`](crate::Builder) cannot build a balancer.
#[derive(Clone, Debug, PartialEq)]
pub enum BuildError {
    /// No algorithm has this name.
    UnknownAlgorithm(String),
    /// The algorithm has no such parameter, or does not allow its value.
    Param(ParamError),
    /// The algorithm of this name needs [`Builder::key`](crate::Builder::key).
    NeedsKey(&'static str),
    /// The algorithm of this name needs load reports of endpoints, but
    /// [`Completion::REPORTS`](crate::Completion::REPORTS) is false.
    NeedsReports(&'static str),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::UnknownAlgorithm(name) => {
                let names: Vec<_> = algorithms::ALL.iter().map(|algorithm| algorithm.name).collect();
                write!(f, "unknown algorithm \"{name}\"; there are: {}", names.join(", "))
            }
            BuildError::Param(error) => write!(f, "{error}"),
            BuildError::NeedsKey(name) => {
                write!(f, "\"{name}\" needs a key of each request; give one with Builder::key")
            }
            BuildError::NeedsReports(name) => write!(
                f,
                "\"{name}\" needs the load that endpoints report; give a Completion whose REPORTS is true, or take \
                 \"leastconn\", which counts by itself"
            ),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<ParamError> for BuildError {
    fn from(error: ParamError) -> BuildError {
        BuildError::Param(error)
    }
}

/// Error of `poll_ready`: the source of endpoints failed.
#[derive(Debug)]
pub struct DiscoverError(pub(crate) BoxError);

impl fmt::Display for DiscoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the source of endpoints failed: {}", self.0)
    }
}

impl std::error::Error for DiscoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// Error of a call that found no ready endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unready;

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no endpoint is ready: poll_ready was not called before, or the last ready one failed since")
    }
}

impl std::error::Error for Unready {}
