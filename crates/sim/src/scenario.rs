//! What is simulated? Services of servers, balancers before them, and clients: plain data, in nanoseconds and whole
//! numbers, which says everything but the policy under test and the seed.

use crate::work::Work;
use evenkeel_balance::params::Params;
use evenkeel_balance::picker::Algorithm;
use evenkeel_balance::{control, retry};
use std::sync::Arc;

/// A system, and what is asked of it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Clients call the first; steps of a service may call others.
    pub services: Vec<Service>,
    /// Cores of each machine that servers share; empty when each server has a machine of its own.
    pub machines: Vec<f64>,
    /// When requests of clients come.
    pub load: Load,
    /// One way between any two machines.
    pub link_ns: u64,
    /// How many requests clients make; `u64::MAX` if only `until_ns` ends it.
    pub requests: u64,
    /// The first of them are not measured.
    pub warm_up: u64,
    /// Nothing happens later than this; `u64::MAX` if only `requests` ends it.
    pub until_ns: u64,
}

/// When requests of clients come.
#[derive(Clone, Debug)]
pub enum Load {
    /// So many users, each with one request at a time.
    Closed {
        /// How many.
        users: u32,
        /// From an answer to the next request.
        think: Work,
    },
    /// On their own.
    Poisson {
        /// On average.
        per_second: f64,
    },
    /// Poisson at a rate that changes: a cycle of states, each held for an exponential time.
    Mmpp {
        /// Rate per second, and mean length in nanoseconds.
        states: Vec<(f64, u64)>,
    },
    /// At these moments, ascending.
    Trace {
        /// Nanoseconds from the start.
        at_ns: Arc<[u64]>,
    },
}

/// What answers one kind of request, and how requests are spread over it.
#[derive(Clone, Debug)]
pub struct Service {
    /// For reports.
    pub name: String,
    /// Who answers.
    pub servers: Vec<Server>,
    /// What one execution does, in order; a request is in flight until all is done.
    pub steps: Vec<Step>,
    /// What [`Step::Work`] takes, unless the server has its own.
    pub work: Work,
    /// The size of an answer, for servers whose bandwidth is limited.
    pub response_bytes: u64,
    /// How requests find a server.
    pub balancing: Balancing,
}

/// One step of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Work at the server.
    Work,
    /// A request to another service (its index), and waiting for the answer without working.
    Call(usize),
}

/// One server.
#[derive(Clone, Debug)]
pub struct Server {
    /// For reports.
    pub name: String,
    /// Its share of the load, as configured at the balancers.
    pub weight: u32,
    /// The limit that balancers hold, requests; 0 = none.
    pub in_flight_max: u32,
    /// How requests that overlap share it.
    pub serving: Serving,
    /// The machine (its index) whose cores it shares with other servers, of any service: what all want of them beyond what
    /// there is, each gets less of, in proportion.
    pub machine: Option<usize>,
    /// Instead of the service's.
    pub work: Option<Work>,
    /// Requests that it takes in at once, working or waiting for calls; 0 = any number.
    pub threads: u32,
    /// Requests that may wait for one of the `threads`; more are refused.
    pub backlog: u32,
    /// What changes its speed; factors multiply.
    pub capacity: Vec<Capacity>,
    /// Bytes a second at which answers leave, one after another; 0 = at once.
    pub bandwidth: f64,
    /// What is wrong with it, and when.
    pub faults: Vec<Fault>,
    /// When it joins.
    pub joins_ns: u64,
    /// When it leaves: it gets no new requests; `u64::MAX` if never.
    pub leaves_ns: u64,
    /// How it warms up after it joined.
    pub cold: Option<Cold>,
}

/// How requests that overlap share a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Serving {
    /// Each as if alone.
    Unlimited,
    /// So many at once, the others wait in order of arrival.
    Fifo {
        /// How many.
        cores: u32,
    },
    /// All at once: each gets an equal share of the cores, but never more than one.
    Sharing {
        /// How many, also fractions.
        cores: f64,
    },
}

/// What changes the speed of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Others use the machine: its cores are multiplied by a factor that is drawn anew after exponential times.
    Antagonist {
        /// Factors and their probabilities, which sum to 1.
        states: Vec<(f64, f64)>,
        /// The mean time from one draw to the next.
        mean_ns: u64,
    },
    /// It stalls by turns (garbage collection, a processor quota): all work is slowed by a factor meanwhile.
    Stalls {
        /// From the end of one to the start of the next.
        every: Work,
        /// How long one takes.
        length: Work,
        /// Its speed meanwhile, 0 to 1.
        speed: f64,
    },
}

/// A fault of a server, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From here on.
    pub from_ns: u64,
    /// Until here.
    pub until_ns: u64,
    /// What is wrong.
    pub mode: Mode,
}

/// What is wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It answers with an error after this time, without work.
    FailFast {
        /// How long.
        after_ns: u64,
    },
    /// It takes requests and never answers.
    BlackHole,
}

