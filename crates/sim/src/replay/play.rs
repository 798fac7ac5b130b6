//! Replay of recorded requests in virtual time: an algorithm picks among endpoints that follow given models.

use super::bounds::{self, Bound};
use super::clients::Clients;
use super::drawn::Drawn;
use super::fit::{Sample, Way};
use super::tally::{BLOCKS, Block, Figure, Played, Tally};
use super::trace::{Arrival, Kind, Trace, Turns, is_least, quantile};
use crate::engine::calendar::{Calendar, Event};
use crate::engine::server::Server;
use crate::scenario;
use crate::work::Work;
use evenkeel_balance::hedge::{self, Hedge};
use evenkeel_balance::rng::mix;
use evenkeel_balance::slab::Slab;
use evenkeel_balance::{
    Algorithm, Balancer, EndpointSpec, FailureKind, Instant, LoadReport, Outcome, Params, Pool, Request, Seat, Slot,
    Ticket,
};
use std::collections::VecDeque;

/// Requests of a run: a third to settle, and two thirds to measure shares to a percentage point and a p99 to 10 %.
const REQUESTS_MIN: usize = 9_000;
const REQUESTS_MAX: usize = 24_000;

/// Endpoints and clients that an algorithm is run with.
#[derive(Clone, Debug)]
pub struct System<'a> {
    pub trace: &'a Trace,
    /// Members of the pool: those of the trace, or others in their place.
    pub members: &'a [EndpointSpec],
    /// Models by member of the pool.
    pub ways: Vec<&'a Way>,
    pub clients: Clients,
    pub answers_probes: bool,
    /// Work of each request of the trace by its rank among the samples of an endpoint, 0 to 1; `None` draws it.
    pub ranks: Option<&'a [f32]>,
}

/// Algorithm and conditions of a run.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    pub algorithm: &'static Algorithm,
    pub params: &'a Params,
    pub seed: u64,
    /// Factor of the rate at which requests arrive.
    pub pace: f64,
    /// Most tries of a request after the first, each at another endpoint and at once.
    pub retries: u32,
    /// Balancers that know nothing of each other; each request comes to a random balancer.
    pub balancers: u32,
    /// Choice instead of the algorithm's.
    pub bound: Option<Bound>,
    /// Most requests that wait when all endpoints are at their limits.
    pub queue: u32,
    pub hedging: Option<Hedging>,
}

/// Second copies of slow requests.
#[derive(Clone, Copy, Debug)]
pub struct Hedging {
    pub settings: hedge::Settings,
    /// True if a request takes its work along to every endpoint; false if each endpoint draws its own.
    pub is_of_demand: bool,
}

impl<'a> Course<'a> {
    /// Course of a single balancer without retries, at the rate of the trace.
    pub fn new(algorithm: &'static Algorithm, params: &'a Params, seed: u64) -> Course<'a> {
        let (bound, hedging) = (None, None);
        Course { algorithm, params, seed, pace: 1.0, retries: 0, balancers: 1, bound, queue: 0, hedging }
    }
}

struct Job {
    /// `None` once the other copy of the request was faster: its endpoint does the work all the same.
    ticket: Option<Ticket>,
    /// Balancer and worker, as an index.
    worker: usize,
    member: usize,
    sample: Sample,
    found: u32,
    /// Start of the try, and of the request.
    began: u64,
    came: u64,
    key: Option<u64>,
    /// Number of members that the request was drawn from and the member of its first try; `None` if it was not explored.
    explored: Option<(u32, usize)>,
    /// Number of the request, from which its luck is drawn.
    number: u64,
    /// Members at which the request failed; empty on the first try.
    tried: Vec<Slot>,
    /// Other copy of the request.
    twin: Option<u32>,
    is_copy: bool,
    /// Block that it counts in; `None` in the first third.
    block: Option<usize>,
}

#[derive(Clone, Copy)]
struct Waiting {
    number: u64,
    index: usize,
    worker: usize,
    came: u64,
    block: Option<usize>,
}

