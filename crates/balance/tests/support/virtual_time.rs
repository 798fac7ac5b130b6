//! What would these picks lead to? A farm of servers in virtual time around real balancers: one heap of events, and
//! nothing else, so that what it shows is the algorithm's doing.

use super::rows::Row;
use evenkeel_balance::{
    Balancer, EndpointSpec, Instant, LoadReport, Outcome, Pool, Request, Rng, Seat, Slot, Ticket, rng::mix,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;

/// When requests come.
#[derive(Clone, Copy)]
pub enum Arrivals {
    /// So many at a time; each end starts the next.
    Closed { concurrency: usize },
    /// On their own, with exponential gaps of this mean in nanoseconds.
    Poisson { gap_ns: f64 },
}

/// What a server does with requests that overlap.
#[derive(Clone, Copy, PartialEq)]
pub enum Queueing {
    /// Serves all at once, each as if alone.
    None,
    /// Serves one at a time in order of arrival.
    Fifo,
}

/// How long a request takes at a server, without waiting; nanoseconds.
pub type Service = fn(server: usize, now: Instant, rng: &mut Rng) -> u64;

/// Servers, and what is asked of them.
#[derive(Clone)]
pub struct Farm {
    pub weights: Vec<u32>,
    pub queueing: Queueing,
    pub service: Service,
    pub arrivals: Arrivals,
    pub requests: usize,
    /// The first of them are not measured.
    pub warm_up: usize,
    /// Independent balancers that know nothing of each other; requests come to them at random.
    pub balancers: usize,
    /// Workers of each, on one pool, to which requests come at random too.
    pub workers: u32,
    /// From a probe to its answer, nanoseconds.
    pub probe_ns: u64,
}

/// What came of it.
pub struct Run {
    /// Sorted, nanoseconds, waiting included.
    pub latencies: Vec<u64>,
    pub picks: Vec<u32>,
    /// The moment of the last end.
    pub wall_ns: u64,
}

impl Run {
    /// The latency that a share `q` of requests does not pass, nanoseconds.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (self.latencies.len() as f64 * q).ceil() as usize;
        self.latencies[rank.clamp(1, self.latencies.len()) - 1]
    }

    pub fn mean(&self) -> f64 {
        self.latencies.iter().map(|&ns| ns as f64).sum::<f64>() / self.latencies.len() as f64
    }
}

/// Exponentially distributed with this mean.
pub fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln() * mean
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive,
    End(usize),
    Answer { balancer: usize, slot: Slot },
}

struct Running {
    ticket: Ticket,
    balancer: usize,
    server: usize,
    /// In flight at the server when it came, itself included.
    behind: u32,
    measured: bool,
}

#[derive(Clone, Default)]
struct Server {
    free_at: u64,
    in_flight: u32,
    picks: u32,
    /// Latency of the latest request per request that was ahead of it: what the server tells probes.
    pace_ns: u64,
}

struct Loop<'f> {
    farm: &'f Farm,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    balancers: Vec<Balancer>,
    /// By balancer and slot.
    server_at: Vec<Vec<usize>>,
    servers: Vec<Server>,
    running: Vec<Option<Running>>,
    idle: Vec<usize>,
    left: usize,
    // One generator for each kind of chance, so that algorithms share the workload.
    gaps: Rng,
    works: Rng,
    doors: Rng,
    latencies: Vec<u64>,
}

