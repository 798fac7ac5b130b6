//! Server, simulated by virtual work. All requests in service progress at the same rate, so each is done when the
//! server's own clock reaches a value that is fixed at its start. First come, first served is the case in which at most
//! as many as there are cores are in service.

use crate::scenario::{self, Serving};
use crate::work::Work;
use evenkeel_balance::LoadEstimate;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Stands for work that belongs to no request: the work of a probe, or of a balancer beside the server.
pub(super) const NO_REQUEST: u32 = u32::MAX;

/// Work in service, done when the server's clock reaches `due`.
#[derive(Clone, Copy, PartialEq)]
struct Served {
    due: f64,
    sequence: u32,
    job: u32,
}

impl Eq for Served {}

impl PartialOrd for Served {
    fn partial_cmp(&self, other: &Served) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Served {
    /// Reversed: the earliest is the greatest, as [`BinaryHeap`] is a max-heap.
    #[inline]
    fn cmp(&self, other: &Served) -> Ordering {
        other.due.total_cmp(&self.due).then(other.sequence.cmp(&self.sequence))
    }
}

pub(crate) struct Server<'s> {
    pub spec: &'s scenario::Server,
    /// Index of its service, and its own index there.
    pub service: u16,
    pub number: u16,
    /// Work that each request requires.
    pub work: Work,
    serving: Serving,
    shares_nothing: bool,
    /// Virtual clock: work that a request in service since the start would have got, in nanoseconds.
    clock: f64,
    /// Time of the last clock update.
    at: u64,
    /// Work per nanosecond that each request in service gets.
    rate: f64,
    served: BinaryHeap<Served>,
    sequence: u32,
    /// Work that waits for a core.
    waiting: VecDeque<(u32, f64)>,
    /// Time of its next calendar entry; `u64::MAX` for none.
    pub next_at: u64,
    /// Current factors of its cores and of its speed, by process of its capacity.
    pub factors: Vec<(f64, f64)>,
    pub warmth: f64,
    /// Threads of other programs that share its cores now, by process of its capacity.
    pub neighbours: Vec<u32>,
    /// Share of the wanted cores that its machine grants, 0 to 1.
    pub given: f64,
    /// Requests that have arrived and are not done.
    pub in_flight: u32,
    /// Number of requests that hold a thread; requests that wait for a thread.
    pub threads_used: u32,
    pub backlog: VecDeque<u32>,
    /// Time at which its outgoing link is free.
    pub link_free_at: u64,
    /// Estimate of its load, which it reports.
    pub estimate: LoadEstimate,
    /// Requests received; maximum in flight.
    pub requests: u64,
    pub in_flight_max: u32,
}