struct Run<'a> {
    system: &'a System<'a>,
    course: Course<'a>,
    /// Indices of the first tries of the trace's requests.
    firsts: Vec<u32>,
    /// Most requests that the trace found at each member.
    seen: Vec<u32>,
    turns: Turns,
    balancers: Vec<Balancer>,
    /// Member by slot, and slot by member.
    member_of: Vec<usize>,
    slots: Vec<Slot>,
    /// Slot by member of the trace; `None` if the pool lacks that member.
    traced: Vec<Option<Slot>>,
    servers: Vec<Server<'a>>,
    calendar: Calendar,
    jobs: Slab<Job>,
    waiting: VecDeque<Waiting>,
    /// Hedging by balancer and worker; empty without.
    hedges: Vec<Hedge>,
    /// Mean time of a request that is alone, by member.
    alone_ns: Vec<f64>,
    now: u64,
    made: usize,
    requests: usize,
    in_flight: Vec<u32>,
    in_system: usize,
    /// Seed for the work of requests.
    luck: u64,
    tally: Tally,
}

/// Servers that follow these models.
pub fn servers(ways: &[&Way]) -> Vec<scenario::Server> {
    ways.iter().map(|way| scenario::Server { serving: way.serving, ..scenario::Server::new("") }).collect()
}

/// Replays the trace, repeatedly if it is short.
pub fn play(system: &System<'_>, course: Course<'_>) -> Played {
    let specs = servers(&system.ways);
    let mut run = Run::new(system, &specs, course);
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
            Event::TimedOut(job, tag) => run.hedge(job, tag),
            _ => {}
        }
        if run.made >= run.requests {
            break;
        }
    }
    run.played()
}

impl<'a> Run<'a> {
    fn new(system: &'a System<'a>, specs: &'a [scenario::Server], course: Course<'a>) -> Run<'a> {
        let trace = system.trace;
        let mut pools: Vec<Pool> = (0..course.balancers.max(1)).map(|_| Pool::new(trace.workers)).collect();
        for pool in &mut pools {
            pool.update(system.members, Instant(0));
        }
        let firsts = trace.arrivals.iter().enumerate().filter(|(_, a)| a.kind != Kind::Again);
        let firsts: Vec<u32> = firsts.map(|(at, _)| at as u32).take(REQUESTS_MAX).collect();
        let mut seen = vec![0; system.members.len()];
        for a in &trace.arrivals {
            if let Some(most) = seen.get_mut(a.endpoint) {
                *most = a.found.max(*most);
            }
        }
        let balancer = |(pool, worker): (&Pool, u32)| {
            let seat = Seat { worker, workers: trace.workers };
            let made = pool.balancer(course.algorithm, course.params, seat, mix(course.seed));
            made.expect("parameters that the configuration accepted")
        };
        let seats = pools.iter().flat_map(|pool| (0..trace.workers).map(move |worker| (pool, worker)));
        let balancers: Vec<Balancer> = seats.map(balancer).collect();
        // All pools number their endpoints alike.
        let slot = |m: &EndpointSpec| pools[0].slot_of(m.id).expect("it was just added");
        let slots: Vec<Slot> = system.members.iter().map(slot).collect();
        let mut member_of = vec![0; slots.iter().map(|slot| slot.index() + 1).max().unwrap_or(0)];
        slots.iter().enumerate().for_each(|(member, slot)| member_of[slot.index()] = member);
        let traced = trace.members.iter().map(|m| pools[0].slot_of(m.id)).collect();
        let server = |(at, spec): (usize, &'a scenario::Server)| Server::new(spec, 0, at as u16, Work::Constant(0));
        let hedge = |hedging: Hedging| vec![Hedge::new(&hedging.settings, Instant(0)); balancers.len()];
        let hedges = course.hedging.map(hedge).unwrap_or_default();
        Run {
            system,
            course,
            requests: firsts.len().clamp(REQUESTS_MIN, REQUESTS_MAX),
            firsts,
            seen,
            turns: Turns::of(slots.len()),
            balancers,
            member_of,
            servers: specs.iter().enumerate().map(server).collect(),
            calendar: Calendar::default(),
            jobs: Slab::new(),
            waiting: VecDeque::new(),
            hedges,
            alone_ns: system.ways.iter().map(|way| bounds::alone_ns(way)).collect(),
            now: 0,
            made: 0,
            in_flight: vec![0; slots.len()],
            luck: mix(course.seed ^ 1),
            in_system: 0,
            tally: Tally {
                blocks: std::array::from_fn(|_| Block { picks: vec![0; slots.len()], ..Block::default() }),
                drawn: vec![Drawn::default(); slots.len()],
                ..Tally::default()
            },
            slots,
            traced,
        }
    }

