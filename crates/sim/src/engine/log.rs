//! Log of a run: each request to a service with its tries, as a balancer of a real system would log it.

use super::jobs::{Answer, Job};
use crate::run::Failure;
use std::collections::BTreeMap;

/// Stands for no request of the log.
const NONE: u32 = u32::MAX;

/// Request at a balancer of the logged service.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    /// Arrival at the balancer, in nanoseconds from the start of the run.
    pub arrived_ns: u64,
    /// Time of the response at the balancer; `None` if the run ended before.
    pub ended_ns: Option<u64>,
    /// User who sent it, of a closed loop; 0 for other loads, and for requests of servers.
    pub user: u32,
    /// Balancer, and its worker.
    pub balancer: u32,
    pub worker: u32,
    /// Work that the request requires of its server, in nanoseconds; of several steps the sum. 0 without a server.
    pub work_ns: u64,
    /// Number of servers from which the first was drawn uniformly; 0 if the policy picked it.
    pub drawn_from: u32,
    /// Tries in order. Empty if no server could be picked.
    pub tries: Vec<LoggedTry>,
    /// Failure that the caller saw; `None` for a successful or an open request.
    pub failure: Option<Failure>,
}

/// Try of a request at a server.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedTry {
    /// Index of the server among the servers of the service.
    pub server: u32,
    /// Time of the pick, in nanoseconds from the start of the run.
    pub began_ns: u64,
    /// Time until the balancer had the response or gave up, in nanoseconds; `None` if the run ended before.
    pub took_ns: Option<u64>,
    pub failure: Option<Failure>,
}

impl Logged {
    /// Time in the queue of the pool before the first try, in nanoseconds.
    pub fn queue_ns(&self) -> u64 {
        self.tries.first().map_or(0, |first| first.began_ns - self.arrived_ns)
    }

    /// Time from the arrival to the response, in nanoseconds; `None` if the run ended before.
    pub fn total_ns(&self) -> Option<u64> {
        self.ended_ns.map(|ended| ended - self.arrived_ns)
    }
}

/// Log of a run in progress.
pub(super) struct Log {
    /// Service whose requests are logged.
    service: u16,
    pub requests: Vec<Logged>,
    /// Index in `requests`, by job; [`NONE`] for jobs that are not logged.
    of_job: Vec<u32>,
    users: Users,
}

/// Users of a closed loop. The engine does not tell them apart, as they are alike.
#[derive(Default)]
struct Users {
    /// Users with a request in progress, by the seed of the request.
    waiting: BTreeMap<u64, u32>,
    /// Users who think, by the time of their next request, and the order in which they began for equal times.
    thinking: BTreeMap<(u64, u64), u32>,
    begun: u64,
    /// Users who have sent a request.
    known: u32,
}

impl Users {
    fn sends(&mut self, seed: u64, now: u64) {
        let next = self.thinking.first_key_value().map(|(key, _)| *key).filter(|(at, _)| *at <= now);
        let user = next.and_then(|key| self.thinking.remove(&key)).unwrap_or_else(|| {
            self.known += 1;
            self.known - 1
        });
        self.waiting.insert(seed, user);
    }

    fn thinks(&mut self, seed: u64, until: u64) {
        if let Some(user) = self.waiting.remove(&seed) {
            self.thinking.insert((until, self.begun), user);
            self.begun += 1;
        }
    }
}

impl Log {
    pub fn new(service: u16) -> Log {
        Log { service, requests: Vec::new(), of_job: Vec::new(), users: Users::default() }
    }

    /// Logs that a user of a closed loop sends a request with this seed.
    pub fn sends(&mut self, seed: u64, now: u64) {
        self.users.sends(seed, now);
    }

    /// Logs that the user whose request had this seed thinks until then.
    pub fn thinks(&mut self, seed: u64, until: u64) {
        self.users.thinks(seed, until);
    }

    /// Logs the arrival of a job at its balancer, if it calls the logged service.
    pub fn arrived(&mut self, index: u32, job: &Job, now: u64) {
        let at = index as usize;
        if self.of_job.len() <= at {
            self.of_job.resize(at + 1, NONE);
        }
        self.of_job[at] = NONE;
        if job.service == self.service {
            self.of_job[at] = self.requests.len() as u32;
            self.requests.push(Logged {
                arrived_ns: now,
                ended_ns: None,
                user: self.users.waiting.get(&job.seed).copied().unwrap_or(0),
                balancer: job.dispatcher,
                worker: job.worker,
                work_ns: 0,
                drawn_from: 0,
                tries: Vec::new(),
                failure: None,
            });
        }
    }

    fn of(&mut self, index: u32) -> Option<&mut Logged> {
        let at = *self.of_job.get(index as usize)?;
        self.requests.get_mut(at as usize)
    }

    pub fn picked(&mut self, index: u32, server: u32, now: u64) {
        if let Some(logged) = self.of(index) {
            logged.work_ns = 0;
            logged.tries.push(LoggedTry { server, began_ns: now, took_ns: None, failure: None });
        }
    }

    /// Logs that the server of the current try, the first, was drawn from so many.
    pub fn drawn(&mut self, index: u32, from: u32) {
        if let Some(logged) = self.of(index) {
            logged.drawn_from = from;
        }
    }

    /// Logs work of the current try.
    pub fn worked(&mut self, index: u32, work_ns: u64) {
        if let Some(logged) = self.of(index) {
            logged.work_ns += work_ns;
        }
    }

    /// Continues a request as another job; the first job remains as an orphan.
    pub fn moved(&mut self, from: u32, to: u32) {
        let at = self.of_job.get(from as usize).copied().unwrap_or(NONE);
        if self.of_job.len() <= to as usize {
            self.of_job.resize(to as usize + 1, NONE);
        }
        (self.of_job[from as usize], self.of_job[to as usize]) = (NONE, at);
    }

    pub fn try_ended(&mut self, index: u32, answer: Answer, now: u64) {
        if let Some(last) = self.of(index).and_then(|logged| logged.tries.last_mut()) {
            last.took_ns = Some(now - last.began_ns);
            last.failure = failure(answer);
        }
    }

    pub fn ended(&mut self, index: u32, answer: Answer, now: u64) {
        if let Some(logged) = self.of(index) {
            logged.ended_ns = Some(now);
            logged.failure = failure(answer);
        }
    }
}

fn failure(answer: Answer) -> Option<Failure> {
    match answer {
        Answer::Well => None,
        Answer::Bad(failure) => Some(failure),
    }
}
