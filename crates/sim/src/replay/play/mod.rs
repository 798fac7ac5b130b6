//! Replay of recorded requests in virtual time: an algorithm picks among endpoints that follow given models.

// Order: hedging, joining, thinking & run, course
mod course;
mod hedging;
mod joining;
mod run;
mod thinking;

pub use course::{Course, Hedging, Joining, System};
pub use run::REQUESTS_JOINING_MAX;

use super::bounds::Bound;
use super::clients::Clients;
use super::fit::Way;
use super::tally::{BLOCKS, Played};
use super::trace::{Arrival, Kind, is_least};
use crate::engine::calendar::Event;
use crate::scenario;
use evenkeel_balance::rng::mix;
use evenkeel_balance::{FailureKind, Instant, LoadReport, Outcome, Request, Slot};
use run::{Job, Run, Waiting};

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
        Clients::Thinking => run.begin_thinking(),
    }
    while let Some((at, event)) = run.calendar.next() {
        run.now = at;
        match event {
            Event::Arrive => run.arrive(),
            Event::AtBalancer(client) => run.send(client),
            Event::AtServer(job) => run.begin(job),
            Event::Done(job) => run.end(job),
            Event::Depart(server) => run.depart(server as usize),
            Event::TimedOut(job, tag) => run.hedge(job, tag),
            Event::Poll(pool) => run.poll(pool as usize),
            _ => {}
        }
        if run.made >= run.requests || run.is_measured() {
            break;
        }
    }
    let busiest = (0..run.in_flight.len()).max_by_key(|&member| run.in_flight[member]).unwrap_or(0);
    // Sums over thirds are of the time before members join, if some do.
    let counted = if course.joining.is_some() { run.settled } else { run.requests };
    run.tally.played(system.members.len(), counted, busiest)
}

impl Run<'_> {
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
        if self.system.clients == Clients::Open {
            let (_, at) = self.arrival(self.made + 1);
            self.calendar.at(at.max(self.now), Event::Arrive);
        }
        self.come(index, self.made as u64);
    }

    /// Handles a request: its index in the trace, and its number, from which its luck is drawn.
    fn come(&mut self, index: usize, number: u64) {
        if self.made == self.settled && self.course.joining.is_some() {
            self.join();
        }
        let block = self.block();
        // Requests may pile up at a cold member for a while, but not before it joins.
        let whole = if self.course.joining.is_some() { self.settled } else { self.requests };
        if let Some(sum) = self.tally.thirds.get_mut(3 * self.made / whole) {
            *sum += self.in_system as u64;
        }
        self.made += 1;
        let balancer = match self.course.balancers {
            0 | 1 => 0,
            balancers => (mix(self.luck ^ !number) % u64::from(balancers)) as usize,
        };
        let worker = balancer * self.system.trace.workers as usize + self.system.trace.arrivals[index].worker as usize;
        let waiting = Waiting { number, index, worker, came: self.now, block };
        if self.admit(waiting) {
            self.in_system += 1;
            self.probe(worker);
        } else if self.waiting.len() < self.room() {
            self.in_system += 1;
            self.waiting.push_back(waiting);
        } else {
            self.tally.full += u64::from(block.is_some());
            match self.system.clients {
                Clients::Open => {}
                Clients::Closed(_) => self.calendar.at(self.now + 1_000_000, Event::Arrive),
                Clients::Thinking => self.think(number),
            }
        }
    }

    /// Part of the run that a request counts in, by its number, or by its time if members join; `None` before and after.
    fn block(&self) -> Option<usize> {
        let number = self.made.checked_sub(self.settled)?;
        match self.course.joining.zip(self.joined_at) {
            None => Some(number * BLOCKS / (self.requests - self.settled)),
            Some((joining, at)) => {
                let part = (self.now - at) as f64 / joining.window_ns.max(1) as f64;
                Some((part * BLOCKS as f64) as usize).filter(|block| *block < BLOCKS)
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
            index,
            tried: Vec::new(),
            twin: None,
            is_copy: false,
            block,
        };
        let job = self.go(job);
        self.await_slow(job, directed.is_none());
        true
    }

    /// Sends a try to its member.
    fn go(&mut self, mut job: Job) -> u32 {
        let member = job.member;
        if let Some(block) = job.block {
            self.tally.blocks[block].picks[member] += 1;
        }
        job.found = self.in_flight[member];
        self.in_flight[member] += 1;
        let way = self.system.ways[member];
        job.sample = match self.system.ranks {
            Some(ranks) => way.at_rank(ranks[job.index]),
            None if self.course.hedging.is_some_and(|hedging| hedging.is_of_demand) => {
                way.at_rank((mix(self.luck ^ job.number) >> 40) as f32 / (1 << 24) as f32)
            }
            // A request draws the same sample at an endpoint under every algorithm.
            None => {
                let luck = mix(self.luck ^ job.number ^ (member as u64) << 40);
                way.samples[(luck % way.samples.len() as u64) as usize]
            }
        };
        job.sample.work_ns *= self.coldness(member);
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
        if !self.settles_copies(&job, first_byte) {
            return;
        }
        if failed && (job.tried.len() as u32) < self.course.retries {
            job.tried.push(slot);
            let request = Request { key: job.key, tried: &job.tried, ..Request::default() };
            if let Ok(ticket) = self.balancers[job.worker].start(&request, now) {
                let member = self.member_of[ticket.slot().index()];
                self.go(Job { ticket: Some(ticket), member, began: self.now, twin: None, ..job });
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
        match self.system.clients {
            Clients::Open => {}
            Clients::Closed(_) => self.calendar.at(self.now, Event::Arrive),
            Clients::Thinking => self.think(job.number),
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
}
