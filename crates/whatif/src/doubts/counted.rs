//! Requests in flight as the balancer counted them, compared with those that the log has.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;
use std::collections::BTreeMap;

/// Largest ratio of the two counts, and largest difference.
const RATIO_MAX: f64 = 1.2;
const MORE_MAX: f64 = 0.2;

pub(super) fn more_in_flight(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let mut events: BTreeMap<u32, Vec<(u64, i32)>> = BTreeMap::new();
    for tried in traffic.rows.iter().flat_map(|row| row.tries()) {
        let of = events.entry(tried.endpoint).or_default();
        of.push((tried.began, 1));
        of.push((tried.began + tried.held, -1));
    }
    events.values_mut().for_each(|of| of.sort_unstable());
    let ends: Vec<_> =
        traffic.rows.iter().filter_map(|row| Some((row.more.last().unwrap_or(&row.first), row.counted?))).collect();
    if ends.len() * 2 < traffic.rows.len() || ends.is_empty() {
        return None;
    }
    // Counts before each end, with the request itself.
    let mut running: BTreeMap<u32, Vec<(u64, i32)>> = BTreeMap::new();
    for (&endpoint, of) in &events {
        let mut count = 0;
        let sums = of.iter().map(|&(at, change)| {
            count += change;
            (at, count)
        });
        running.insert(endpoint, sums.collect());
    }
    let (mut rebuilt, mut counted) = (0.0, 0.0);
    for (tried, count) in &ends {
        let of = &running[&tried.endpoint];
        let before = of.partition_point(|&(at, _)| at < tried.began + tried.held);
        rebuilt += before.checked_sub(1).map_or(0.0, |at| f64::from(of[at].1));
        counted += f64::from(*count);
    }
    let (rebuilt, counted) = (rebuilt / ends.len() as f64, counted / ends.len() as f64);
    (counted > RATIO_MAX * rebuilt + MORE_MAX).then(|| {
        let text = format!(
            "the balancer counted {counted:.1} requests in flight at an endpoint on average, and the lines account for {rebuilt:.1}: the \
             log is a sample, or lines are missing"
        );
        Doubt::new("sampled", text, "log every request")
    })
}