    /// Slot of a request that the algorithm does not pick for; `None` if it picks. Explored requests go to the member
    /// that they were drawn to. If the pool has other members, they are drawn anew.
    fn directed(&self, arrival: &Arrival, number: u64) -> Option<Slot> {
        match arrival.kind {
            Kind::Given => *self.traced.get(arrival.endpoint)?,
            Kind::Explored(_) if self.traced.len() == self.slots.len() && self.traced.iter().all(Option::is_some) => {
                *self.traced.get(arrival.endpoint)?
            }
            Kind::Explored(_) => {
                let luck = mix(self.luck ^ mix(number));
                self.slots.get((luck % self.slots.len().max(1) as u64) as usize).copied()
            }
            Kind::Picked | Kind::Again => None,
        }
    }

    /// Request by number with its index in the trace, and its time when the trace is repeated.
    fn arrival(&self, number: usize) -> (usize, u64) {
        let trace = self.system.trace;
        let (round, at) = (number / self.firsts.len(), number % self.firsts.len());
        let index = self.firsts[at] as usize;
        // The gap between two repetitions is the mean gap between requests.
        let span = self.firsts.last().map_or(0, |&last| trace.arrivals[last as usize].at);
        let length = span + span / self.firsts.len() as u64;
        let at = round as u64 * length + trace.arrivals[index].at;
        (index, if self.course.pace == 1.0 { at } else { (at as f64 / self.course.pace) as u64 })
    }

    fn arrive(&mut self) {
        let (index, _) = self.arrival(self.made);
        let arrival = self.system.trace.arrivals[index];
        let (made, settled) = (self.made, self.requests / 3);
        let block = (made >= settled).then(|| (made - settled) * BLOCKS / (self.requests - settled));
        self.tally.thirds[(3 * self.made / self.requests).min(2)] += self.in_system as u64;
        let number = self.made as u64;
        self.made += 1;
        if self.system.clients == Clients::Open {
            let (_, at) = self.arrival(self.made);
            self.calendar.at(at.max(self.now), Event::Arrive);
        }
        let balancer = match self.course.balancers {
            0 | 1 => 0,
            balancers => (mix(self.luck ^ !number) % u64::from(balancers)) as usize,
        };
        let worker = balancer * self.system.trace.workers as usize + arrival.worker as usize;
        let waiting = Waiting { number, index, worker, came: self.now, block };
        if self.admit(waiting) {
            self.in_system += 1;
            self.probe(worker);
        } else if self.waiting.len() < self.room() {
            self.in_system += 1;
            self.waiting.push_back(waiting);
        } else {
            self.tally.full += u64::from(block.is_some());
            if self.system.clients != Clients::Open {
                self.calendar.at(self.now + 1_000_000, Event::Arrive);
            }
        }
    }

    fn room(&self) -> usize {
        if self.course.bound == Some(Bound::Queue) { usize::MAX } else { self.course.queue as usize }
    }

