//! What did one run come to?

use crate::load::generator::Outcome;
use crate::study::Used;

/// What was measured of a run.
pub struct Run {
    /// What clients met.
    pub load: Outcome,
    /// Of each process, by node and then by service: the most requests that it had at once.
    pub peaks: Vec<f64>,
    /// CPU time.
    pub used: Used,
    /// That by service, each with its sidecars.
    pub kinds: Used,
}
