//! Requests remembered by all workers of a pool, merged in order of their starts.

use evenkeel_balance::Member;
use evenkeel_balance::recent::{Recent, Row, Way};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Minimum requests. With 100, a share of 50 % has a standard deviation of 5 percentage points.
const REQUESTS_MIN: usize = 100;

/// Maximum share of requests that failed, of those that were retried, and of those that are still open; with more, the
/// others no longer represent the load.
const ODD_MAX: f64 = 0.02;

/// Request remembered by a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Start, in nanoseconds since the start of the first request.
    pub at: u64,
    pub worker: u32,
    pub key: Option<u64>,
    /// Index of its endpoint among the members.
    pub endpoint: usize,
    /// True if the endpoint was chosen by something other than the algorithm.
    pub given: bool,
    pub held_ns: u64,
    pub latency_ns: u64,
    /// Requests of this process in flight at its start: at its endpoint, and in total.
    pub found: u32,
    pub found_in_all: u32,
    /// Nanoseconds since the latest end of any request; `u64::MAX` for none before.
    pub after_end_ns: u64,
}

/// All remembered requests of a pool.
#[derive(Debug)]
pub(super) struct Trace {
    pub arrivals: Vec<Arrival>,
    pub members: Vec<Member>,
    pub workers: u32,
    /// Time from the first start to the last, in nanoseconds.
    pub span_ns: u64,
    /// Message if too many requests cannot be replayed: their share, and why.
    pub odd: Option<String>,
}

impl Trace {
    /// Merges the records of all workers.
    ///
    /// # Errors
    /// The reason why no prediction is possible.
    pub fn of(workers: &[Recent]) -> Result<Trace, String> {
        let Some(first) = workers.iter().find(|of| !of.rows.is_empty()) else { return Err(too_few(0)) };
        let members: Vec<Member> = first.set.members().to_vec();
        let ids = |of: &Recent| of.set.members().iter().map(|m| (m.id, m.weight)).collect::<Vec<_>>();
        if workers.iter().any(|of| !of.rows.is_empty() && ids(of) != ids(first)) {
            return Err("its workers do not have the same endpoints yet".to_string());
        }
        let (from, to) = window(workers);
        let mut rows: Vec<(u32, Row)> = Vec::new();
        let (mut all, mut elsewhere, mut failed, mut open) = (0usize, 0usize, 0usize, 0usize);
        for (worker, of) in (0..).zip(workers) {
            for row in of.rows.iter().filter(|row| (from..to).contains(&row.began.0)) {
                all += 1;
                elsewhere += usize::from(row.way == Way::Elsewhere);
                failed += usize::from(row.failed);
                open += usize::from(row.held_ns == Row::OPEN);
                if row.held_ns != Row::OPEN {
                    rows.push((worker, *row));
                }
            }
        }
        rows.sort_by_key(|(_, row)| row.began);
        let position: BTreeMap<usize, usize> = (0..).zip(&members).map(|(at, m)| (m.slot.index(), at)).collect();
        let arrivals = arrivals(&rows, &position);
        if arrivals.len() < REQUESTS_MIN {
            return Err(too_few(arrivals.len()));
        }
        let odd = [
            (elsewhere, "were tried again, or went to another tier or zone"),
            (failed, "failed, or their client went away"),
            (open, "are open for longer than the others took"),
        ];
        let part = |count: usize| count as f64 / all as f64;
        let odd = odd.into_iter().find(|&(count, _)| part(count) > ODD_MAX);
        let odd = odd.map(|(count, why)| format!("{:.0} % of the requests {why}", 100.0 * part(count)));
        let span_ns = arrivals.last().map_or(0, |last| last.at);
        Ok(Trace { arrivals, members, workers: workers.len() as u32, span_ns, odd })
    }

    /// Share of the requests by member.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.members.len()];
        self.arrivals.iter().for_each(|a| shares[a.endpoint] += 1.0 / self.arrivals.len() as f64);
        shares
    }

    /// Quantile `part` (0 to 1) of the latency, in nanoseconds.
    pub fn latency_ns(&self, part: f64) -> f64 {
        quantile(self.arrivals.iter().map(|a| a.latency_ns).collect(), part)
    }

    /// Mean requests in flight at the endpoint when a request starts.
    pub fn met(&self) -> f64 {
        self.arrivals.iter().map(|a| f64::from(a.found)).sum::<f64>() / self.arrivals.len() as f64
    }
}

pub(super) fn quantile(mut values: Vec<u64>, part: f64) -> f64 {
    let at = ((values.len() as f64 * part) as usize).min(values.len().saturating_sub(1));
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable(at).1 as f64 }
}

fn too_few(requests: usize) -> String {
    format!("{requests} requests since its endpoints last changed; {REQUESTS_MIN} are needed")
}

/// Returns the start from which all workers have complete records, and the end of the starts to use, early enough for
/// open requests to have ended.
fn window(workers: &[Recent]) -> (u64, u64) {
    let full = |of: &&Recent| of.rows.len() >= evenkeel_balance::recent::ROWS_MAX;
    let from = workers.iter().filter(full).map(|of| of.rows[0].began.0).max().unwrap_or(0);
    let rows = || workers.iter().flat_map(|of| &of.rows).filter(|row| row.began.0 >= from);
    let held = |row: &Row| if row.held_ns == Row::OPEN { 0 } else { row.held_ns };
    let first = rows().map(|row| row.began.0).min().unwrap_or(0);
    let last = rows().map(|row| row.began.0 + held(row)).max().unwrap_or(0);
    let longest = rows().map(held).max().unwrap_or(0);
    // At most a quarter is given up because of requests that may not have ended yet.
    let open = rows().any(|row| row.held_ns == Row::OPEN);
    let tail = if open { longest.min((last - first) / 4) } else { 0 };
    (from, (last - tail).saturating_add(1))
}

/// Adds to each row the requests in flight at its start. `position` maps slots to indices among the members.
fn arrivals(rows: &[(u32, Row)], position: &BTreeMap<usize, usize>) -> Vec<Arrival> {
    let first = rows.first().map_or(0, |(_, row)| row.began.0);
    let mut running: BTreeMap<usize, BinaryHeap<Reverse<u64>>> = BTreeMap::new();
    let (mut in_all, mut latest_end) = (BinaryHeap::<Reverse<u64>>::new(), None);
    let mut arrivals = Vec::with_capacity(rows.len());
    for (worker, row) in rows {
        let (began, end) = (row.began.0, row.began.0 + row.held_ns);
        while in_all.peek().is_some_and(|Reverse(end)| *end <= began) {
            latest_end = in_all.pop().map(|Reverse(end)| end);
        }
        let here = running.entry(row.slot.index()).or_default();
        while here.peek().is_some_and(|Reverse(end)| *end <= began) {
            here.pop();
        }
        if let Some(&endpoint) = position.get(&row.slot.index()) {
            arrivals.push(Arrival {
                at: began - first,
                worker: *worker,
                key: row.keyed.then_some(row.key),
                endpoint,
                given: row.way != Way::Picked,
                held_ns: row.held_ns,
                latency_ns: row.latency_ns,
                found: here.len() as u32,
                found_in_all: in_all.len() as u32,
                after_end_ns: latest_end.map_or(u64::MAX, |end| began - end),
            });
        }
        here.push(Reverse(end));
        in_all.push(Reverse(end));
    }
    arrivals
}