    /// Starts a request; false if no endpoint has room.
    fn admit(&mut self, waiting: Waiting) -> bool {
        let Waiting { number, index, worker, came, block } = waiting;
        let arrival = self.system.trace.arrivals[index];
        let directed = self.directed(&arrival, number);
        let now = Instant(self.now);
        let chosen = match self.course.bound.filter(|_| directed.is_none()) {
            None => directed,
            Some(bound) => match bound.choose(&self.system.ways, &self.alone_ns, &self.in_flight) {
                Some(member) => Some(self.slots[member]),
                None => return false,
            },
        };
        let picker = &mut self.balancers[worker];
        let request = Request { key: arrival.key, ..Request::default() };
        let (started, explored) = match (chosen, arrival.kind) {
            // As in production, the algorithm picks if a drawn endpoint has no room.
            (Some(slot), Kind::Explored(from)) => match picker.start_at(slot, now) {
                Ok(ticket) => (Ok(ticket), Some(from)),
                Err(_) => (picker.start(&request, now), None),
            },
            (Some(slot), _) => (picker.start_at(slot, now), None),
            (None, _) => (picker.start(&request, now), None),
        };
        let Ok(ticket) = started else { return false };
        let member = self.member_of[ticket.slot().index()];
        self.tally.hash = mix(self.tally.hash ^ member as u64);
        let in_turn = directed.is_none() && self.turns.add(member);
        if let Some(block) = block {
            let counts = &mut self.tally.blocks[block];
            counts.met += u64::from(self.in_flight[member]);
            counts.least += u64::from(is_least(&self.in_flight, self.system.members, member));
            counts.in_turn += u64::from(in_turn);
            self.tally.beyond += u64::from(self.in_flight[member] > self.seen[member]);
        }
        let way = self.system.ways[member];
        let job = Job {
            ticket: Some(ticket),
            worker,
            member,
            sample: way.samples[0],
            found: 0,
            began: self.now,
            came,
            key: arrival.key,
            explored: explored.map(|from| (from, member)),
            number,
            tried: Vec::new(),
            twin: None,
            is_copy: false,
            block,
        };
        let job = self.go(job, index);
        let delay = self.hedges.get_mut(worker).and_then(|hedge| hedge.begin(directed.is_none(), None, now));
        if let Some(delay) = delay {
            self.calendar.at(self.now + delay, Event::TimedOut(job, number as u16));
        }
        true
    }

    /// Sends a second copy of a request that has taken long, unless it has ended.
    fn hedge(&mut self, first: u32, tag: u16) {
        let now = Instant(self.now);
        let Some(job) = self.jobs.get(first).filter(|job| job.number as u16 == tag && job.tried.is_empty()) else {
            return;
        };
        let (Some(slot), true) = (job.ticket.as_ref().map(Ticket::slot), job.twin.is_none()) else { return };
        let Job { worker, came, key, number, block, explored, .. } = *job;
        if !self.hedges[worker].send(now) {
            return;
        }
        let tried = vec![slot];
        let request = Request { key, tried: &tried, ..Request::default() };
        let Ok(ticket) = self.balancers[worker].start(&request, now) else { return self.hedges[worker].cancel() };
        let member = self.member_of[ticket.slot().index()];
        let copy = Job {
            ticket: Some(ticket),
            worker,
            member,
            sample: self.system.ways[member].samples[0],
            found: 0,
            began: self.now,
            came,
            key,
            explored,
            number,
            tried,
            twin: Some(first),
            is_copy: true,
            block,
        };
        let copy = self.go(copy, self.firsts[number as usize % self.firsts.len()] as usize);
        if let Some(job) = self.jobs.get_mut(first) {
            job.twin = Some(copy);
        }
    }

