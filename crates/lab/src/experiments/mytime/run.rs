//! Result of a run: latency, CPU time, and peaks of concurrent requests.

use crate::load::generator::Outcome;
use crate::study::Used;

pub struct Run {
    pub load: Outcome,
    /// Maximum concurrent requests of each process, by node, then by service.
    pub peaks: Vec<f64>,
    pub used: Used,
    /// CPU time by service, each with its sidecars.
    pub kinds: Used,
}

impl Run {
    /// CPU time of the services per request, in milliseconds. The work per request is constant, so this measures the
    /// speed of the processors in this run.
    pub fn work_ms(&self) -> f64 {
        self.used.of("services").as_secs_f64() * 1e3 / self.load.answered.max(1) as f64
    }

    /// Requests per second, scaled to 1 ms of service CPU time per request.
    pub fn rate_at_equal_speed(&self) -> f64 {
        self.load.rate * self.work_ms()
    }
}
