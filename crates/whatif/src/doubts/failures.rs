//! Requests that failed, or that no endpoint got.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;
use evenkeel_sim::replay::trace::Kind;

/// Largest share of requests whose tries all failed, and of requests without an endpoint.
const FAILED_MAX: f64 = 0.1;
const UNSERVED_MAX: f64 = 0.05;

pub(super) fn many(record: &Record, traffic: &Traffic) -> Option<Doubt> {
    let requests = traffic.trace.arrivals.iter().filter(|a| a.kind != Kind::Again).count().max(1) as f64;
    let failed = traffic.rows.iter().filter(|row| row.tries().all(|of| of.failed)).count();
    let failed = failed as f64 / traffic.rows.len().max(1) as f64;
    if failed > FAILED_MAX {
        let text =
            format!("{:.0} % of the requests failed: their times say nothing about the work of others", 100.0 * failed);
        return Some(Doubt::new("failures", text, "give a log of usual operation"));
    }
    let unserved = record.unserved as f64 / (record.unserved as f64 + requests);
    (unserved > UNSERVED_MAX && record.pools.len() == 1).then(|| {
        let text = format!(
            "{:.0} % of the requests got no endpoint: the pool was overloaded or down, or they were answered by the balancer itself",
            100.0 * unserved
        );
        Doubt::new("failures", text, "give a log without refused requests, or the requests of the pool only")
    })
}