/// How a new server warms up: its speed rises in a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cold {
    /// At the start, as a share of its full speed, above 0.
    pub speed: f64,
    /// Until it is warm.
    pub window_ns: u64,
}

/// How requests to a service find a server.
#[derive(Clone, Debug)]
pub struct Balancing {
    /// Instead of the policy under test.
    pub policy: Option<Policy>,
    /// Where balancers run.
    pub deployment: Deployment,
    /// Workers of each balancer, on one pool; requests come to them at random.
    pub workers: u32,
    /// How balancers learn the load of servers.
    pub information: Information,
    /// From a change of the servers to when a balancer knows it; each balancer draws its own, uniform from 0 to this.
    pub lag_ns: u64,
    /// Health checks, ejection, slow start and the rest of the production control.
    pub control: control::Settings,
    /// From one health check of a server to the next, for each balancer; 0 = none are sent.
    pub check_every_ns: u64,
    /// Requests that may wait when every server is at its limit, and for how long, nanoseconds.
    pub queue: (u32, u64),
    /// Further tries.
    pub retry: Option<retry::Settings>,
    /// After which a try is given up; `u64::MAX` = never.
    pub timeout_ns: u64,
}

/// Where balancers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// So many of their own, which know nothing of each other; each request comes to one of them at random.
    Central {
        /// How many.
        balancers: u32,
    },
    /// One beside each server that calls, or one for all clients.
    Sidecar,
}

/// How balancers learn the load of servers, besides by their own requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Information {
    /// Whether probes are answered.
    pub probes: bool,
    /// The share of probes that get lost, 0 to 1.
    pub probe_loss: f64,
    /// What a probe costs a server, as work.
    pub probe_work_ns: u64,
    /// What a try costs its balancer, as work of the server that calls; a balancer that is beside none has a processor of its own.
    pub balancer_work_ns: u64,
    /// What a probe costs its balancer, likewise.
    pub balancer_probe_work_ns: u64,
    /// Whether each answer carries a report.
    pub with_answers: bool,
    /// Every so often each balancer is told the load of each server; 0 = never.
    pub board_ns: u64,
}

/// Who decides.
#[derive(Clone, Debug)]
pub struct Policy {
    /// For reports: the name, and what is not at its default.
    pub label: String,
    /// What it is.
    pub chooser: Chooser,
}

/// What a policy is.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// An algorithm of production.
    Algorithm(&'static Algorithm, Params),
    /// A yardstick that cannot exist, or a fault found elsewhere.
    Reference(Reference),
}

/// Yardsticks. They see the truth about all servers, without delay, or the board if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Joins the shortest queue (fewest in flight), ties at random.
    ShortestQueue,
    /// Draws so many distinct servers and takes the one with fewest in flight, ties at random.
    Draws(u32),
    /// Draws with replacement, as some proxies do: of n servers the worst gets at least 1 / n^2 of two draws.
    DrawsWithReplacement(u32),
    /// All servers of a service are one with all their cores: no balancing can do better on average.
    CentralQueue,
}

impl Server {
    /// One core, weight 1, nothing wrong with it.
    pub fn new(name: &str) -> Server {
        Server {
            name: name.to_string(),
            weight: 1,
            in_flight_max: 0,
            serving: Serving::Fifo { cores: 1 },
            machine: None,
            work: None,
            threads: 0,
            backlog: u32::MAX,
            capacity: Vec::new(),
            bandwidth: 0.0,
            faults: Vec::new(),
            joins_ns: 0,
            leaves_ns: u64::MAX,
            cold: None,
        }
    }
}

impl Default for Balancing {
    /// One balancer with one worker, which knows what it sent and nothing else.
    fn default() -> Balancing {
        Balancing {
            policy: None,
            deployment: Deployment::Central { balancers: 1 },
            workers: 1,
            information: Information::default(),
            lag_ns: 0,
            control: control::Settings::default(),
            check_every_ns: 0,
            queue: (0, 0),
            retry: None,
            timeout_ns: u64::MAX,
        }
    }
}

impl Policy {
    /// An algorithm at its defaults; `None` if the registry has no such name.
    pub fn named(name: &str) -> Option<Policy> {
        let algorithm = evenkeel_balance::algorithms::find(name)?;
        let chooser = Chooser::Algorithm(algorithm, Params::defaults(algorithm.params));
        Some(Policy { label: algorithm.name.to_string(), chooser })
    }

    /// A yardstick.
    pub fn reference(reference: Reference) -> Policy {
        let label = match reference {
            Reference::ShortestQueue => "jsq".to_string(),
            Reference::Draws(d) => format!("jsq({d})"),
            Reference::DrawsWithReplacement(d) => format!("draws-with-replacement({d})"),
            Reference::CentralQueue => "central-queue".to_string(),
        };
        Policy { label, chooser: Chooser::Reference(reference) }
    }
}
