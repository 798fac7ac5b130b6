//! Reasons why a line is not read as a request.

use std::fmt;

/// Fault of a line that is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The line lacks this value, or the text before it.
    Lacks(&'static str),
    /// The value has another form than the format prescribes.
    Malformed(&'static str),
    /// Text follows the last value of the format.
    Longer,
    /// Line of more than 64 KiB.
    TooLong,
    /// Notice of the program that is not about a request.
    Notice,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Lacks(name) => write!(f, "no {name}"),
            Fault::Malformed(name) => write!(f, "malformed {name}"),
            Fault::Longer => f.write_str("text after the last value"),
            Fault::TooLong => f.write_str("longer than 64 KiB"),
            Fault::Notice => f.write_str("not about a request"),
        }
    }
}

impl std::error::Error for Fault {}
