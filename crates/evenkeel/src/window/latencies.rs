//! How long did requests take at each endpoint, until now and until a while ago?

use super::counts;
use evenkeel_admin::exposition::{Native, Series};
use evenkeel_proxy::latency::{FIRST, Latencies, SCHEMA};
use evenkeel_proxy::{Members, Numbers};
use std::collections::HashMap;
use std::sync::Arc;

/// The latencies of each endpoint of a pool until now.
pub fn latencies(members: &Members) -> Vec<Latencies> {
    (0..members.endpoints.len()).map(|e| counts::latencies(members, e)).collect()
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
    for (pool, members) in now.plan().pools.iter().zip(now.all_members()) {
        let used = members.endpoints.iter().zip(latencies(&members)).filter(|(_, latencies)| latencies.count() > 0);
        series.extend(used.map(|(endpoint, latencies)| one(&pool.name, &endpoint.name, latencies)));
    }
    let ((name, help), zero_threshold) = (NATIVE, f64::from(FIRST).exp2());
    vec![Native { name, help, schema: SCHEMA, zero_threshold, series }]
}
