//! The error of a string that does not have its [`Form`](super::Form).

use crate::code::Code;

/// Error of a string: code, message and help.
#[derive(Debug, PartialEq)]
pub(crate) struct Misfit {
    pub code: Code,
    pub message: String,
    pub help: String,
}

impl Misfit {
    pub(super) fn new(code: Code, message: impl Into<String>, help: impl Into<String>) -> Misfit {
        Misfit { code, message: message.into(), help: help.into() }
    }
}
