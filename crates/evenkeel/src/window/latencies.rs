//! How long did requests take at each endpoint, until now and until a while ago?

use super::counts;
use evenkeel_proxy::Generation;
use evenkeel_proxy::latency::Latencies;
use std::collections::HashMap;
use std::sync::Arc;

/// The latencies of every endpoint until now: by pool, then by endpoint, in the order of the plan.
pub fn latencies(now: &Generation) -> Vec<Vec<Latencies>> {
    let pools = now.plan.pools.iter().enumerate();
    pools.map(|(p, pool)| (0..pool.endpoints.len()).map(|e| counts::latencies(now, p, e)).collect()).collect()
}

/// Those of a while ago, by name of the pool and of the endpoint, for what has been since.
pub type Before = HashMap<(Arc<str>, Arc<str>), Latencies>;
