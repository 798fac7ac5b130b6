//! Models of the clients: the time at which the next request comes.

use super::trace::{Arrival, Kind, Trace};
use std::collections::BTreeMap;

/// Model of the clients: when the next request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// At the time recorded in the trace.
    Open,
    /// Closed loop of this many users: as soon as one of their requests has ended.
    Closed(u32),
    /// Closed loop of the clients of the trace, told apart by their keys: each sends its next request once it has thought, for
    /// as long as it did in the trace.
    Thinking,
}

/// Overlapping requests that clients would have if their requests did not wait for each other; with fewer, none would be
/// chance.
const OVERLAPS_MIN: f64 = 30.0;

/// Largest share of those that overlap all the same, as clocks are coarse and addresses may be shared now and then.
const OVERLAPS_MAX: f64 = 0.02;

/// Requests of a client: the index of each in the trace, and its think time before the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    pub requests: Vec<(usize, u64)>,
}

/// Requests of each client, in order of the first. Requests without a key belong to no client.
pub(super) fn sequences(trace: &Trace) -> Vec<Sequence> {
    let mut numbers: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let mut all: Vec<Sequence> = Vec::new();
    for (index, a) in trace.arrivals.iter().enumerate().filter(|(_, a)| a.kind != Kind::Again) {
        let Some(key) = a.key else { continue };
        let count = all.len();
        let (number, ended) = numbers.entry(key).or_insert((count, 0));
        if *number == count {
            all.push(Sequence::default());
        }
        let of = &mut all[*number].requests;
        if let Some((_, think)) = of.last_mut() {
            *think = a.at.saturating_sub(*ended);
        }
        of.push((index, 0));
        *ended = a.at + a.latency_ns;
    }
    for of in &mut all {
        // The think time after the last is not known.
        let count = of.requests.len();
        if count > 1 {
            of.requests[count - 1].1 =
                of.requests[..count - 1].iter().map(|(_, think)| think).sum::<u64>() / (count as u64 - 1);
        }
    }
    all
}

impl Clients {
    /// True if each client of a trace has a request at a time, and that is not chance.
    pub fn are_thinking(trace: &Trace) -> bool {
        let (mut expected, mut seen, mut requests) = (0.0, 0.0, 0);
        let slack = 2 * trace.unit_ns;
        for of in sequences(trace) {
            let of: Vec<&Arrival> = of.requests.iter().map(|(index, _)| &trace.arrivals[*index]).collect();
            let held: f64 = of.iter().map(|a| a.latency_ns as f64).sum();
            expected += of.len() as f64 * held / trace.span_ns.max(1) as f64;
            seen += of.windows(2).filter(|pair| pair[1].at + slack < pair[0].at + pair[0].latency_ns).count() as f64;
            requests += of.len();
        }
        requests == trace.requests().count() && expected >= OVERLAPS_MIN && seen <= OVERLAPS_MAX * expected
    }

    /// Possible models of the clients. In a closed loop, starts follow ends at once, and the number in flight hardly
    /// varies.
    pub fn possible(trace: &Trace) -> Vec<Clients> {
        let arrivals = &trace.arrivals[trace.arrivals.len() / 20..];
        let count = arrivals.len() as f64;
        let gap_ns = trace.span_ns as f64 / trace.arrivals.len() as f64;
        let at_once = arrivals.iter().filter(|a| (a.after_end_ns as f64) < 0.2 * gap_ns).count() as f64 / count;
        let there = |a: &Arrival| f64::from(a.found_in_all + 1);
        let mean = arrivals.iter().map(there).sum::<f64>() / count;
        let variance = arrivals.iter().map(|a| (there(a) - mean).powi(2)).sum::<f64>() / count;
        let spread = variance / mean;
        let open = at_once < 0.9 && !(spread < 0.15 && mean >= 4.0);
        let closed = at_once > 0.7 || (spread < 0.3 && mean >= 2.0);
        let users = mean.round() as u32;
        [open.then_some(Clients::Open), closed.then_some(Clients::Closed(users))].into_iter().flatten().collect()
    }
}
