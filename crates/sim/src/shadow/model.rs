//! Replay of the remembered requests in virtual time: an algorithm picks among endpoints that follow given models.

use super::fit::{Sample, Way};
use super::trace::{Arrival, Trace, quantile};
use crate::engine::calendar::{Calendar, Event};
use crate::engine::server::Server;
use crate::scenario::{self, Serving};
use crate::work::Work;
use evenkeel_balance::rng::mix;
use evenkeel_balance::slab::Slab;
use evenkeel_balance::{
    Algorithm, Balancer, EndpointSpec, Instant, LoadReport, Outcome, Params, Pool, Request, Seat, Slot, Ticket,
};

/// Requests of a run: a third to settle, and two thirds to measure shares to a percentage point and a p99 to 10 %.
const REQUESTS_MIN: usize = 9_000;
const REQUESTS_MAX: usize = 24_000;

/// Model of the clients: when the next request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clients {
    /// At the time recorded in the trace.
    Open,
    /// Closed loop of this many users: as soon as one of their requests has ended.
    Closed(u32),
}

/// Endpoints and clients that an algorithm is run with.
pub(super) struct System<'a> {
    pub trace: &'a Trace,
    /// Models by member of the pool.
    pub ways: Vec<&'a Way>,
    pub clients: Clients,
    pub answers_probes: bool,
}

/// Figure of a run, with two standard errors, from the blocks of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figure {
    pub value: f64,
    pub error: f64,
}

/// Results of a run, without its first third.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    /// Shares by member of the pool.
    pub shares: Vec<Figure>,
    /// Requests found at the picked endpoint, on average.
    pub met: Figure,
    /// Median, 90th percentile and natural logarithm of the 99th percentile of the latency, in nanoseconds.
    pub median_ns: f64,
    pub p90_ns: f64,
    pub ln_p99: Figure,
    /// Share of the requests for which all endpoints were at their limits.
    pub full: f64,
    /// True if requests did not pile up.
    pub steady: bool,
    /// Member with the most requests in flight at the end.
    pub busiest: usize,
    /// Hash over all picks, in order.
    pub picks: u64,
    /// Number of requests behind these figures.
    pub requests: f64,
}

struct Job {
    ticket: Ticket,
    worker: usize,
    member: usize,
    sample: Sample,
    found: u32,
    began: u64,
    /// Block that it counts in; `None` in the first third.
    block: Option<usize>,
}

struct Run<'a> {
    system: &'a System<'a>,
    balancers: Vec<Balancer>,
    /// Member by slot, and slot by member.
    member_of: Vec<usize>,
    slots: Vec<Slot>,
    servers: Vec<Server<'a>>,
    calendar: Calendar,
    jobs: Slab<Job>,
    now: u64,
    made: usize,
    requests: usize,
    in_flight: Vec<u32>,
    in_system: usize,
    /// Seed for the work of requests.
    luck: u64,
    tally: Tally,
}

/// Parts of a run that are counted separately, to estimate the random variation of figures.
const BLOCKS: usize = 6;

#[derive(Default)]
struct Tally {
    blocks: [Block; BLOCKS],
    full: u64,
    hash: u64,
    /// By third of the run: sum over arrivals of the requests then in flight.
    thirds: [u64; 3],
}

#[derive(Default)]
struct Block {
    /// Picks by member of the pool.
    picks: Vec<u64>,
    met: u64,
    latencies: Vec<u64>,
}

impl Block {
    fn count(&self) -> f64 {
        self.picks.iter().sum::<u64>().max(1) as f64
    }
}

impl Tally {
    /// Mean over the blocks, with two standard errors.
    fn figure(&self, of: impl Fn(&Block) -> f64) -> Figure {
        let values = self.blocks.each_ref().map(of);
        let value = values.iter().sum::<f64>() / BLOCKS as f64;
        let variance = values.iter().map(|x| (x - value).powi(2)).sum::<f64>() / (BLOCKS - 1) as f64;
        Figure { value, error: 2.0 * (variance / BLOCKS as f64).sqrt() }
    }
}

/// Servers that follow these models.
pub(super) fn servers(ways: &[&Way]) -> Vec<scenario::Server> {
    ways.iter().map(|way| scenario::Server { serving: way.serving, ..scenario::Server::new("") }).collect()
}

