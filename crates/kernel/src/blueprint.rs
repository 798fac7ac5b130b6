//! Blueprints: services of a plan without their endpoints, and the members that the state of a pool gives them.

use crate::ids::Ids;
use crate::service::{Member, Policy, Service, Source, State, Transport};
use evenkeel_balance::params::{Params, Value};
use evenkeel_balance::{EndpointId, EndpointSet, Exclusion, Slot};
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, Address, Balance, Listener, Mode, Plane, SpeakAs};
use evenkeel_runtime::SharedPool;
use evenkeel_view::Drain;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// Listener of a plan that the kernel forwards for.
#[derive(Clone, Debug)]
pub struct Blueprint {
    pub plane: Plane,
    pub pool: Arc<str>,
    listener: Arc<Listener>,
    balance: Balance,
    source: Source,
}

/// Endpoint as the sets of its pool treat it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Treated {
    pub slot: Slot,
    pub addr: SocketAddr,
    pub weight: u32,
    pub state: State,
}

/// Largest weight of a member.
const WEIGHT_MAX: u64 = 1 << 24;

impl Blueprint {
    /// Blueprints of a plan, in the order of its listeners.
    pub fn all(plan: &Plan) -> Vec<Blueprint> {
        plan.listeners
            .iter()
            .filter(|listener| listener.plane.is_kernel())
            .filter_map(|l| Blueprint::of(plan, l))
            .collect()
    }

    fn of(plan: &Plan, listener: &Arc<Listener>) -> Option<Blueprint> {
        let pool = plan.routes_on(&listener.name).find_map(|route| route.action.pool())?;
        let pool: &plan::Pool = plan.pool(pool)?;
        let source = match pool.source {
            SpeakAs::Own => Source::Own,
            SpeakAs::Client => Source::Client,
        };
        Some(Blueprint {
            plane: listener.plane,
            pool: pool.name.clone(),
            listener: listener.clone(),
            balance: pool.balance.clone(),
            source,
        })
    }

    pub fn name(&self) -> &Arc<str> {
        &self.listener.name
    }

    /// Builds the service without endpoints.
    pub fn empty(&self, table_max: u64) -> Service {
        self.service(&EndpointSet::default(), &[], table_max)
    }

    /// Builds the service. `set`: eligible endpoints of the pool; `treated`: its endpoints, each with its number.
    /// `table_max`: largest table of keys that the driver takes.
    pub fn service(&self, set: &EndpointSet, treated: &[(u32, Treated)], table_max: u64) -> Service {
        let (v4, v6) = (self.serves(SocketAddr::is_ipv4), self.serves(SocketAddr::is_ipv6));
        let fits = |addr: &SocketAddr| if addr.is_ipv4() { v4 } else { v6 };
        let fitting: Vec<&(u32, Treated)> = treated.iter().filter(|(_, of)| fits(&of.addr)).collect();
        let member = |(id, of): &&(u32, Treated)| Member { id: *id, addr: of.addr, weight: of.weight, state: of.state };
        let serving: Vec<Slot> = fitting.iter().filter(|(_, of)| of.weight > 0).map(|(_, of)| of.slot).collect();
        let udp = self.listener.mode == Mode::Udp;
        Service {
            name: self.listener.name.clone(),
            pool: self.pool.clone(),
            transport: if udp { Transport::Udp } else { Transport::Tcp },
            addrs: self.listener.bind.clone(),
            policy: self.policy(set, &serving, table_max),
            source: self.source,
            affinity: self.listener.kernel.affinity,
            idle: if udp { self.listener.udp.idle } else { self.listener.kernel.idle },
            members: fitting.iter().map(member).collect(),
        }
    }

    fn serves(&self, family: fn(&SocketAddr) -> bool) -> bool {
        self.listener.bind.iter().any(family)
    }

