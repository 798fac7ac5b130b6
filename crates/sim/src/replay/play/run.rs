//! State of a run: its balancers, servers, requests in progress and counts.

use super::course::{Course, Hedging, System};
use super::thinking::Thinkers;
use crate::engine::calendar::Calendar;
use crate::engine::server::Server;
use crate::replay::bounds;
use crate::replay::drawn::Drawn;
use crate::replay::fit::Sample;
use crate::replay::tally::{Block, Tally};
use crate::replay::trace::{Kind, Trace, Turns};
use crate::scenario;
use crate::work::Work;
use evenkeel_balance::hedge::Hedge;
use evenkeel_balance::rng::mix;
use evenkeel_balance::slab::Slab;
use evenkeel_balance::{Balancer, EndpointSpec, Instant, Pool, Seat, Slot, Ticket};
use std::collections::VecDeque;

/// Requests of a run: a third to settle, and two thirds to measure shares to a percentage point and a p99 to 10 %.
const REQUESTS_MIN: usize = 9_000;
const REQUESTS_MAX: usize = 24_000;

/// Most requests of a run in which members join.
pub const REQUESTS_JOINING_MAX: usize = 120_000;

pub(super) struct Job {
    /// `None` once the other copy of the request was faster: its endpoint does the work all the same.
    pub(super) ticket: Option<Ticket>,
    /// Balancer and worker, as an index.
    pub(super) worker: usize,
    pub(super) member: usize,
    pub(super) sample: Sample,
    pub(super) found: u32,
    /// Start of the try, and of the request.
    pub(super) began: u64,
    pub(super) came: u64,
    pub(super) key: Option<u64>,
    /// Number of members that the request was drawn from and the member of its first try; `None` if it was not explored.
    pub(super) explored: Option<(u32, usize)>,
    /// Number of the request, from which its luck is drawn.
    pub(super) number: u64,
    /// Index of the request in the trace.
    pub(super) index: usize,
    /// Members at which the request failed; empty on the first try.
    pub(super) tried: Vec<Slot>,
    /// Other copy of the request.
    pub(super) twin: Option<u32>,
    pub(super) is_copy: bool,
    /// Block that it counts in; `None` in the first third.
    pub(super) block: Option<usize>,
}

#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) index: usize,
    pub(super) worker: usize,
    pub(super) came: u64,
    pub(super) block: Option<usize>,
}

pub(super) struct Run<'a> {
    pub(super) system: &'a System<'a>,
    pub(super) course: Course<'a>,
    /// Indices of the first tries of the trace's requests.
    pub(super) firsts: Vec<u32>,
    /// Most requests that the trace found at each member.
    pub(super) seen: Vec<u32>,
    pub(super) thinkers: Thinkers,
    pub(super) turns: Turns,
    pub(super) pools: Vec<Pool>,
    pub(super) balancers: Vec<Balancer>,
    /// Member by slot, and slot by member that has joined.
    pub(super) member_of: Vec<usize>,
    pub(super) slots: Vec<Slot>,
    /// Slot by member of the trace; `None` if the pool lacks that member.
    pub(super) traced: Vec<Option<Slot>>,
    pub(super) servers: Vec<Server<'a>>,
    pub(super) calendar: Calendar,
    pub(super) jobs: Slab<Job>,
    pub(super) waiting: VecDeque<Waiting>,
    /// Hedging by balancer and worker; empty without.
    pub(super) hedges: Vec<Hedge>,
    /// Mean time of a request that is alone, by member.
    pub(super) alone_ns: Vec<f64>,
    pub(super) now: u64,
    pub(super) made: usize,
    pub(super) requests: usize,
    /// Requests of which the first figure is: those before let the system settle.
    pub(super) settled: usize,
    /// Time at which members joined.
    pub(super) joined_at: Option<u64>,
    pub(super) in_flight: Vec<u32>,
    pub(super) in_system: usize,
    /// Seed for the work of requests.
    pub(super) luck: u64,
    pub(super) tally: Tally,
}

/// Hedging of each balancer and worker; empty without.
fn hedges(hedging: Option<Hedging>, balancers: usize) -> Vec<Hedge> {
    hedging.map_or_else(Vec::new, |of| vec![Hedge::new(&of.settings, Instant(0)); balancers])
}