impl<'s> Server<'s> {
    /// Creates a server; its requests take `usual` work unless its spec has its own.
    pub fn new(of: &'s scenario::Server, service: u16, number: u16, usual: Work) -> Server<'s> {
        let mut server = Server {
            spec: of,
            service,
            number,
            work: of.work.unwrap_or(usual),
            serving: of.serving,
            shares_nothing: of.serving == Serving::Unlimited
                && of.capacity.is_empty()
                && of.cold.is_none()
                && of.machine.is_none(),
            clock: 0.0,
            at: 0,
            rate: 0.0,
            served: BinaryHeap::new(),
            sequence: 0,
            waiting: VecDeque::new(),
            next_at: u64::MAX,
            factors: vec![(1.0, 1.0); of.capacity.len()],
            warmth: 1.0,
            neighbours: vec![0; of.capacity.len()],
            given: 1.0,
            in_flight: 0,
            threads_used: 0,
            backlog: VecDeque::new(),
            link_free_at: 0,
            estimate: LoadEstimate::default(),
            requests: 0,
            in_flight_max: 0,
        };
        server.set_rate();
        server
    }

    /// True if each request is always served at full speed, as if alone.
    pub fn is_unlimited(&self) -> bool {
        self.shares_nothing
    }

    fn cores_factor(&self) -> f64 {
        self.factors.iter().map(|(cores, _)| cores).product()
    }

    fn speed(&self) -> f64 {
        self.factors.iter().map(|(_, speed)| speed).product::<f64>() * self.warmth
    }

    fn set_rate(&mut self) {
        let speed = self.speed() * self.given;
        self.rate = match self.serving {
            Serving::Unlimited => speed,
            Serving::Fifo { cores } => speed * self.cores_factor() * self.part(f64::from(cores)),
            Serving::Sharing { cores } => speed * self.part(cores * self.cores_factor()),
        };
    }

    /// Part of a core that each request in service gets of so many, which threads of neighbours share.
    fn part(&self, cores: f64) -> f64 {
        let threads = self.served.len() as f64 + f64::from(self.neighbours.iter().sum::<u32>());
        if threads <= cores { 1.0 } else { cores / threads }
    }

    /// Cores that it would use if it had its machine to itself.
    pub fn wants(&self) -> f64 {
        let busy = self.served.len() as f64;
        let cores = match self.serving {
            Serving::Unlimited => busy,
            Serving::Fifo { cores } => busy * self.part(f64::from(cores)),
            Serving::Sharing { cores } => busy * self.part(cores),
        };
        cores * self.cores_factor() * self.speed()
    }

    /// Sets the clock to `now`.
    fn advance(&mut self, now: u64) {
        self.clock += self.rate * (now - self.at) as f64;
        self.at = now;
    }

    /// Begins `work_ns` of work, or lets it wait for a core.
    pub fn add(&mut self, job: u32, work_ns: f64, now: u64) {
        self.advance(now);
        match self.serving {
            Serving::Fifo { cores } if self.served.len() >= cores as usize => self.waiting.push_back((job, work_ns)),
            _ => self.serve(job, work_ns),
        }
        self.set_rate();
    }

    fn serve(&mut self, job: u32, work_ns: f64) {
        self.sequence = self.sequence.wrapping_add(1);
        self.served.push(Served { due: self.clock + work_ns, sequence: self.sequence, job });
    }

    /// Removes and returns a job whose work is done by `now`; `None` when there are no more.
    pub fn take_done(&mut self, now: u64) -> Option<u32> {
        self.advance(now);
        // A tolerance of 0.1 ns: the calendar has whole nanoseconds, and the clock rounding errors.
        let done = self.served.peek().is_some_and(|s| s.due <= self.clock + 0.1);
        let job = if done { self.served.pop().map(|s| s.job) } else { None };
        if job.is_some() {
            if let Some((job, work_ns)) = self.waiting.pop_front() {
                self.serve(job, work_ns);
            }
            self.set_rate();
        }
        job
    }

    /// Time at which the next request completes if nothing changes.
    pub fn done_at(&self) -> Option<u64> {
        let next = self.served.peek()?;
        let left = (next.due - self.clock).max(0.0);
        (self.rate > 0.0).then(|| self.at.saturating_add((left / self.rate).ceil() as u64))
    }

    /// Applies a change of capacity at `now`.
    pub fn on_capacity(&mut self, now: u64, change: impl FnOnce(&mut Server<'s>)) {
        self.advance(now);
        change(self);
        self.set_rate();
    }

    /// True if another request would be served at once and at full speed. `coming`: requests in flight or on their way.
    pub fn has_idle_core(&self, coming: u32) -> bool {
        let busy = f64::from(self.in_flight.max(coming));
        match self.serving {
            Serving::Unlimited => true,
            Serving::Fifo { cores } => busy < f64::from(cores) && self.rate > 0.0,
            Serving::Sharing { cores } => busy + 1.0 <= (cores * self.cores_factor()).max(1.0) && self.rate > 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs until all work is done. Returns each job with its end time.
    fn run(serving: Serving, work: &[(u64, f64)]) -> Vec<(u32, u64)> {
        let of = scenario::Server { serving, ..scenario::Server::new("s") };
        let mut s = Server::new(&of, 0, 0, Work::Constant(0));
        let (mut out, mut coming) = (Vec::new(), work.iter().enumerate().peekable());
        loop {
            let done = s.done_at().unwrap_or(u64::MAX);
            match coming.peek() {
                Some(&(i, &(at, work_ns))) if at < done => {
                    coming.next();
                    s.add(i as u32, work_ns, at);
                }
                _ if done == u64::MAX => return out,
                _ => out.extend(std::iter::from_fn(|| s.take_done(done)).map(|job| (job, done)).collect::<Vec<_>>()),
            }
        }
    }

    #[test]
    fn first_come_first_served() {
        let got = run(Serving::Fifo { cores: 1 }, &[(0, 10.0), (1, 10.0), (30, 5.0)]);
        assert_eq!(got, [(0, 10), (1, 20), (2, 35)]);
        let got = run(Serving::Fifo { cores: 2 }, &[(0, 10.0), (1, 10.0), (2, 1.0)]);
        assert_eq!(got, [(0, 10), (1, 11), (2, 11)]);
    }

    #[test]
    fn shared_equally_but_never_more_than_a_core_each() {
        // Two on a core: each at half speed from 10 on. The first has 10 left by then, and is done at 30.
        let got = run(Serving::Sharing { cores: 1.0 }, &[(0, 20.0), (10, 20.0)]);
        assert_eq!(got, [(0, 30), (1, 40)]);
        let got = run(Serving::Sharing { cores: 2.0 }, &[(0, 20.0), (10, 20.0)]);
        assert_eq!(got, [(0, 20), (1, 30)]);
    }
}