    /// Policy of the kernel for the algorithm. The configuration refuses algorithms that no policy keeps. `serving`:
    /// slots of the members that serve.
    fn policy(&self, set: &EndpointSet, serving: &[Slot], table_max: u64) -> Policy {
        let (algorithm, params) = (self.balance.algorithm, &self.balance.params);
        match (algorithm.name, algorithm.table) {
            ("leastconn", _) => Policy::LeastConn,
            ("round_robin", _) => Policy::RoundRobin,
            ("random", _) => Policy::Random { draws: params.int("draws") as u32 },
            // Refused by the configuration.
            (_, None) => Policy::Random { draws: 1 },
            (_, Some(table)) => {
                let slots = table(set, smaller(params, table_max).as_ref().unwrap_or(params));
                if slots.is_empty() {
                    // Members that serve before their first checks are in no set yet.
                    return Policy::Maglev { table: (0..serving.len() as u32).collect() };
                }
                let at: HashMap<Slot, u32> = serving.iter().copied().zip(0..).collect();
                Policy::Maglev { table: slots.iter().filter_map(|slot| at.get(slot).copied()).collect() }
            }
        }
    }
}

/// Parameters with a smaller table, if `max` is smaller than theirs.
fn smaller(params: &Params, max: u64) -> Option<Params> {
    (params.int("table") > max).then(|| {
        let mut smaller = params.clone();
        // Drivers name primes in the range of the parameter.
        let _ = smaller.set("table", Value::Int(max));
        smaller
    })
}

/// Endpoints of a pool with an address of IP, as its set treats them.
pub fn treated(pool: &SharedPool, set: &EndpointSet, endpoints: &[plan::Endpoint]) -> Vec<(usize, Treated)> {
    let most = set.members().iter().map(|member| u64::from(member.weight)).max().unwrap_or(1);
    // Packets do not wait for the first checks: until then, an endpoint that may be well is better than none. So the
    // start of a process that takes over refuses no client.
    let serves_unchecked = set.is_empty() && set.awaits_checks();
    let excluded: HashMap<Slot, Exclusion> = set.excluded().iter().map(|(slot, _, why)| (*slot, *why)).collect();
    let one = |(at, endpoint): (usize, &plan::Endpoint)| {
        let Address::Ip(addr) = endpoint.addr else { return None };
        let slot = pool.slot_of(endpoint)?;
        let (weight, state) = match set.get(slot) {
            Some(member) => {
                // Weights in a set carry the fraction of slow start; only their ratios matter.
                let weight =
                    if most > WEIGHT_MAX { u64::from(member.weight) * WEIGHT_MAX / most } else { member.weight.into() };
                (weight.max(1) as u32, State::Serving)
            }
            None => {
                if serves_unchecked && excluded.get(&slot) == Some(&Exclusion::Unchecked) {
                    return Some((at, Treated { slot, addr, weight: endpoint.weight.into(), state: State::Serving }));
                }
                let is_down = match excluded.get(&slot) {
                    Some(Exclusion::Unhealthy | Exclusion::Ejected | Exclusion::Unresolved) => true,
                    Some(Exclusion::Draining) => {
                        !set.draining().iter().any(|m| m.slot == slot) && moves(pool, endpoint)
                    }
                    _ => false,
                };
                (0, if is_down { State::Down } else { State::Draining })
            }
        };
        Some((at, Treated { slot, addr, weight, state }))
    };
    endpoints.iter().enumerate().filter_map(one).collect()
}

/// True if flows leave an endpoint that drains without sessions: it was checked, and so is down, or its operator wants
/// it.
fn moves(pool: &SharedPool, endpoint: &plan::Endpoint) -> bool {
    let was_checked = pool.history().endpoint(EndpointId::of(&endpoint.name)).is_some_and(|of| of.checked.is_some());
    was_checked || pool.order_of(&endpoint.name).is_some_and(|order| order.drain == Some(Drain::Now))
}

/// Numbers of the endpoints of a pool that have an address.
pub fn numbered(ids: &mut Ids, pool: &Arc<str>, treated: Vec<(usize, Treated)>) -> Vec<(usize, u32, Treated)> {
    let mut seen = HashSet::new();
    let one = |(at, of): (usize, Treated)| Some((at, ids.of(&(pool.clone(), of.addr))?, of));
    // Two names for the same address are a single endpoint for the kernel.
    treated.into_iter().filter(|(_, of)| seen.insert(of.addr)).filter_map(one).collect()
}
