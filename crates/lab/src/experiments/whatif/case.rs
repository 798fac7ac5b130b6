//! A case: a simulated system with its load, and the policy under which its log is made.

use super::entry::{self, Entry};
use super::lines::Format;
use super::traces;
use evenkeel_balance::retry;
use evenkeel_balance::rng::mix;
use evenkeel_sim::run::Run;
use evenkeel_sim::scenario::{
    Balancing, Capacity, Cold, Deployment, Load, Policy, Scenario, Server, Service, Serving, Step,
};
use evenkeel_sim::work::Work;
use evenkeel_sim::{Logged, simulate_logged};

/// Mean work of a request at an endpoint of speed 1, in nanoseconds.
pub const WORK_NS: f64 = 30e6;

/// Time between a balancer and an endpoint, in nanoseconds.
const LINK_NS: u64 = 100_000;

/// Row of the table of cases.
pub struct Row {
    pub name: &'static str,
    /// Endpoints, as cores and speed of each.
    pub endpoints: &'static [(u32, f64)],
    pub sharing: Sharing,
    pub law: Law,
    /// Work offered as a share of the capacity.
    pub load: f64,
    pub arrivals: Arrivals,
    /// Label of the policy under which the log is made.
    pub policy: &'static str,
    pub format: Format,
    pub requests: u64,
    pub more: More,
    /// True for the cases that `--quick` runs.
    pub quick: bool,
}

/// Sharing of an endpoint by its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Requests wait for a core in order of arrival.
    Fifo,
    /// Requests share the cores.
    Equal,
    /// Each request runs as if alone.
    Unlimited,
}

/// Distribution of the work of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    Constant,
    Exponential,
    /// Lognormal, with the standard deviation of the logarithm.
    Lognormal(f64),
    /// Bounded Pareto over three decades, with its exponent.
    Pareto(f64),
    /// Token counts of conversations, and of responses to programmers.
    Conversation,
    Code,
}

/// Spread of the requests over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    Poisson,
    /// Markov-modulated: 0.7 of the mean rate for 4 s, 2.2 of it for 1 s, on average.
    Mmpp,
    /// Bursts of the requests of programmers.
    Code,
    /// Closed loop of users who think.
    Closed,
}

/// Change to the system of a row.
#[derive(Clone, Copy, Debug)]
pub enum More {
    Nothing,
    /// Endpoints pause for 150 ms every 2 s, on average.
    Stalls,
    /// The last endpoint is on a machine with a noisy neighbour.
    Neighbour,
    /// The first endpoint accepts few requests at once and refuses others, which are tried again.
    Refusals,
    /// Balancers that share nothing, each with its log.
    Balancers(u32),
    /// Workers of the balancer, which share its pool.
    Workers(u32),
    /// Limit of requests in flight at an endpoint, and a queue in front of the pool.
    Queue(u32),
    /// Share of the requests that is explored.
    Explore(f64),
    /// Weights of the endpoints.
    Weights(&'static [u32]),
    /// The last line is cut, and a few lines are not requests.
    BadLines,
    /// An endpoint joins: asked about with slow start. The log shows that of the last endpoint, cold at first, or none.
    Joins {
        is_seen: bool,
    },
}

/// Question about an endpoint that joins, with slow start and without.
#[derive(Clone, Copy, Debug)]
pub struct SlowStart {
    pub window_ns: u64,
    pub cold: Option<Cold>,
}

/// Time of slow start, and of a warm-up, in nanoseconds.
const RAMP_NS: u64 = 20_000_000_000;

/// Warm-up from a quarter of the speed.
const COLD: Cold = Cold { speed: 0.25, window_ns: RAMP_NS };

/// Time at which an endpoint joins, in nanoseconds.
pub const JOINS_NS: u64 = 40_000_000_000;

/// System whose log is made.
pub struct Case {
    pub name: &'static str,
    pub scenario: Scenario,
    /// Index of the service whose balancers write the log.
    pub service: u16,
    pub policy: &'static str,
    /// Policy that `whatif` is given.
    pub claimed: &'static str,
    pub format: Format,
    /// Bytes of a response per millisecond of work; 0 for responses of equal size.
    pub bytes_per_ms: f64,
    /// True if each balancer has its own log.
    pub is_split: bool,
    pub bad_lines: bool,
    /// True if `whatif` gets the configuration of the balancer.
    pub is_configured: bool,
    pub slow_start: Option<SlowStart>,
}

impl Row {
    pub fn case(&self) -> Case {
        let endpoints: Vec<Server> = (0..self.endpoints.len()).map(|at| self.endpoint(at)).collect();
        let capacity: f64 = self.endpoints.iter().map(|(cores, speed)| f64::from(*cores) * speed).sum();
        let scenario = Scenario {
            services: vec![Service {
                name: "web".to_string(),
                servers: endpoints,
                steps: vec![Step::Work],
                work: self.law.work(1.0),
                response_bytes: 0,
                balancing: self.balancing(),
            }],
            machines: Vec::new(),
            load: self.arrivals.load(self.load * capacity, self.requests),
            link_ns: LINK_NS,
            requests: self.requests,
            warm_up: 0,
            until_ns: u64::MAX,
        };
        let bytes_per_ms = if matches!(self.law, Law::Conversation | Law::Code) { 40.0 } else { 0.0 };
        Case {
            name: self.name,
            scenario,
            service: 0,
            policy: self.policy,
            claimed: self.policy,
            format: self.format,
            bytes_per_ms,
            is_split: true,
            bad_lines: matches!(self.more, More::BadLines),
            is_configured: matches!(self.more, More::Weights(_)),
            slow_start: match self.more {
                More::Joins { is_seen } => Some(SlowStart { window_ns: RAMP_NS, cold: is_seen.then_some(COLD) }),
                _ => None,
            },
        }
    }

