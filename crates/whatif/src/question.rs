//! Questions: other policies, and other conditions.

use crate::policy::Candidate;

/// Conditions to try policies in; by default as in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// Factor of the rate of requests.
    pub load: f64,
    /// Balancers that know nothing of each other.
    pub balancers: u32,
    /// Endpoints that are added, each like the median endpoint of the log.
    pub added: u32,
    /// Members that are removed.
    pub removed: Vec<usize>,
    /// Members that are slower, with the factor of their work.
    pub slowed: Vec<(usize, f64)>,
    /// Most tries after the first; `None` as in the log.
    pub retries: Option<u32>,
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions { load: 1.0, balancers: 1, added: 0, removed: Vec::new(), slowed: Vec::new(), retries: None }
    }
}

impl Conditions {
    /// True if nothing differs from the log.
    pub fn are_those_of_the_log(&self) -> bool {
        *self == Conditions::default()
    }
}

/// A policy under conditions.
#[derive(Clone, Debug)]
pub struct Question {
    pub label: String,
    pub policy: Candidate,
    pub conditions: Conditions,
}