/// Most requests that the trace found at each of the members. A member that the trace lacks is like the member in the
/// middle.
fn seen(trace: &Trace, members: &[EndpointSpec]) -> Vec<u32> {
    let mut most = vec![0; trace.members.len()];
    for a in &trace.arrivals {
        most[a.endpoint] = a.found.max(most[a.endpoint]);
    }
    let mut sorted = most.clone();
    sorted.sort_unstable();
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let of = |member: &EndpointSpec| trace.members.iter().position(|traced| traced.id == member.id);
    members.iter().map(|member| of(member).map_or(middle, |at| most[at])).collect()
}

impl<'a> Run<'a> {
    pub(super) fn new(system: &'a System<'a>, specs: &'a [scenario::Server], course: Course<'a>) -> Run<'a> {
        let trace = system.trace;
        let mut pools: Vec<Pool> = (0..course.balancers.max(1)).map(|_| Pool::new(trace.workers)).collect();
        let first = system.members.len() - course.joining.map_or(0, |joining| joining.members);
        for pool in &mut pools {
            course.joining.iter().for_each(|joining| joining.configure(pool));
            pool.update(&system.members[..first], Instant(0));
        }
        let firsts = trace.arrivals.iter().enumerate().filter(|(_, a)| a.kind != Kind::Again);
        let firsts: Vec<u32> = firsts.map(|(at, _)| at as u32).take(REQUESTS_MAX).collect();
        let balancer = |(pool, worker): (&Pool, u32)| {
            let seat = Seat { worker, workers: trace.workers };
            let made = pool.balancer(course.algorithm, course.params, seat, mix(course.seed));
            made.expect("parameters that the configuration accepted")
        };
        let seats = pools.iter().flat_map(|pool| (0..trace.workers).map(move |worker| (pool, worker)));
        let balancers: Vec<Balancer> = seats.map(balancer).collect();
        // All pools number their endpoints alike.
        let slot = |m: &EndpointSpec| pools[0].slot_of(m.id).expect("it was just added");
        let slots: Vec<Slot> = system.members[..first].iter().map(slot).collect();
        let mut member_of = vec![0; slots.iter().map(|slot| slot.index() + 1).max().unwrap_or(0)];
        slots.iter().enumerate().for_each(|(member, slot)| member_of[slot.index()] = member);
        let traced = trace.members.iter().map(|m| pools[0].slot_of(m.id)).collect();
        let server = |(at, spec): (usize, &'a scenario::Server)| Server::new(spec, 0, at as u16, Work::Constant(0));
        let members = system.members.len();
        let usual = firsts.len().clamp(REQUESTS_MIN, REQUESTS_MAX);
        Run {
            system,
            course,
            settled: usual / 3,
            requests: if course.joining.is_some() { REQUESTS_JOINING_MAX } else { usual },
            joined_at: None,
            firsts,
            seen: seen(trace, system.members),
            thinkers: Thinkers::of(system.clients, trace, course.pace, mix(course.seed ^ 2)),
            turns: Turns::of(members),
            hedges: hedges(course.hedging, balancers.len()),
            balancers,
            member_of,
            servers: specs.iter().enumerate().map(server).collect(),
            calendar: Calendar::default(),
            jobs: Slab::new(),
            waiting: VecDeque::new(),
            alone_ns: system.ways.iter().map(|way| bounds::alone_ns(way)).collect(),
            now: 0,
            made: 0,
            in_flight: vec![0; members],
            luck: mix(course.seed ^ 1),
            in_system: 0,
            tally: Tally {
                blocks: std::array::from_fn(|_| Block { picks: vec![0; members], ..Block::default() }),
                drawn: vec![Drawn::default(); members],
                ..Tally::default()
            },
            slots,
            traced,
            pools,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Seen;

    #[test]
    fn members_keep_what_they_found_if_others_leave_or_join() {
        let seen_at = |at: u64, endpoint| Seen {
            at,
            worker: 0,
            key: None,
            endpoint: Some(endpoint),
            kind: Kind::Picked,
            held_ns: 100,
            latency_ns: 100,
            failed: false,
        };
        let [a, b, c] = ["a", "b", "c"].map(EndpointSpec::new);
        let tries = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2)].map(|(at, endpoint)| seen_at(at, endpoint));
        let trace = Trace::of(&tries, vec![a.clone(), b.clone(), c.clone()], 1, 1);
        assert_eq!(seen(&trace, &[a.clone(), b.clone(), c.clone()]), [2, 1, 0]);
        assert_eq!(seen(&trace, &[b, c, EndpointSpec::new("added")]), [1, 0, 1]);
    }
}