    fn endpoint(&self, at: usize) -> Server {
        let (cores, speed) = self.endpoints[at];
        let mut server = Server::new(&format!("s{}", at + 1));
        server.serving = match self.sharing {
            Sharing::Fifo => Serving::Fifo { cores },
            Sharing::Equal => Serving::Sharing { cores: f64::from(cores) },
            Sharing::Unlimited => Serving::Unlimited,
        };
        server.work = Some(self.law.work(1.0 / speed));
        match self.more {
            More::Stalls => {
                let (every, length) = (Work::Exponential { mean_ns: 2e9 }, Work::Exponential { mean_ns: 150e6 });
                server.capacity.push(Capacity::Stalls { every, length, speed: 0.05 });
            }
            More::Neighbour if at + 1 == self.endpoints.len() => {
                let states = vec![(1.0, 0.6), (0.5, 0.4)];
                server.capacity.push(Capacity::Antagonist { states, mean_ns: 500_000_000 });
            }
            More::Joins { is_seen: true } if at + 1 == self.endpoints.len() => {
                (server.joins_ns, server.cold) = (JOINS_NS, Some(COLD));
            }
            More::Refusals if at == 0 => (server.threads, server.backlog) = (2, 0),
            More::Queue(max) => server.in_flight_max = max,
            More::Weights(weights) => server.weight = weights[at],
            _ => {}
        }
        server
    }

    fn balancing(&self) -> Balancing {
        let mut balancing = Balancing::default();
        match self.more {
            More::Balancers(balancers) => balancing.deployment = Deployment::Central { balancers },
            More::Workers(workers) => balancing.workers = workers,
            More::Explore(share) => balancing.explore = share,
            More::Queue(_) => balancing.queue = (10_000, u64::MAX / 4),
            More::Refusals => {
                let retry = retry::Settings { attempts: 2, budget: 1.0, ..retry::Settings::default() };
                balancing.retry = Some(retry);
            }
            _ => {}
        }
        balancing
    }
}

impl Law {
    /// Distribution of work with a mean of [`WORK_NS`] times `times`.
    pub fn work(self, times: f64) -> Work {
        let mean_ns = WORK_NS * times;
        let table = |values: &'static [u32]| {
            let unit = Work::Table { values, unit_ns: 1.0 };
            Work::Table { values, unit_ns: mean_ns / unit.mean_ns() }
        };
        match self {
            Law::Constant => Work::Constant(mean_ns as u64),
            Law::Exponential => Work::Exponential { mean_ns },
            Law::Lognormal(sigma) => Work::Lognormal { mean_ns, sigma },
            Law::Pareto(alpha) => {
                let unit = Work::BoundedPareto { alpha, min_ns: 1.0, max_ns: 1000.0 };
                let min_ns = mean_ns / unit.mean_ns();
                Work::BoundedPareto { alpha, min_ns, max_ns: 1000.0 * min_ns }
            }
            Law::Conversation => table(traces::conversation()),
            Law::Code => table(traces::code()),
        }
    }
}

impl Arrivals {
    /// Load that keeps so many cores of speed 1 busy.
    fn load(self, busy: f64, requests: u64) -> Load {
        let per_second = busy / (WORK_NS / 1e9);
        match self {
            Arrivals::Poisson => Load::Poisson { per_second },
            Arrivals::Mmpp => {
                Load::Mmpp { states: vec![(0.7 * per_second, 4_000_000_000), (2.2 * per_second, 1_000_000_000)] }
            }
            Arrivals::Code => Load::Trace { at_ns: traces::bursts(requests as usize, per_second).into() },
            // Users who think for three times the work are at work a quarter of the time, without queues.
            Arrivals::Closed => {
                let think = Work::Exponential { mean_ns: 3.0 * WORK_NS };
                Load::Closed { users: (4.0 * busy).round() as u32, think }
            }
        }
    }
}

impl Case {
    /// Runs the case under its policy.
    pub fn log(&self) -> (Run, Vec<Logged>) {
        // Each case has its own seed, or all logs would share their luck. The runs of the truth have small seeds.
        let seed = self.name.bytes().fold(1 << 32, |seed, byte| mix(seed ^ u64::from(byte)));
        simulate_logged(&self.scenario, &named(self.policy), self.service, seed)
    }

    /// Lines of a run before they are written.
    pub fn entries(&self, log: &[Logged]) -> Vec<Entry> {
        entry::entries(log, |logged| 300 + (logged.work_ns as f64 / 1e6 * self.bytes_per_ms) as u64)
    }

    fn service(&self) -> &Service {
        &self.scenario.services[usize::from(self.service)]
    }

    /// Words that ask the question of the case, beside the policies.
    pub fn words(&self) -> Vec<String> {
        let words = |of: &SlowStart| {
            let time = format!("{}ns", of.window_ns);
            ["--add", "1", "--slow-start", &time].map(str::to_owned).to_vec()
        };
        self.slow_start.iter().flat_map(words).collect()
    }

    pub fn endpoints(&self) -> &[Server] {
        &self.service().servers
    }

    pub fn balancers(&self) -> u32 {
        match self.service().balancing.deployment {
            Deployment::Central { balancers } => balancers,
            Deployment::Sidecar | Deployment::Kernel => 1,
        }
    }
}

/// Policy by its label, such as `leastconn`. Panics on labels that do not exist.
pub fn named(label: &str) -> Policy {
    let policies = evenkeel_sim::file::policies(label).unwrap_or_default();
    policies.into_iter().next().expect("the tables have known algorithms only")
}