/// Replays the trace, repeatedly if it is short.
pub(super) fn play(system: &System<'_>, algorithm: &'static Algorithm, params: &Params, seed: u64) -> Played {
    let specs = servers(&system.ways);
    let mut run = Run::new(system, &specs, algorithm, params, seed);
    match system.clients {
        Clients::Open => run.calendar.at(0, Event::Arrive),
        Clients::Closed(users) => (0..users.max(1)).for_each(|_| run.calendar.at(0, Event::Arrive)),
    }
    while let Some((at, event)) = run.calendar.next() {
        run.now = at;
        match event {
            Event::Arrive => run.arrive(),
            Event::AtServer(job) => run.begin(job),
            Event::Done(job) => run.end(job),
            Event::Depart(server) => run.depart(server as usize),
            _ => {}
        }
        if run.made >= run.requests {
            break;
        }
    }
    run.played()
}

impl<'a> Run<'a> {
    fn new(
        system: &'a System<'a>,
        specs: &'a [scenario::Server],
        algorithm: &'static Algorithm,
        params: &Params,
        seed: u64,
    ) -> Run<'a> {
        let trace = system.trace;
        let mut pool = Pool::new(trace.workers);
        let endpoint = |m: &evenkeel_balance::Member| EndpointSpec {
            id: m.id,
            ..EndpointSpec::new("").weight(m.weight).in_flight_max(m.in_flight_max)
        };
        pool.update(&trace.members.iter().map(endpoint).collect::<Vec<_>>(), Instant(0));
        let balancer = |worker| {
            let seat = Seat { worker, workers: trace.workers };
            pool.balancer(algorithm, params, seat, mix(seed)).expect("parameters that the configuration accepted")
        };
        let slots: Vec<Slot> = trace.members.iter().map(|m| pool.slot_of(m.id).expect("it was just added")).collect();
        let mut member_of = vec![0; slots.iter().map(|slot| slot.index() + 1).max().unwrap_or(0)];
        slots.iter().enumerate().for_each(|(member, slot)| member_of[slot.index()] = member);
        let server = |(at, spec): (usize, &'a scenario::Server)| Server::new(spec, 0, at as u16, Work::Constant(0));
        Run {
            system,
            balancers: (0..trace.workers).map(balancer).collect(),
            member_of,
            servers: specs.iter().enumerate().map(server).collect(),
            calendar: Calendar::default(),
            jobs: Slab::new(),
            now: 0,
            made: 0,
            requests: trace.arrivals.len().clamp(REQUESTS_MIN, REQUESTS_MAX),
            in_flight: vec![0; slots.len()],
            luck: mix(seed ^ 1),
            in_system: 0,
            tally: Tally {
                blocks: std::array::from_fn(|_| Block { picks: vec![0; slots.len()], ..Block::default() }),
                ..Tally::default()
            },
            slots,
        }
    }

    /// Request by number, and its time when the trace is repeated.
    fn arrival(&self, number: usize) -> (Arrival, u64) {
        let trace = self.system.trace;
        let (round, at) = (number / trace.arrivals.len(), number % trace.arrivals.len());
        let arrival = trace.arrivals[at];
        // The gap between two repetitions is the mean gap between requests.
        let length = trace.span_ns + trace.span_ns / trace.arrivals.len() as u64;
        (arrival, round as u64 * length + arrival.at)
    }

    fn arrive(&mut self) {
        let (arrival, _) = self.arrival(self.made);
        let (made, settled) = (self.made, self.requests / 3);
        let block = (made >= settled).then(|| (made - settled) * BLOCKS / (self.requests - settled));
        self.tally.thirds[(3 * self.made / self.requests).min(2)] += self.in_system as u64;
        let number = self.made as u64;
        self.made += 1;
        if self.system.clients == Clients::Open {
            let (_, at) = self.arrival(self.made);
            self.calendar.at(at.max(self.now), Event::Arrive);
        }
        let (now, worker) = (Instant(self.now), arrival.worker as usize);
        let balancer = &mut self.balancers[worker];
        let started = match arrival.given {
            true => balancer.start_at(self.slots[arrival.endpoint], now),
            false => balancer.start(&Request { key: arrival.key, ..Request::default() }, now),
        };
        let Ok(ticket) = started else {
            self.tally.full += u64::from(block.is_some());
            if self.system.clients != Clients::Open {
                self.calendar.at(self.now + 1_000_000, Event::Arrive);
            }
            return;
        };
        let member = self.member_of[ticket.slot().index()];
        let found = self.in_flight[member];
        self.tally.hash = mix(self.tally.hash ^ member as u64);
        if let Some(block) = block {
            self.tally.blocks[block].picks[member] += 1;
            self.tally.blocks[block].met += u64::from(found);
        }
        self.in_flight[member] += 1;
        self.in_system += 1;
        let way = self.system.ways[member];
        // A request draws the same sample at an endpoint under every algorithm.
        let luck = mix(self.luck ^ number ^ (member as u64) << 40);
        let sample = way.samples[(luck % way.samples.len() as u64) as usize];
        let job = self.jobs.insert(Job { ticket, worker, member, sample, found, began: self.now, block });
        self.probe(worker);
        if way.delay_ns > 0 { self.calendar.at(self.now + way.delay_ns, Event::AtServer(job)) } else { self.begin(job) }
    }

