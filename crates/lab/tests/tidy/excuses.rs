//! Which crates need not keep a rule yet, and why? To be emptied: an excuse that is not needed any more is out of order too.

use crate::order::CIRCLES;
use crate::rule::{File, Finding};
use crate::sizes::FULL;

/// Rule, crate or folder, reason.
const EXCUSED: &[(&str, &str, &str)] = &[];

/// Whether a crate, or a folder, need not keep a rule.
pub fn excused(rule: &str, place: &str) -> bool {
    EXCUSED.iter().any(|(name, of, reason)| *name == rule && *of == place && !reason.is_empty())
}

/// What there is to say, at a file of it, of a place that keeps a rule without having to.
pub fn unneeded(rule: &str, place: &str, at: &File) -> Option<Finding> {
    let error = format!("{place} is excused, but keeps the rule: {rule}");
    excused(rule, place).then(|| at.finding(0, error, "take it out of EXCUSED"))
}
