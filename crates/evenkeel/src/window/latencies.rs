//! How long did requests take at each endpoint, until now and until a while ago?

use super::counts;
use evenkeel_admin::exposition::{Native, Series};
use evenkeel_proxy::Numbers;
use evenkeel_proxy::latency::{FIRST, Latencies, SCHEMA};
use std::collections::HashMap;
use std::sync::Arc;

/// The latencies of every endpoint until now: by pool, then by endpoint, in the order of the plan.
pub fn latencies(now: &Numbers) -> Vec<Vec<Latencies>> {
    let pools = now.plan().pools.iter().enumerate();
    pools.map(|(p, pool)| (0..pool.endpoints.len()).map(|e| counts::latencies(now, p, e)).collect()).collect()
}

/// Those of a while ago, by name of the pool and of the endpoint, for what has been since.
pub type Before = HashMap<(Arc<str>, Arc<str>), Latencies>;

/// What the native histogram of each endpoint is called, and what it means.
pub const NATIVE: (&str, &str) = (
    "evenkeel_endpoint_ttfb_seconds",
    "From the head of a request to the head of the response, of each endpoint that had some; a native histogram, for those who ask for \
     protocol buffers",
);

/// The latencies of each endpoint that had requests, as Prometheus takes them: all of an endpoint in one series.
pub fn native(now: &Numbers) -> Vec<Native> {
    if !now.plan().telemetry.metrics.per_endpoint {
        return Vec::new();
    }
    // The first step has all that is shorter, which counts as zero.
    let first = FIRST << SCHEMA;
    let one = |pool: &str, endpoint: &str, latencies: Latencies| Series {
        labels: vec![("pool", pool.to_owned()), ("endpoint", endpoint.to_owned())],
        sum: latencies.sum_ns as f64 / 1e9,
        zeros: latencies.steps[0],
        steps: (first..).zip(latencies.steps.iter().copied()).skip(1).collect(),
    };
    let mut series = Vec::new();
    for (pool, latencies) in now.plan().pools.iter().zip(latencies(now)) {
        let used = pool.endpoints.iter().zip(latencies).filter(|(_, latencies)| latencies.count() > 0);
        series.extend(used.map(|(endpoint, latencies)| one(&pool.name, &endpoint.name, latencies)));
    }
    let ((name, help), zero_threshold) = (NATIVE, f64::from(FIRST).exp2());
    vec![Native { name, help, schema: SCHEMA, zero_threshold, series }]
}