impl Farm {
    /// Runs the row in it.
    pub fn run(&self, row: &Row, seed: u64) -> Run {
        let names: Vec<_> = (0..self.weights.len()).map(|i| format!("server {i}")).collect();
        let specs = names.iter().zip(&self.weights).map(|(n, &w)| EndpointSpec::new(n).weight(w));
        let specs: Vec<_> = specs.collect();
        let pools: Vec<Pool> = (0..self.balancers)
            .map(|_| {
                let mut pool = Pool::new(self.workers);
                pool.update(&specs, Instant(0));
                pool
            })
            .collect();
        let server_at = |pool: &Pool| {
            let mut at = vec![0; specs.len()];
            for (server, spec) in specs.iter().enumerate() {
                at[pool.slot_of(spec.id).expect("it was just configured").index()] = server;
            }
            at
        };
        let seats = || (0..self.workers).map(|worker| Seat { worker, workers: self.workers });
        let doors = (0..).zip(&pools).flat_map(|(i, pool)| seats().map(move |seat| (i, pool, seat)));
        let balancers = doors.map(|(i, pool, seat)| row.balancer(pool, seat, mix(seed ^ mix(i)))).collect();
        let at_doors = pools.iter().flat_map(|pool| seats().map(move |_| pool));
        let streams = mix(seed);
        let mut l = Loop {
            farm: self,
            now: 0,
            events: BinaryHeap::new(),
            sequence: 0,
            balancers,
            server_at: at_doors.map(server_at).collect(),
            servers: vec![Server::default(); specs.len()],
            running: Vec::new(),
            idle: Vec::new(),
            left: self.requests,
            gaps: Rng::new(streams ^ 1),
            works: Rng::new(streams ^ 2),
            doors: Rng::new(streams ^ 3),
            latencies: Vec::with_capacity(self.requests),
        };
        match self.arrivals {
            Arrivals::Closed { concurrency } => (0..concurrency).for_each(|_| l.after(0, Event::Arrive)),
            Arrivals::Poisson { .. } => l.after(0, Event::Arrive),
        }
        l.run();
        l.latencies.sort_unstable();
        Run { latencies: l.latencies, picks: l.servers.iter().map(|s| s.picks).collect(), wall_ns: l.now }
    }
}

impl Loop<'_> {
    fn after(&mut self, ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + ns, self.sequence, event)));
    }

    fn run(&mut self) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            match event {
                Event::Arrive if self.left == 0 => continue,
                Event::Answer { balancer, slot } => {
                    self.now = at;
                    let server = &self.servers[self.server_at[balancer][slot.index()]];
                    let latency_ns = server.pace_ns * u64::from(server.in_flight + 1);
                    let report = LoadReport::new(server.in_flight, latency_ns);
                    self.balancers[balancer].report(slot, &report, Instant(at)).unwrap();
                }
                Event::Arrive => {
                    self.now = at;
                    self.arrive();
                }
                Event::End(index) => {
                    self.now = at;
                    self.end(index);
                }
            }
        }
    }

    fn arrive(&mut self) {
        let now = Instant(self.now);
        self.left -= 1;
        if let Arrivals::Poisson { gap_ns } = self.farm.arrivals {
            let gap = exponential(gap_ns, &mut self.gaps) as u64;
            self.after(gap, Event::Arrive);
        }
        let balancer = self.doors.below(self.balancers.len() as u32) as usize;
        let key = Some(self.doors.next_u64());
        let ticket = self.balancers[balancer]
            .start(&Request { key, tried: &[] }, now)
            .expect("no server is ever tried, full or gone");
        let server = self.server_at[balancer][ticket.slot().index()];
        let service = (self.farm.service)(server, now, &mut self.works);
        let s = &mut self.servers[server];
        s.in_flight += 1;
        s.picks += 1;
        let begins = if self.farm.queueing == Queueing::Fifo { s.free_at.max(self.now) } else { self.now };
        s.free_at = begins + service;
        let takes = s.free_at - self.now;
        let measured = self.farm.requests - self.left > self.farm.warm_up;
        let running = Some(Running { ticket, balancer, server, behind: s.in_flight, measured });
        let index = self.idle.pop().unwrap_or_else(|| {
            self.running.push(None);
            self.running.len() - 1
        });
        self.running[index] = running;
        self.after(takes, Event::End(index));
        while let Some(slot) = self.balancers[balancer].poll_probe(now) {
            self.after(self.farm.probe_ns, Event::Answer { balancer, slot });
        }
    }

    fn end(&mut self, index: usize) {
        let r = self.running[index].take().expect("a request ends once");
        self.idle.push(index);
        let latency = self.now - r.ticket.began().0;
        let s = &mut self.servers[r.server];
        s.in_flight -= 1;
        s.pace_ns = latency / u64::from(r.behind);
        if r.measured {
            self.latencies.push(latency);
        }
        self.balancers[r.balancer].end(r.ticket, Outcome::Success, Instant(self.now));
        if let Arrivals::Closed { .. } = self.farm.arrivals {
            self.after(0, Event::Arrive);
        }
    }
}
