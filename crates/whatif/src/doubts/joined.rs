//! Endpoints that joined or left while the log was written.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;

/// Requests that an endpoint would have had in the time without any, by its own rate; chance does not explain more.
const EXPECTED_MIN: f64 = 30.0;

/// Least share of the log that it is without requests.
const SHARE_MIN: f64 = 0.03;

pub(super) fn joins_or_leaves(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let trace = &traffic.trace;
    let mut spans = vec![(u64::MAX, 0u64, 0u64); traffic.names.len()];
    for a in &trace.arrivals {
        let (first, last, count) = &mut spans[a.endpoint];
        (*first, *last, *count) = ((*first).min(a.at), a.at, *count + 1);
    }
    let span = trace.span_ns as f64;
    spans.iter().enumerate().filter(|(_, (.., count))| *count > 1).find_map(|(at, &(first, last, count))| {
        let rate = count as f64 / (last - first).max(1) as f64;
        let without = |ns: u64| ns as f64 > SHARE_MIN * span && ns as f64 * rate > EXPECTED_MIN;
        let (start, end) = (without(first), without(trace.span_ns - last));
        (start || end).then(|| {
            let (ns, part) = if start { (first, "first") } else { (trace.span_ns - last, "last") };
            let text = format!(
                "{} has no request in the {part} {:.0} s: the pool changed",
                traffic.names[at],
                ns as f64 / 1e9
            );
            Doubt::new("endpoints", text, "give the part of the log in which all endpoints are used")
        })
    })
}
