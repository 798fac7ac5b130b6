//! Native histograms of how long requests took at each endpoint.

use evenkeel_admin::exposition::{Native, Series};
use evenkeel_runtime::Ledger;
use evenkeel_view::latencies::{FIRST, Latencies, SCHEMA};
use evenkeel_view::timeline::{Counted, PoolCounted};

/// Name and meaning of the native histogram of each endpoint.
pub const NATIVE: (&str, &str) = (
    "evenkeel_endpoint_ttfb_seconds",
    "Time from the request head to the response head, for each endpoint with requests; for TCP sessions, the time to \
     connect; for UDP flows, the time to the first answer; a native histogram, only in protocol buffers",
);

/// Returns the latencies of each endpoint that had requests, as Prometheus takes them: a single series for each
/// endpoint.
pub fn native(now: &Ledger) -> Vec<Native> {
    // The first step holds all shorter latencies, which count as zero.
    let first = FIRST << SCHEMA;
    let one = |pool: &str, endpoint: &str, latencies: Latencies| Series {
        labels: vec![("pool", pool.to_owned()), ("endpoint", endpoint.to_owned())],
        sum: latencies.sum_ns as f64 / 1e9,
        zeros: latencies.steps[0],
        steps: (first..).zip(latencies.steps.iter().copied()).skip(1).collect(),
    };
    let mut series = Vec::new();
    for pool in now.pools() {
        let latencies = pool.endpoints().enumerate().map(|(e, endpoint)| (endpoint, pool.latencies(e)));
        let used = latencies.filter(|(_, latencies)| latencies.count() > 0);
        series.extend(used.map(|(endpoint, latencies)| one(pool.name(), endpoint, latencies)));
    }
    let ((name, help), zero_threshold) = (NATIVE, f64::from(FIRST).exp2());
    vec![Native { name, help, schema: SCHEMA, zero_threshold, series }]
}
