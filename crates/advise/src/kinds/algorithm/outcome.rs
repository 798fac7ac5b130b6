//! Advice on an algorithm by recorded requests, or the reason for advice without them; and the name of both.

use crate::advice::Advice;

pub(super) const KIND: &str = "algorithm";

pub(super) enum Outcome {
    Answered(Box<Advice>),
    /// Reason why the records cannot answer, as a sentence.
    Refused(String),
}
