//! Recorded requests of a pool, in order of their starts, with the requests that each found in flight.

use evenkeel_balance::EndpointSpec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Request or try as a record has it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Start, in nanoseconds from any moment.
    pub at: u64,
    /// Worker or balancer that picked the endpoint.
    pub worker: u32,
    pub key: Option<u64>,
    /// Index of its endpoint among the members; `None` if it has left the pool.
    pub endpoint: Option<usize>,
    pub kind: Kind,
    /// Nanoseconds from the start to the end.
    pub held_ns: u64,
    /// Nanoseconds from the start to the first byte of the response.
    pub latency_ns: u64,
    pub failed: bool,
}

/// Way in which the endpoint of a try was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the algorithm, on the first try.
    Picked,
    /// By something other than the algorithm, such as a session.
    Given,
    /// By a uniform draw from this many members: the request was explored.
    Explored(u32),
    /// After a failure of an earlier try of the request.
    Again,
}

/// Try at a member, with the requests that it found.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Start, in nanoseconds since the start of the first request.
    pub at: u64,
    pub worker: u32,
    pub key: Option<u64>,
    /// Index of its endpoint among the members.
    pub endpoint: usize,
    pub kind: Kind,
    pub held_ns: u64,
    pub latency_ns: u64,
    pub failed: bool,
    /// Requests in flight at its start: at its endpoint, and in total.
    pub found: u32,
    pub found_in_all: u32,
    /// True if no member had fewer requests in flight relative to its weight.
    pub is_least: bool,
    /// True if the pick before the previous round of as many picks as there are members was the same.
    pub is_in_turn: bool,
    /// Nanoseconds since the latest end of any request; `u64::MAX` for none before.
    pub after_end_ns: u64,
}

/// All recorded requests of a pool.
#[derive(Clone, Debug)]
pub struct Trace {
    pub arrivals: Vec<Arrival>,
    pub members: Vec<EndpointSpec>,
    pub workers: u32,
    /// Time from the first start to the last, in nanoseconds.
    pub span_ns: u64,
    /// Unit of the times, in nanoseconds, at least 1.
    pub unit_ns: u64,
}

/// Picks in order, compared with those a round before.
#[derive(Debug, Default)]
pub(super) struct Turns {
    round: usize,
    latest: VecDeque<usize>,
}

impl Turns {
    pub fn of(members: usize) -> Turns {
        Turns { round: members, latest: VecDeque::with_capacity(members + 1) }
    }

    /// Adds a pick; returns true if the pick a round before was the same.
    pub fn add(&mut self, member: usize) -> bool {
        self.latest.push_back(member);
        self.latest.len() > self.round && self.latest.pop_front() == Some(member)
    }
}

/// True if no member has fewer requests in flight than `member`, relative to its weight.
pub(super) fn is_least(in_flight: &[u32], members: &[EndpointSpec], member: usize) -> bool {
    let load = |at: usize| u64::from(in_flight[at]) * u64::from(members[member].weight);
    let own = |at: usize| u64::from(in_flight[member]) * u64::from(members[at].weight);
    (0..in_flight.len()).all(|at| members[at].weight == 0 || own(at) <= load(at))
}

impl Trace {
    /// Trace of requests in order of their starts, whose times have this unit.
    pub fn of(seen: &[Seen], members: Vec<EndpointSpec>, workers: u32, unit_ns: u64) -> Trace {
        let first = seen.first().map_or(0, |one| one.at);
        let (mut ends, mut latest_end) = (BinaryHeap::<Reverse<(u64, usize)>>::new(), None);
        let mut in_flight = vec![0u32; members.len()];
        let mut turns = Turns::of(members.len());
        let mut arrivals = Vec::with_capacity(seen.len());
        for one in seen {
            while let Some(&Reverse((end, member))) = ends.peek().filter(|Reverse((end, _))| *end <= one.at) {
                ends.pop();
                latest_end = Some(end);
                if let Some(count) = in_flight.get_mut(member) {
                    *count -= 1;
                }
            }
            let end = one.at.saturating_add(one.held_ns);
            if let Some(endpoint) = one.endpoint {
                arrivals.push(Arrival {
                    at: one.at - first,
                    worker: one.worker,
                    key: one.key,
                    endpoint,
                    kind: one.kind,
                    held_ns: one.held_ns,
                    latency_ns: one.latency_ns,
                    failed: one.failed,
                    found: in_flight[endpoint],
                    found_in_all: ends.len() as u32,
                    is_least: is_least(&in_flight, &members, endpoint),
                    is_in_turn: one.kind == Kind::Picked && turns.add(endpoint),
                    after_end_ns: latest_end.map_or(u64::MAX, |end| one.at - end),
                });
                in_flight[endpoint] += 1;
            }
            ends.push(Reverse((end, one.endpoint.unwrap_or(usize::MAX))));
        }
        let span_ns = arrivals.last().map_or(0, |last| last.at);
        Trace { arrivals, members, workers, span_ns, unit_ns }
    }

    /// Part of the trace from `from` to `to`, shares of its requests from 0 to 1.
    pub fn part(&self, from: f64, to: f64) -> Trace {
        let at = |share: f64| ((self.arrivals.len() as f64 * share) as usize).min(self.arrivals.len());
        let mut arrivals = self.arrivals[at(from)..at(to).max(at(from))].to_vec();
        let first = arrivals.first().map_or(0, |one| one.at);
        arrivals.iter_mut().for_each(|one| one.at -= first);
        let span_ns = arrivals.last().map_or(0, |last| last.at);
        Trace { arrivals, members: self.members.clone(), span_ns, ..*self }
    }

    /// Requests, without the tries that followed a failure.
    pub fn requests(&self) -> impl Iterator<Item = &Arrival> {
        self.arrivals.iter().filter(|a| a.kind != Kind::Again)
    }

    /// Explored requests, each with the number of members that it was drawn from.
    pub fn explored(&self) -> impl Iterator<Item = (&Arrival, u32)> {
        self.arrivals.iter().filter_map(|a| match a.kind {
            Kind::Explored(from) => Some((a, from)),
            Kind::Picked | Kind::Given | Kind::Again => None,
        })
    }

    /// Picks of a member with the least in flight, and picks in turn, as parts of all requests.
    pub fn picks(&self) -> [f64; 2] {
        let all = self.requests().count().max(1) as f64;
        let part = |is: fn(&Arrival) -> bool| self.requests().filter(|a| is(a)).count() as f64 / all;
        [part(|a| a.is_least), part(|a| a.is_in_turn)]
    }

    /// Share of the tries by member.
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
        self.arrivals.iter().map(|a| f64::from(a.found)).sum::<f64>() / self.arrivals.len().max(1) as f64
    }
}

/// Quantile `part` (0 to 1) of values; 0 without any.
pub fn quantile(mut values: Vec<u64>, part: f64) -> f64 {
    let at = ((values.len() as f64 * part) as usize).min(values.len().saturating_sub(1));
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable(at).1 as f64 }
}
