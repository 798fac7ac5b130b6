//! Simulated system: services of servers, balancers in front of them, and clients. Plain data; everything but the
//! policy under test and the seed.

use crate::planes::{PlaneCost, Refused};
use crate::work::Work;
use evenkeel_balance::params::Params;
use evenkeel_balance::picker::Algorithm;
use evenkeel_balance::{control, retry};
use std::sync::Arc;

/// System and load of a simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Services. Clients call the first; its steps may call others.
    pub services: Vec<Service>,
    /// Cores of each machine that servers share; empty when each server has a separate machine.
    pub machines: Vec<f64>,
    /// Arrivals of client requests.
    pub load: Load,
    /// Delay of a single way between any two machines, in nanoseconds.
    pub link_ns: u64,
    /// Number of client requests; `u64::MAX` if only `until_ns` ends the run.
    pub requests: u64,
    /// Number of requests, from the start, that are not measured.
    pub warm_up: u64,
    /// End of the run; `u64::MAX` if only `requests` ends it.
    pub until_ns: u64,
}

/// Arrivals of client requests.
#[derive(Clone, Debug)]
pub enum Load {
    /// Closed loop of users, each with a single request at a time.
    Closed {
        users: u32,
        /// Think time from an answer to the next request.
        think: Work,
    },
    /// Open loop: independent arrivals.
    Poisson {
        /// Mean requests per second.
        per_second: f64,
    },
    /// Markov-modulated Poisson process: a cycle of states, each held for an exponential time.
    Mmpp {
        /// Rate per second, and mean length in nanoseconds.
        states: Vec<(f64, u64)>,
    },
    /// Arrivals at fixed times, ascending.
    Trace {
        /// Nanoseconds from the start.
        at_ns: Arc<[u64]>,
    },
}

/// Servers that answer a kind of request, and the balancing in front of them.
#[derive(Clone, Debug)]
pub struct Service {
    pub name: String,
    pub servers: Vec<Server>,
    /// Steps of an execution, in order; a request is in flight until the last is done.
    pub steps: Vec<Step>,
    /// Duration of [`Step::Work`], unless the server has its own.
    pub work: Work,
    /// Size of an answer in bytes, for servers whose bandwidth is limited.
    pub response_bytes: u64,
    /// Balancing in front of the servers.
    pub balancing: Balancing,
}

/// Step of an execution at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Work at the server itself.
    Work,
    /// Request to another service (its index); waits for the answer without working.
    Call(usize),
}

#[derive(Clone, Debug)]
pub struct Server {
    pub name: String,
    /// Weight, as configured at the balancers.
    pub weight: u32,
    /// Limit of requests in flight per balancer; 0 for none.
    pub in_flight_max: u32,
    /// Sharing of the server by overlapping requests.
    pub serving: Serving,
    /// Index of a machine whose cores it shares with other servers of any service. If they want more cores than it has,
    /// each gets proportionally less.
    pub machine: Option<usize>,
    /// Work of a request here; `None` for the service's work.
    pub work: Option<Work>,
    /// Maximum requests in progress, working or waiting for calls; 0 for any number.
    pub threads: u32,
    /// Maximum requests that wait for a thread; more are refused.
    pub backlog: u32,
    /// Processes that change its capacity; their factors multiply.
    pub capacity: Vec<Capacity>,
    /// Bytes per second at which answers leave, in sequence; 0 for unlimited.
    pub bandwidth: f64,
    /// Faults, each with its time span.
    pub faults: Vec<Fault>,
    pub joins_ns: u64,
    /// Time at which it leaves and gets no new requests; `u64::MAX` for never.
    pub leaves_ns: u64,
    pub cold: Option<Cold>,
}

/// Sharing of a server by overlapping requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Serving {
    /// No sharing: each request runs as if alone.
    Unlimited,
    /// At most a single request per core; the others wait in order of arrival.
    Fifo { cores: u32 },
    /// Processor sharing: each request gets an equal share of the cores, at most 1.
    Sharing {
        /// Number of cores; may be fractional.
        cores: f64,
    },
}

/// Change of a server's speed over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Other programs on the machine: its cores are multiplied by a factor that is redrawn after exponential times.
    Antagonist {
        /// Factors and their probabilities, which sum to 1.
        states: Vec<(f64, f64)>,
        /// Mean time between draws, in nanoseconds.
        mean_ns: u64,
    },
    /// Another program on the machine, which works at times: each of its threads gets as much of the cores as a request.
    Neighbour {
        /// Threads that want to run while it works.
        threads: u32,
        /// Mean time for which it works, and for which it does not, in nanoseconds; both are exponential.
        busy_ns: u64,
        idle_ns: u64,
    },
    /// Stalls at intervals (garbage collection, a CPU quota), during which all work is slowed by a factor.
    Stalls {
        /// Time from the end of a stall to the start of the next.
        every: Work,
        /// Distribution of the duration of a stall.
        length: Work,
        /// Speed during a stall, 0 to 1.
        speed: f64,
    },
}

/// Fault of a server, active from `from_ns` until before `until_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub from_ns: u64,
    pub until_ns: u64,
    pub mode: Mode,
}

/// Kind of fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers with an error after a fixed time, without work.
    FailFast {
        /// Time to the error, in nanoseconds.
        after_ns: u64,
    },
    /// Accepts requests and never answers.
    BlackHole,
}

