//! Order of the lines. A program writes lines as requests end, so other orders show that times are wrong, or that the
//! log is not of one clock.

use crate::doubt::Doubt;
use crate::record::{Record, Row};
use crate::traffic::Traffic;
use evenkeel_sim::replay::quantile;
use std::collections::BTreeSet;

/// Largest share of lines that may come before the line above them: workers write at the same time.
const INVERTED_MAX: f64 = 0.1;

/// Difference that counts as an inversion, in nanoseconds; workers write lines this late.
const LATE_NS: u64 = 2_000_000;

/// Shortest step of a clock that is found, in nanoseconds.
const STEP_NS: u64 = 200_000_000;

/// Longest time for which workers keep lines before they write them together: a second in evenkeel, and in NGINX with
/// `flush=1s`, and the time until the worker runs.
const BATCH_NS: u64 = 1_500_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Number of steps back that show batches: a clock is set once.
const BATCHES_MIN: usize = 3;

/// Largest share of lines that were written twice.
const TWICE_MAX: f64 = 0.005;

/// Shares of the lines that end, and that start, before the line above them.
fn inverted(traffic: &Traffic) -> [f64; 2] {
    let late = LATE_NS.max(u64::from(traffic.unit_ns));
    let share = |of: fn(&Row) -> u64| {
        let pairs = traffic.rows.windows(2).filter(|pair| pair[0].file == pair[1].file);
        let back = pairs.filter(|pair| of(&pair[1]) + late < of(&pair[0])).count();
        back as f64 / traffic.rows.len().max(1) as f64
    };
    [share(|row| row.ended), share(|row| row.arrived)]
}

pub(super) fn neither_by_start_nor_end(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let [by_end, by_start] = inverted(traffic);
    (by_end.min(by_start) > INVERTED_MAX).then(|| {
        let text = format!(
            "{:.0} % of the lines end before the line above them, and {:.0} % start before it: a program writes lines as requests \
             end, so the durations have another unit, or the lines were mixed",
            100.0 * by_end,
            100.0 * by_start
        );
        Doubt::new("order", text, "name the format with the units of its times (--format), and give files as they were written")
    })
}

pub(super) fn goes_back(record: &Record, traffic: &Traffic) -> Option<Doubt> {
    let [by_end, by_start] = inverted(traffic);
    let at = |row: &Row| if by_end <= by_start { row.ended } else { row.arrived };
    let took = quantile(traffic.rows.iter().map(Row::took).collect(), 0.99) as u64;
    let step = STEP_NS.max(took / 4);
    let (mut latest, mut back, mut first) = (0u64, 0usize, None);
    let (mut file, mut farthest, mut steps, mut last) = (u32::MAX, 0, 0, 0);
    for row in &traffic.rows {
        if row.file != file {
            (file, latest, last) = (row.file, 0, 0);
        }
        if at(row) + step < latest {
            back += 1;
            farthest = farthest.max(latest - at(row));
            first = first.or(Some((row.file, row.line, latest - at(row))));
        }
        steps += usize::from(at(row) + step < last);
        (latest, last) = (latest.max(at(row)), at(row));
    }
    // Several workers that each write a batch of lines now and then. Times of whole seconds go back without them.
    let is_whole =
        |of: fn(&Row) -> u64| traffic.rows.windows(2).all(|pair| of(&pair[0]) % SECOND_NS == of(&pair[1]) % SECOND_NS);
    let is_coarse = is_whole(|row| row.arrived) || is_whole(|row| row.ended);
    if !is_coarse && steps >= BATCHES_MIN && farthest <= BATCH_NS.max(step) {
        return None;
    }
    let (file, line, by) = first.filter(|_| back > traffic.rows.len() / 1_000 + 2)?;
    let text = format!(
        "times go back by {:.1} s at {} line {line}: the clock was set, or lines of several instances are mixed",
        by as f64 / 1e9,
        record.files.get(file as usize).map_or("", String::as_str)
    );
    Some(Doubt::new("clock", text, "give the part before or after it, and one file for each instance"))
}

pub(super) fn repeated(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let mut seen = BTreeSet::new();
    let key = |row: &Row| (row.arrived, row.ended, row.first.endpoint, row.client);
    let twice = traffic.rows.iter().filter(|row| !seen.insert(key(row))).count();
    // Equal lines happen by chance if times are coarse.
    let share = twice as f64 / traffic.rows.len().max(1) as f64;
    let busy = traffic.trace.arrivals.len() as f64 * f64::from(traffic.unit_ns) / traffic.trace.span_ns.max(1) as f64;
    (share > TWICE_MAX + 2.0 * busy / traffic.names.len().max(1) as f64).then(|| {
        let text = format!("{:.1} % of the lines are there twice", 100.0 * share);
        Doubt::new("order", text, "give each part of the log once")
    })
}

pub(super) fn instances(record: &Record, traffic: &Traffic) -> Option<Doubt> {
    let files = record.files.len();
    let mut spans = vec![(u64::MAX, 0u64); files];
    for row in &traffic.rows {
        let span = &mut spans[row.file as usize];
        *span = (span.0.min(row.ended), span.1.max(row.ended));
    }
    let overlap = |a: (u64, u64), b: (u64, u64)| a.1.min(b.1).saturating_sub(a.0.max(b.0));
    let length = |span: (u64, u64)| span.1.saturating_sub(span.0);
    let both = (0..files).flat_map(|a| (a + 1..files).map(move |b| (a, b)));
    let mut over = both.filter(|&(a, b)| {
        let shared = overlap(spans[a], spans[b]);
        shared > STEP_NS && shared * 10 > length(spans[a]).min(length(spans[b]))
    });
    over.next().map(|(a, b)| {
        let text = format!("{} and {} are of the same time, so of several instances", record.files[a], record.files[b]);
        Doubt::new(
            "instances",
            text,
            "give the log of one instance at endpoints that only it uses, or logs of one instance in turn",
        )
    })
}
