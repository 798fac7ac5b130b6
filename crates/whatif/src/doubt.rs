//! Reasons for refusals, with their remedies.

/// Reason why a log cannot answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// Word for machines, such as `gap`; docs/guide/what-if.md has all.
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
