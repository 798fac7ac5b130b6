//! Errors of experiments; their messages say how to fix them.

use crate::requirements;
use std::fmt;
use std::io;

/// Result of everything in the lab that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why an experiment ended without a figure.
#[derive(Debug)]
pub enum Error {
    /// A program that the experiment runs is not installed.
    Missing(String),
    /// The experiment needs root, for this purpose.
    NeedsRoot(&'static str),
    /// The system refused an operation, described by the text.
    Os(String, io::Error),
    /// A process, file or option is wrong, described by the text.
    Wrong(String),
    /// There is a figure, but it would mislead: errors under load, or something else was measured than intended.
    Refused(String),
    /// Interrupted by Ctrl-C or SIGTERM.
    Interrupted,
}

impl Error {
    /// True if this machine lacks a requirement, so that the experiment cannot run here.
    pub fn cannot_run(&self) -> bool {
        matches!(self, Error::Missing(_) | Error::NeedsRoot(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing(program) => write!(f, "{program} is not installed: {}", requirements::hint(program)),
            Error::NeedsRoot(what) => write!(f, "{what} need root: run this experiment as root"),
            Error::Os(doing, source) => write!(f, "{doing}: {source}"),
            Error::Wrong(text) => f.write_str(text),
            Error::Refused(text) => write!(f, "no figure, it would mislead: {text}"),
            Error::Interrupted => f.write_str("interrupted; every process that was started has been ended"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Os(_, source) => Some(source),
            _ => None,
        }
    }
}

/// Adds the failed operation to a system error.
pub trait While<T> {
    /// Converts the error; `doing` is called on failure only.
    fn or_say(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> While<T> for std::result::Result<T, E> {
    fn or_say(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::Os(doing(), e.into()))
    }
}