/// Warm-up of a new server: its speed rises linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cold {
    /// Speed at the start, as a share of full speed, above 0.
    pub speed: f64,
    /// Duration of the warm-up, in nanoseconds.
    pub window_ns: u64,
}

/// Balancing in front of a service.
#[derive(Clone, Debug)]
pub struct Balancing {
    /// Policy used instead of the policy under test.
    pub policy: Option<Policy>,
    /// Placement of the balancers.
    pub deployment: Deployment,
    /// Plane that has to keep the policy; `None` for balancers that keep every policy.
    pub plane: Option<&'static PlaneCost>,
    /// Machines of central balancers; `None` if requests pass none, and a pick costs nothing.
    pub hop: Option<Hop>,
    /// Workers of each balancer, which share a pool; each request goes to a random worker.
    pub workers: u32,
    /// Sources of load information.
    pub information: Information,
    /// Maximum delay from a membership change to a balancer's knowledge of it; each balancer draws its own, uniform
    /// from 0.
    pub lag_ns: u64,
    /// Health checks, ejection, slow start and the rest of the production control.
    pub control: control::Settings,
    /// Interval between health checks of a server by each balancer, in nanoseconds; 0 for no checks.
    pub check_every_ns: u64,
    /// Maximum requests that wait when every server is at its limit, and their timeout in nanoseconds.
    pub queue: (u32, u64),
    pub retry: Option<retry::Settings>,
    /// Share of requests whose server is drawn uniformly instead of picked; 0 for none.
    pub explore: f64,
    /// Timeout of an attempt in nanoseconds; `u64::MAX` for none.
    pub timeout_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// Independent balancers that share nothing; each request goes to a random balancer.
    Central { balancers: u32 },
    /// Sidecar: a balancer beside each calling server, or a single balancer for all clients.
    Sidecar,
    /// Kernel: a balancer for all calling servers of a machine, or a single balancer for all clients.
    Kernel,
}

/// Machine between callers and servers. Requests and answers pass it, so there is a link on both of its sides.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Work of an attempt, in nanoseconds, done before the pick.
    pub work_ns: u64,
    /// Processors of each balancer.
    pub processors: Server,
}

impl Hop {
    /// Hop whose `cores` work on an attempt each, in order of arrival: the workers of an event loop.
    pub fn new(work_ns: u64, cores: u32) -> Hop {
        let serving = Serving::Fifo { cores };
        Hop { work_ns, processors: Server { serving, ..Server::new("balancer") } }
    }
}

/// Load information of balancers, in addition to their own requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Information {
    /// True if probes are answered.
    pub probes: bool,
    /// Share of probes that get lost, 0 to 1.
    pub probe_loss: f64,
    /// Work of a server per probe, in nanoseconds.
    pub probe_work_ns: u64,
    /// Work of a balancer beside its caller per attempt, in nanoseconds, done by the calling server. Other balancers
    /// have a [`Hop`], or processors that never run out.
    pub balancer_work_ns: u64,
    /// Work of a sidecar per probe, in nanoseconds.
    pub balancer_probe_work_ns: u64,
    /// True if each answer carries a load report.
    pub with_answers: bool,
    /// Interval in nanoseconds at which each balancer gets the load of every server; 0 for never.
    pub board_ns: u64,
}

/// Policy that picks servers.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Label in reports: the name, and parameters that differ from their defaults.
    pub label: String,
    pub chooser: Chooser,
}

#[derive(Clone, Debug)]
pub enum Chooser {
    /// Algorithm of `evenkeel_balance`.
    Algorithm(&'static Algorithm, Params),
    /// Yardstick that no real balancer can implement, or a flawed variant found in other proxies.
    Reference(Reference),
}

/// Yardsticks. They see the true load of all servers without delay, or the board if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Joins the shortest queue (fewest in flight), ties at random.
    ShortestQueue,
    /// Draws this many distinct servers and takes the server with the fewest in flight, ties at random.
    Draws(u32),
    /// Draws with replacement, as some proxies do: with two draws, the worst of n servers still gets 1 / n^2.
    DrawsWithReplacement(u32),
    /// Single queue for all servers of a service, whose cores take from it when idle: no balancing does better on
    /// average.
    CentralQueue,
}

impl Server {
    /// Server with a core, weight 1 and no faults.
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
    /// Balancer with a single worker, which knows only its own requests.
    fn default() -> Balancing {
        Balancing {
            policy: None,
            deployment: Deployment::Central { balancers: 1 },
            plane: None,
            hop: None,
            workers: 1,
            information: Information::default(),
            lag_ns: 0,
            control: control::Settings::default(),
            check_every_ns: 0,
            queue: (0, 0),
            retry: None,
            explore: 0.0,
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

    /// Refusal of the plane of a service that this policy would balance; `None` if it is kept. Yardsticks always are,
    /// and cost as much as the plane.
    pub fn refused_by(&self, service: &Service) -> Option<Refused> {
        let plane = service.balancing.plane?;
        let Chooser::Algorithm(algorithm, params) = &self.chooser else { return None };
        let why = plane.refuses(algorithm, params)?;
        let instead = PlaneCost::that_keep(algorithm, params);
        Some(Refused { policy: self.label.clone(), service: service.name.clone(), plane: plane.name, why, instead })
    }

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
