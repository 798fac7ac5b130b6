//! Balancers in front of a service: a [`Dispatcher`] is a production pool with its workers. Under a yardstick, which
//! picks by itself, it has no workers.

use crate::scenario::{Balancing, Chooser, Policy, Service};
use evenkeel_balance::budget::Budget;
use evenkeel_balance::rng::mix;
use evenkeel_balance::{Balancer, EndpointSpec, Instant, Pool, Rng, Seat};

/// Balancer in front of a service.
pub(super) struct Dispatcher {
    pub service: u16,
    pub pool: Pool,
    pub balancers: Vec<Balancer>,
    /// Index among all servers of its processors, if it is a separate machine.
    pub processors: Option<u32>,
    /// Index of the server within its service, by slot of the pool.
    pub server_at: Vec<u32>,
    /// Time at which the pool is polled next; `u64::MAX` for never.
    pub poll_at: u64,
    pub budget: Option<Budget>,
    pub rng: Rng,
    /// Generator that decides which probes get lost; apart from `rng`, so that losses do not shift other draws.
    pub losses: Rng,
    /// Delay until it learns of membership changes, in nanoseconds.
    pub lag_ns: u64,
}

impl Dispatcher {
    pub fn new(number: u32, index: u16, service: &Service, policy: &Policy, seed: u64) -> Dispatcher {
        let own = mix(seed ^ mix(u64::from(number) + 1));
        let Balancing { workers, lag_ns, control, queue, retry, explore, .. } = &service.balancing;
        let mut pool = Pool::new(*workers);
        pool.configure(*control, Instant(0));
        pool.queue().set_max(queue.0);
        let mut rng = Rng::new(own);
        let lag_ns = rng.below_u64(*lag_ns);
        let budget = retry.as_ref().map(|r| Budget::new(r.budget, r.budget_floor, 1, Instant(0)));
        let mut dispatcher = Dispatcher {
            service: index,
            pool,
            balancers: Vec::new(),
            processors: None,
            server_at: Vec::new(),
            poll_at: u64::MAX,
            budget,
            losses: Rng::new(mix(own)),
            rng,
            lag_ns,
        };
        dispatcher.learn(service, 0);
        if let Chooser::Algorithm(algorithm, params) = &policy.chooser {
            let balancer = |worker| {
                let seat = Seat { worker, workers: *workers };
                let balancer = dispatcher.pool.balancer(algorithm, params, seat, mix(own ^ 1));
                balancer.expect("parameters were checked when the scenario was read").exploring(*explore, mix(own ^ 1))
            };
            dispatcher.balancers = (0..*workers).map(balancer).collect();
        }
        dispatcher
    }

    /// Updates the pool to the servers present at `now`. Returns the time at which to poll it next.
    pub fn learn(&mut self, service: &Service, now: u64) -> Option<u64> {
        let mut specs = Vec::new();
        for server in service.servers.iter().filter(|s| s.joins_ns <= now && now < s.leaves_ns) {
            let spec = EndpointSpec::new(&server.name).weight(server.weight).in_flight_max(server.in_flight_max);
            specs.push(spec);
        }
        let next = self.pool.update(&specs, Instant(now));
        for (i, server) in service.servers.iter().enumerate() {
            let id = EndpointSpec::new(&server.name).id;
            if let Some(slot) = self.pool.slot_of(id) {
                if self.server_at.len() <= slot.index() {
                    self.server_at.resize(slot.index() + 1, 0);
                }
                self.server_at[slot.index()] = i as u32;
            }
        }
        next.map(|at| at.0)
    }
}
