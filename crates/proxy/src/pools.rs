//! Who owns the pools? The control side: it turns configured endpoints into sets, and gives each worker a balancer and
//! what it keeps by slot.

use crate::parts::EndpointParts;
use crate::stats::WorkerStats;
use evenkeel_balance::params::ParamError;
use evenkeel_balance::{Balancer, EndpointId, EndpointSpec, Pool, Seat, Slot};
use evenkeel_config::plan::{self, Address};
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};

/// A pool as all workers share it.
#[derive(Debug)]
pub struct SharedPool {
    /// The decisions: who may get a request.
    pub pool: Pool,
    workers: u32,
    specs: Vec<EndpointSpec>,
    /// Names that were resolved.
    resolved: HashMap<Address, SocketAddr>,
}

impl SharedPool {
    /// A pool without endpoints.
    pub fn new(workers: usize) -> SharedPool {
        let workers = workers as u32;
        SharedPool { pool: Pool::new(workers), workers, specs: Vec::new(), resolved: HashMap::new() }
    }

    /// A balancer for each worker.
    ///
    /// # Errors
    /// The algorithm refuses its parameters.
    pub fn balancers(&self, plan: &plan::Pool) -> Result<Vec<Balancer>, ParamError> {
        let seed = EndpointId::of(&plan.name).0 ^ u64::from(std::process::id());
        let seats = (0..self.workers).map(|worker| Seat { worker, workers: self.workers });
        seats.map(|seat| self.pool.balancer(plan.balance.algorithm, &plan.balance.params, seat, seed)).collect()
    }

    /// Gives the endpoints of a plan their slots: no worker may pick a new one before it knows what is in its slot.
    pub fn reserve(&mut self, plan: &plan::Pool) {
        let before = std::mem::take(&mut self.resolved);
        for endpoint in &plan.endpoints {
            let addr = before.get(&endpoint.addr).copied().or_else(|| resolve(&plan.name, &endpoint.addr));
            self.resolved.extend(addr.map(|addr| (endpoint.addr.clone(), addr)));
        }
        self.specs = plan.endpoints.iter().map(|e| self.spec(e, plan)).collect();
        self.pool.reserve(&self.specs);
    }

    /// Lets the workers pick the endpoints that were [reserved](Self::reserve), and no others.
    pub fn publish(&mut self) {
        self.pool.update(&self.specs);
    }

    fn spec(&self, endpoint: &plan::Endpoint, plan: &plan::Pool) -> EndpointSpec {
        EndpointSpec::new(&endpoint.name)
            // Without an address it would fail each request that it got.
            .weight(if self.resolved.contains_key(&endpoint.addr) { endpoint.weight.into() } else { 0 })
            .priority(endpoint.priority)
            .drain(endpoint.drain)
            .in_flight_max(plan.limits.requests_per_endpoint)
    }

    /// What a worker keeps of the endpoints of a plan, the pool number `index` of it, for which slots are reserved.
    pub fn endpoints(&self, plan: &plan::Pool, index: usize, stats: &WorkerStats) -> Vec<(Slot, EndpointParts)> {
        let one = |(endpoint, stats): (&plan::Endpoint, &_)| {
            let slot = self.pool.slot_of(EndpointId::of(&endpoint.name))?;
            let addr = self.resolved.get(&endpoint.addr).copied();
            Some((slot, EndpointParts { name: endpoint.name.clone(), addr, stats: std::sync::Arc::clone(stats) }))
        };
        plan.endpoints.iter().zip(&stats.endpoints[index]).filter_map(one).collect()
    }
}

/// A name that does not resolve is no reason not to start: the other endpoints can serve.
fn resolve(pool: &str, addr: &Address) -> Option<SocketAddr> {
    let (host, port) = match addr {
        Address::Ip(addr) => return Some(*addr),
        Address::Name { host, port } => (host.as_str(), *port),
    };
    let found = (host, port).to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(addr)) => Some(addr),
        Ok(None) => {
            tracing::warn!(pool, host, "the name of an endpoint has no address; it gets no requests");
            None
        }
        Err(error) => {
            tracing::warn!(pool, host, %error, "the name of an endpoint does not resolve; it gets no requests");
            None
        }
    }
}
