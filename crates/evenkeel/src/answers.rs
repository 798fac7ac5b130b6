//! How do the planes share pools? The proxy owns them and looks after them; DNS is given balancers of its own over the same
//! sets, and changes its plan around the proxy's: what can fail before, the rest after.

use crate::failure::Failure;
use evenkeel_balance::Slot;
use evenkeel_config::{Plan, plan};
use evenkeel_dns::{Endpoint, Found, PoolParts, StartError};
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{self, ListenFd, Protocol};
use evenkeel_proxy::{Server, Summary};
use evenkeel_runtime::control::Control;
use evenkeel_runtime::{Pools, SharedPool};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Changes both planes to a plan, or neither.
pub fn reload(proxy: &mut Server, dns: &mut evenkeel_dns::Server, plan: Plan) -> Result<Summary, Failure> {
    let prepared = dns.prepare(&plan, &mut open(&mut Inherited::default()))?;
    let summary = proxy.reload_telling(plan, |pools, changed| tell(dns, pools, changed))?;
    let plan = proxy.plan();
    dns.apply(&plan, prepared, &give(proxy.control(), &plan))?;
    Ok(summary)
}

/// Has both planes apply endpoints that were found, each before it can pick them.
pub fn apply_endpoints(proxy: &mut Server, dns: &evenkeel_dns::Server, new: Vec<(Arc<str>, Vec<plan::Endpoint>)>) {
    // Interrupted, the process ends, and nothing picks from them.
    let _ = proxy.apply_endpoints(new, |pools, changed| tell(dns, pools, changed));
}

/// Has DNS apply the endpoints of these pools.
fn tell(dns: &evenkeel_dns::Server, pools: &Pools, changed: &[&plan::Pool]) {
    // Interrupted, so is the proxy, which is waited for next.
    let _ = dns.apply_endpoints(found(pools, changed));
}

/// The endpoints of pools, as answers name them.
fn found(pools: &Pools, plans: &[&plan::Pool]) -> Found {
    plans.iter().map(|plan| (plan.name.clone(), endpoints(&pools[&plan.name], plan))).collect()
}

/// Opens sockets, first of all those that came with the process.
fn open(inherited: &mut Inherited) -> impl FnMut(Protocol, SocketAddr, usize) -> io::Result<Vec<Vec<ListenFd>>> {
    |protocol, addr, workers| {
        let given = inherited.at((protocol, addr));
        match protocol {
            // Each query has a datagram of its own.
            Protocol::Udp => listen::udp(addr, workers, given, false),
            Protocol::Tcp => listen::tcp(addr, workers, given),
        }
    }
}

/// Starts answering by the plan of the proxy, first of all at sockets that came with the process.
pub fn start(proxy: &Server, inherited: &mut Inherited) -> Result<evenkeel_dns::Server, StartError> {
    let mut dns = evenkeel_dns::Server::new(proxy.stats().len())?;
    let plan = proxy.plan();
    let prepared = dns.prepare(&plan, &mut open(inherited))?;
    dns.apply(&plan, prepared, &give(proxy.control(), &plan))?;
    Ok(dns)
}

/// A pool for a worker that answers.
fn give<'a>(control: &'a Control, plan: &'a Plan) -> impl Fn(&str, u32) -> PoolParts + 'a {
    move |name, worker| {
        let pools = control.pools();
        let (pool, plan) = (&pools[name], plan.pool(name).expect("a record's pool is in its plan"));
        let balancer = pool.balancer_for_answers(plan, worker);
        PoolParts {
            balancer: balancer.expect("the proxy's own balancers took the parameters"),
            goes_by_key: plan.balance.algorithm.needs.key,
            endpoints: endpoints(pool, plan),
        }
    }
}

/// What answers say of the endpoints of a pool.
fn endpoints(pool: &SharedPool, plan: &plan::Pool) -> Vec<(Slot, Endpoint)> {
    let all = pool.addresses(plan).map(|(slot, addr, of)| {
        (slot, Endpoint { addr, weight: of.weight, priority: of.priority, zone: of.zone.clone() })
    });
    all.collect()
}
