//! A doubt as it is shown.

/// Reason why a log cannot answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// Kind, for machines.
    pub kind: &'static str,
    /// Observation and its consequence, without a full stop.
    pub text: String,
    /// Remedy, without a full stop.
    pub help: String,
}

impl Doubt {
    pub fn new(kind: &'static str, text: impl Into<String>, help: impl Into<String>) -> Doubt {
        Doubt { kind, text: text.into(), help: help.into() }
    }
}
