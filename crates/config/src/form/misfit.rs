//! Why does a string not have its form?

use crate::code::Code;

/// Why a string does not have its form.
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
