//! Requests in flight as the balancer counted them, compared with those that the log has.

use crate::doubt::Doubt;
use crate::record::{Record, Row, Tried};
use crate::traffic::Traffic;
use std::collections::BTreeMap;

/// Largest ratio of the two counts, and largest difference.
const RATIO_MAX: f64 = 1.1;
const MORE_MAX: f64 = 0.06;

pub(super) fn more_in_flight(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let doubt = |of: usize, place: &str| {
        let group = |tried: &Tried| if of == 0 { tried.endpoint } else { 0 };
        let (rebuilt, counted) = means(&traffic.rows, group, of)?;
        (counted > RATIO_MAX * rebuilt + MORE_MAX).then(|| {
            let text = format!(
                "the balancer counted {counted:.1} requests in flight {place} on average, and the lines account for {rebuilt:.1}: the log is \
                 a sample, or lines are missing"
            );
            Doubt::new("sampled", text, "log every request")
        })
    };
    doubt(0, "at an endpoint").or_else(|| doubt(1, "in the pool"))
}

/// Mean requests in flight at the ends of requests, with each request itself: by the lines, and as counted. `None` if
/// most lines have no counts.
fn means(rows: &[Row], group: impl Fn(&Tried) -> u32, of: usize) -> Option<(f64, f64)> {
    let mut events: BTreeMap<u32, Vec<(u64, i32)>> = BTreeMap::new();
    for tried in rows.iter().flat_map(Row::tries) {
        let of = events.entry(group(tried)).or_default();
        of.push((tried.began, 1));
        of.push((tried.began + tried.held, -1));
    }
    let mut in_flight: BTreeMap<u32, Vec<(u64, i32)>> = BTreeMap::new();
    for (group, mut of) in events {
        of.sort_unstable();
        let mut count = 0;
        let sums = of.into_iter().map(|(at, change)| {
            count += change;
            (at, count)
        });
        in_flight.insert(group, sums.collect());
    }
    // HAProxy writes the line after it has stopped to count the request itself; old versions wrote it before.
    let itself = f64::from(u8::from(rows.iter().any(|row| row.counted.is_some_and(|counts| counts[0] == 0))));
    let (mut rebuilt, mut counted, mut ends) = (0.0, 0.0, 0usize);
    for (row, counts) in rows.iter().filter_map(|row| Some((row, row.counted?))) {
        let last = row.more.last().unwrap_or(&row.first);
        let of_group = &in_flight[&group(last)];
        let before = of_group.partition_point(|&(at, _)| at < last.began + last.held);
        rebuilt += before.checked_sub(1).map_or(0.0, |at| f64::from(of_group[at].1));
        counted += f64::from(counts[of]) + itself;
        ends += 1;
    }
    (ends * 2 >= rows.len() && ends > 0).then(|| (rebuilt / ends as f64, counted / ends as f64))
}
