//! Requests that waited in the balancer, as all endpoints were at their limits.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;

/// Largest share of requests that waited.
const QUEUED_MAX: f64 = 0.01;

pub(super) fn waited(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let late = u64::from(traffic.unit_ns);
    let waited = traffic.rows.iter().filter(|row| row.first.began > row.arrived + late).count();
    let share = waited as f64 / traffic.rows.len().max(1) as f64;
    (share > QUEUED_MAX).then(|| {
        let text = format!(
            "{:.0} % of the requests waited in the queue of the balancer: limits of endpoints decided where they went",
            100.0 * share
        );
        Doubt::new("queue", text, "give a log of a load at which endpoints are below their limits")
    })
}
