//! Systems, and courses of runs through them.

use crate::replay::bounds::Bound;
use crate::replay::clients::Clients;
use crate::replay::fit::Way;
use crate::replay::trace::Trace;
use evenkeel_balance::{Algorithm, EndpointSpec, Instant, Params, Pool, control, hedge, slow_start};

/// Endpoints and clients that an algorithm is run with.
#[derive(Clone, Debug)]
pub struct System<'a> {
    pub trace: &'a Trace,
    /// Members of the pool: those of the trace, or others in their place.
    pub members: &'a [EndpointSpec],
    /// Models by member of the pool.
    pub ways: Vec<&'a Way>,
    pub clients: Clients,
    pub answers_probes: bool,
    /// Work of each request of the trace by its rank among the samples of an endpoint, 0 to 1; `None` draws it.
    pub ranks: Option<&'a [f32]>,
}

/// Algorithm and conditions of a run.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    pub algorithm: &'static Algorithm,
    pub params: &'a Params,
    pub seed: u64,
    /// Factor of the rate at which requests arrive.
    pub pace: f64,
    /// Most tries of a request after the first, each at another endpoint and at once.
    pub retries: u32,
    /// Balancers that know nothing of each other; each request comes to a random balancer.
    pub balancers: u32,
    /// Choice instead of the algorithm's.
    pub bound: Option<Bound>,
    /// Most requests that wait when all endpoints are at their limits.
    pub queue: u32,
    pub hedging: Option<Hedging>,
    pub joining: Option<Joining<'a>>,
}

impl<'a> Course<'a> {
    /// Course of a single balancer without retries, at the rate of the trace.
    pub fn new(algorithm: &'static Algorithm, params: &'a Params, seed: u64) -> Course<'a> {
        let (bound, hedging, joining) = (None, None, None);
        Course { algorithm, params, seed, pace: 1.0, retries: 0, balancers: 1, bound, queue: 0, hedging, joining }
    }
}

/// Second copies of slow requests.
#[derive(Clone, Copy, Debug)]
pub struct Hedging {
    pub settings: hedge::Settings,
    /// True if a request takes its work along to every endpoint; false if each endpoint draws its own.
    pub is_of_demand: bool,
}

/// Members that join once a third of the usual requests has come. Figures are of the requests from then on.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// Number of members that join: the last of the system.
    pub members: usize,
    pub slow_start: Option<slow_start::Settings>,
    /// Time from the join that is measured, in nanoseconds.
    pub window_ns: u64,
    /// Factors of the work of a request that comes to a member up to these times after it joined, in nanoseconds and in
    /// ascending order. Later, the member is warm.
    pub cold: &'a [(u64, f64)],
}

impl Joining<'_> {
    /// Lets a pool ramp the endpoints that join it.
    pub(super) fn configure(&self, pool: &mut Pool) {
        pool.configure(control::Settings { slow_start: self.slow_start, ..control::Settings::default() }, Instant(0));
    }

    /// Factor of the work of a request that comes so long after the join.
    pub(super) fn factor(&self, age_ns: u64) -> f64 {
        self.cold.iter().find(|(until, _)| age_ns < *until).map_or(1.0, |(_, factor)| *factor)
    }
}