    /// Sends a try to its member. `index` of the request in the trace.
    fn go(&mut self, mut job: Job, index: usize) -> u32 {
        let member = job.member;
        if let Some(block) = job.block {
            self.tally.blocks[block].picks[member] += 1;
        }
        job.found = self.in_flight[member];
        self.in_flight[member] += 1;
        let way = self.system.ways[member];
        job.sample = match self.system.ranks {
            Some(ranks) => way.at_rank(ranks[index]),
            None if self.course.hedging.is_some_and(|hedging| hedging.is_of_demand) => {
                way.at_rank((mix(self.luck ^ job.number) >> 40) as f32 / (1 << 24) as f32)
            }
            // A request draws the same sample at an endpoint under every algorithm.
            None => {
                let luck = mix(self.luck ^ job.number ^ (member as u64) << 40);
                way.samples[(luck % way.samples.len() as u64) as usize]
            }
        };
        let job = self.jobs.insert(job);
        if way.delay_ns > 0 {
            self.calendar.at(self.now + way.delay_ns, Event::AtServer(job))
        } else {
            self.begin(job)
        }
        job
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
        let now = Instant(self.now);
        let held = self.now - job.began;
        self.in_flight[job.member] -= 1;
        self.servers[job.member].estimate.ended(job.found, held, now);
        let first_byte = self.now - held + (held as f64 * job.sample.answered) as u64;
        if let Some(mut ticket) = job.ticket.take() {
            ticket.answered(Instant(first_byte));
            let slot = ticket.slot();
            let outcome = if job.sample.failed { Outcome::failed(FailureKind::Gateway) } else { Outcome::Success };
            self.balancers[job.worker].end(ticket, outcome, now);
            self.answered(job, slot, first_byte);
        }
        while let Some(waiting) = self.waiting.front().copied() {
            if !self.admit(waiting) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Ends a request whose try has ended at an endpoint, or tries again.
    fn answered(&mut self, mut job: Job, slot: Slot, first_byte: u64) {
        let now = Instant(self.now);
        let failed = job.sample.failed;
        if let Some(other) = job.twin.and_then(|twin| self.jobs.get_mut(twin)) {
            other.twin = None;
            if failed {
                return;
            }
            if let Some(ticket) = other.ticket.take() {
                self.balancers[job.worker].end(ticket, Outcome::Cancelled, now);
            }
        }
        if let Some(hedge) = self.hedges.get_mut(job.worker) {
            // Of a first copy that was overtaken, the time that it had taken.
            hedge.record(if job.is_copy { self.now - job.came } else { first_byte - job.began }, now);
        }
        if failed && (job.tried.len() as u32) < self.course.retries {
            job.tried.push(slot);
            let request = Request { key: job.key, tried: &job.tried, ..Request::default() };
            if let Ok(ticket) = self.balancers[job.worker].start(&request, now) {
                let member = self.member_of[ticket.slot().index()];
                let number = self.firsts[job.number as usize % self.firsts.len()] as usize;
                self.go(Job { ticket: Some(ticket), member, began: self.now, twin: None, ..job }, number);
                return;
            }
        }
        self.in_system -= 1;
        if let Some(block) = job.block {
            self.tally.blocks[block].latencies.push(first_byte - job.came);
            self.tally.failed += u64::from(failed);
            if let Some((from, member)) = job.explored {
                self.tally.drawn[member].add(from, first_byte - job.came, failed || !job.tried.is_empty());
            }
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
        let mut tally = self.tally;
        let drawn = std::mem::take(&mut tally.drawn);
        let all: f64 = tally.blocks.iter().map(Block::count).sum();
        let [_, second, last] = tally.thirds.map(|sum| sum as f64 / (self.requests / 3) as f64);
        let mut latencies: Vec<u64> = tally.blocks.iter().flat_map(|of| &of.latencies).copied().collect();
        latencies.sort_unstable();
        let at = |part: f64| {
            latencies.get(((latencies.len() as f64 * part) as usize).min(latencies.len().saturating_sub(1)))
        };
        let at = |part: f64| at(part).map_or(0.0, |&ns| ns as f64);
        let ended = latencies.len().max(1) as f64;
        let ln_p99 = |of: &Block| quantile(of.latencies.clone(), 0.99).max(1.0).ln();
        Played {
            shares: (0..self.slots.len()).map(|at| tally.figure(|of| of.picks[at] as f64 / of.count())).collect(),
            met: tally.figure(|of| of.met as f64 / of.count()),
            least: tally.figure(|of| of.least as f64 / of.count()),
            in_turn: tally.figure(|of| of.in_turn as f64 / of.count()),
            beyond: tally.beyond as f64 / all,
            mean_ns: latencies.iter().sum::<u64>() as f64 / ended,
            failed: tally.failed as f64 / ended,
            drawn,
            median_ns: at(0.5),
            p90_ns: at(0.9),
            ln_p99: Figure { value: at(0.99).max(1.0).ln(), ..tally.figure(ln_p99) },
            full: tally.full as f64 / (all + tally.full as f64),
            // If requests pile up linearly, the last third has 1.67 times as many as the second.
            steady: last <= 1.4 * second + 2.0,
            busiest: (0..self.in_flight.len()).max_by_key(|&member| self.in_flight[member]).unwrap_or(0),
            picks: tally.hash,
            requests: all,
        }
    }
}
