//! Requests remembered by all workers of a pool, merged in order of their starts.

use crate::replay::trace::{Kind, Seen, Trace};
use evenkeel_balance::recent::{Recent, Row, Way};
use evenkeel_balance::{EndpointSpec, Member};
use std::collections::BTreeMap;

/// Minimum requests. With 100, a share of 50 % has a standard deviation of 5 percentage points.
const REQUESTS_MIN: usize = 100;

/// Maximum share of requests that failed, of those that were retried, and of those that are still open; with more, the
/// others no longer represent the load.
const ODD_MAX: f64 = 0.02;

/// All remembered requests of a pool.
#[derive(Debug)]
pub(super) struct Remembered {
    pub trace: Trace,
    /// Message if too many requests cannot be replayed: their share, and why.
    pub odd: Option<String>,
}

impl Remembered {
    /// Merges the records of all workers.
    ///
    /// # Errors
    /// The reason why no prediction is possible.
    pub fn of(workers: &[Recent]) -> Result<Remembered, String> {
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
        let seen: Vec<Seen> = rows.iter().map(|(worker, row)| seen(*worker, row, &position)).collect();
        let trace = Trace::of(&seen, members.iter().map(spec).collect(), workers.len() as u32, 1);
        if trace.arrivals.len() < REQUESTS_MIN {
            return Err(too_few(trace.arrivals.len()));
        }
        let odd = [
            (elsewhere, "were tried again, or went to another tier or zone"),
            (failed, "failed, or their client went away"),
            (open, "are open for longer than the others took"),
        ];
        let part = |count: usize| count as f64 / all as f64;
        let odd = odd.into_iter().find(|&(count, _)| part(count) > ODD_MAX);
        let odd = odd.map(|(count, why)| format!("{:.0} % of the requests {why}", 100.0 * part(count)));
        Ok(Remembered { trace, odd })
    }
}

fn spec(member: &Member) -> EndpointSpec {
    EndpointSpec { id: member.id, ..EndpointSpec::new("").weight(member.weight).in_flight_max(member.in_flight_max) }
}

/// Row as a trace reads it. `position` maps slots to indices among the members.
fn seen(worker: u32, row: &Row, position: &BTreeMap<usize, usize>) -> Seen {
    Seen {
        at: row.began.0,
        worker,
        key: row.keyed.then_some(row.key),
        endpoint: position.get(&row.slot.index()).copied(),
        kind: if row.way == Way::Picked { Kind::Picked } else { Kind::Given },
        held_ns: row.held_ns,
        latency_ns: row.latency_ns,
        failed: false,
    }
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
