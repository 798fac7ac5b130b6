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

impl Run {
    /// CPU time that a request took the services. They do the same for each, so it says how fast the processors were, whatever else
    /// the machine did.
    pub fn work_ms(&self) -> f64 {
        self.used.of("services").as_secs_f64() * 1e3 / self.load.answered.max(1) as f64
    }

    /// Requests a second, if a request took the services 1 ms of CPU time.
    pub fn rate_at_equal_speed(&self) -> f64 {
        self.load.rate * self.work_ms()
    }
}