    fn begin(&mut self, index: u32) {
        let Some(job) = self.jobs.get(index) else { return };
        let (member, work_ns) = (job.member, job.sample.work_ns);
        if self.servers[member].is_unlimited() {
            return self.calendar.at(self.now + work_ns as u64, Event::Done(index));
        }
        self.servers[member].add(index, work_ns, self.now);
        self.look_again(member);
    }

    fn look_again(&mut self, member: usize) {
        let server = &mut self.servers[member];
        if let Some(at) = server.done_at().filter(|&at| at < server.next_at) {
            server.next_at = at;
            self.calendar.at(at, Event::Depart(member as u32));
        }
    }

    fn depart(&mut self, member: usize) {
        if self.servers[member].next_at != self.now {
            return;
        }
        self.servers[member].next_at = u64::MAX;
        while let Some(job) = self.servers[member].take_done(self.now) {
            self.end(job);
        }
        self.look_again(member);
    }

    fn end(&mut self, index: u32) {
        let Some(mut job) = self.jobs.remove(index) else { return };
        let held = self.now - job.began;
        let latency_ns = (held as f64 * job.sample.answered) as u64;
        job.ticket.answered(Instant(job.began + latency_ns));
        self.balancers[job.worker].end(job.ticket, Outcome::Success, Instant(self.now));
        self.in_flight[job.member] -= 1;
        self.in_system -= 1;
        self.servers[job.member].estimate.ended(job.found, held, Instant(self.now));
        if let Some(block) = job.block {
            self.tally.blocks[block].latencies.push(latency_ns);
        }
        if self.system.clients != Clients::Open {
            self.calendar.at(self.now, Event::Arrive);
        }
    }

    /// Answers the probes that the algorithm wants sent.
    fn probe(&mut self, worker: usize) {
        if !self.system.answers_probes {
            return;
        }
        let now = Instant(self.now);
        while let Some(slot) = self.balancers[worker].poll_probe(now) {
            let member = self.member_of[slot.index()];
            let in_flight = self.in_flight[member];
            let latency_ns = self.servers[member].estimate.latency_ns(in_flight, now);
            // Rejected reports are dropped, as in production.
            let _ = self.balancers[worker].report(slot, &LoadReport::new(in_flight, latency_ns), now);
        }
    }

    fn played(self) -> Played {
        let tally = self.tally;
        let all: f64 = tally.blocks.iter().map(Block::count).sum();
        let [_, second, last] = tally.thirds.map(|sum| sum as f64 / (self.requests / 3) as f64);
        let latencies: Vec<u64> = tally.blocks.iter().flat_map(|of| &of.latencies).copied().collect();
        let ln_p99 = |of: &Block| quantile(of.latencies.clone(), 0.99).max(1.0).ln();
        Played {
            shares: (0..self.slots.len()).map(|at| tally.figure(|of| of.picks[at] as f64 / of.count())).collect(),
            met: tally.figure(|of| of.met as f64 / of.count()),
            median_ns: quantile(latencies.clone(), 0.5),
            p90_ns: quantile(latencies.clone(), 0.9),
            ln_p99: Figure { value: quantile(latencies, 0.99).max(1.0).ln(), ..tally.figure(ln_p99) },
            full: tally.full as f64 / (all + tally.full as f64),
            // If requests pile up linearly, the last third has 1.67 times as many as the second.
            steady: last <= 1.4 * second + 2.0,
            busiest: (0..self.in_flight.len()).max_by_key(|&member| self.in_flight[member]).unwrap_or(0),
            picks: tally.hash,
            requests: all,
        }
    }
}

impl Way {
    /// Model in which every request takes this long.
    pub(super) fn constant(work_ns: f64) -> Way {
        let samples = vec![Sample { work_ns, answered: 1.0 }];
        Way { serving: Serving::Unlimited, delay_ns: 0, samples, misfit: 0.0, capacity: f64::INFINITY }
    }
}
