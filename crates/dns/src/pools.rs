//! A worker's view of a pool: the balancer that picks, and the endpoint data for answers. The plane rebuilds
//! it for every worker with each plan.

use crate::stats::{EndpointStats, PoolStats};
use evenkeel_balance::balancer::part::Part;
use evenkeel_balance::{Balancer, Exclusion, Instant, Request, Slot};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Parts from which a worker's view of a pool is built.
pub struct PoolParts {
    /// Picks from the same sets as every other plane. It counts nothing, so it may share the seat of a worker
    /// that does.
    pub balancer: Balancer,
    /// True if picks depend on the hash of the client's network.
    pub goes_by_key: bool,
    /// Endpoints of the pool with their slots.
    pub endpoints: Vec<(Slot, Endpoint)>,
    /// Previous endpoints, which may still be picked until the set without them is published.
    pub leaving: Vec<(Slot, Endpoint)>,
}

/// Endpoint data for answers.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Address, and port for SRV.
    pub addr: SocketAddr,
    pub weight: u16,
    pub priority: u8,
    /// Locality zone; `None` = unknown.
    pub zone: Option<Arc<str>>,
    /// Counters of the endpoint on this worker.
    pub stats: Arc<EndpointStats>,
}

/// Endpoints of pools, by pool name.
pub type Found = HashMap<Arc<str>, Vec<(Slot, Endpoint)>>;

/// Address family of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4, for A queries.
    V4,
    /// IPv6, for AAAA queries.
    V6,
    /// Both families, for SRV queries.
    Both,
}

impl Family {
    fn has(self, ip: IpAddr) -> bool {
        match self {
            Family::V4 => ip.is_ipv4(),
            Family::V6 => ip.is_ipv6(),
            Family::Both => true,
        }
    }
}

/// Parameters of the choice for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'c> {
    /// Family that endpoints must have.
    pub family: Family,
    pub answers: usize,
    /// Hash of the client's network, if the pool uses it.
    pub key: Option<u64>,
    /// Preferred zone; `None` = no preference.
    pub near: Option<&'c str>,
    /// True if all endpoints are named when none is healthy.
    pub fail_open: bool,
}

/// A pool as a worker sees it.
pub struct WorkerPool {
    balancer: Balancer,
    /// Endpoints by slot. An endpoint that left stays until its slot is reused, since it may be picked for a moment
    /// more.
    endpoints: Vec<Option<(Slot, Endpoint)>>,
    /// True if there are endpoints, by family.
    has: [bool; 3],
    /// Endpoints of a family if there are others too, by family.
    of_family: [Option<Part>; 3],
    /// Endpoints of a family in a zone, by family and by zones that clients were near.
    near: [HashMap<Arc<str>, Part>; 3],
    goes_by_key: bool,
    stats: Arc<PoolStats>,
    picked: Vec<Slot>,
}

const FAMILIES: [Family; 3] = [Family::V4, Family::V6, Family::Both];

impl WorkerPool {
    /// Builds the view from its parts.
    pub fn new(parts: PoolParts, stats: Arc<PoolStats>) -> WorkerPool {
        let mut pool = WorkerPool {
            balancer: parts.balancer,
            endpoints: Vec::new(),
            has: Default::default(),
            of_family: Default::default(),
            near: Default::default(),
            goes_by_key: parts.goes_by_key,
            stats,
            picked: Vec::new(),
        };
        pool.fill(&parts.leaving);
        pool.change(&parts.endpoints);
        pool
    }

    /// Stores endpoints in their slots.
    fn fill(&mut self, with: &[(Slot, Endpoint)]) {
        for (slot, endpoint) in with {
            if self.endpoints.len() <= slot.index() {
                self.endpoints.resize(slot.index() + 1, None);
            }
            self.endpoints[slot.index()] = Some((*slot, endpoint.clone()));
        }
    }

    /// Replaces the endpoints, before any new endpoint can be picked.
    pub fn change(&mut self, new: &[(Slot, Endpoint)]) {
        self.fill(new);
        // A pool without endpoints may still get some of any family.
        self.has = FAMILIES.map(|family| new.is_empty() || new.iter().any(|(_, e)| family.has(e.addr.ip())));
        let endpoints = &self.endpoints;
        for (family, part) in FAMILIES.into_iter().zip(&mut self.of_family) {
            if endpoints.iter().flatten().all(|(_, e)| family.has(e.addr.ip())) {
                *part = None;
            } else {
                part.get_or_insert_default().change(slots(endpoints, family, None));
            }
        }
        for (family, near) in FAMILIES.into_iter().zip(&mut self.near) {
            near.iter_mut().for_each(|(zone, part)| part.change(slots(endpoints, family, Some(zone))));
        }
    }

    /// True if answers depend on the client's network.
    pub fn goes_by_key(&self) -> bool {
        self.goes_by_key
    }

    /// True if the pool has endpoints of this family, healthy or not, or has no endpoints yet.
    pub fn has(&self, family: Family) -> bool {
        self.has[family as usize]
    }

    /// True if an endpoint has this address, or had it until recently, since a client may query it just now.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        self.endpoints.iter().flatten().any(|(_, e)| e.addr.ip() == ip)
    }

    /// Switches to the newest endpoint set, also for a pool that no query asks for.
    pub fn refresh(&mut self, now: Instant) {
        self.balancer.refresh(now);
    }

    /// Endpoints for an answer; empty if none may be named.
    pub fn choose(&mut self, choice: &Choice<'_>, now: Instant) -> impl Iterator<Item = &Endpoint> {
        let found = choice.near.is_some_and(|zone| self.pick_near(zone, choice, now)) || self.pick(choice, now);
        if !found && choice.fail_open {
            self.name_all(choice);
        } else if found && self.balancer.set().in_panic() {
            self.stats.failed_open.add(1);
        }
        self.stats.answers.add(1);
        let endpoints = &self.endpoints;
        // An endpoint that has just joined is not known here yet.
        let named = self.picked.iter().filter_map(|slot| Some(&endpoints.get(slot.index())?.as_ref()?.1));
        named.inspect(|endpoint| endpoint.stats.answers.add(1))
    }

    /// Picks among the endpoints of a zone. False if there is none.
    fn pick_near(&mut self, zone: &str, choice: &Choice<'_>, now: Instant) -> bool {
        let near = &mut self.near[choice.family as usize];
        if !near.contains_key(zone) {
            near.insert(zone.into(), Part::new(slots(&self.endpoints, choice.family, Some(zone))));
        }
        let part = near.get_mut(zone).expect("it was put there");
        let request = Request { key: choice.key, ..Request::default() };
        self.balancer.choose_k_of(part, &request, choice.answers, now, &mut self.picked).is_ok()
    }

    /// Picks among all endpoints of the family. False if there is none. The reason does not matter: a full or
    /// unchecked endpoint is also better than none.
    fn pick(&mut self, choice: &Choice<'_>, now: Instant) -> bool {
        let request = Request { key: choice.key, ..Request::default() };
        let (k, picked) = (choice.answers, &mut self.picked);
        let found = match &mut self.of_family[choice.family as usize] {
            None => self.balancer.choose_k(&request, k, now, picked),
            Some(part) => self.balancer.choose_k_of(part, &request, k, now, picked),
        };
        found.is_ok()
    }

    /// Names all endpoints that should serve, healthy or not.
    #[cold]
    fn name_all(&mut self, choice: &Choice<'_>) {
        use Exclusion::{Ejected, Full, Panic, Unchecked, Unhealthy};
        let set = self.balancer.set();
        let out =
            set.excluded().iter().filter(|(_, _, why)| matches!(why, Ejected | Full | Panic | Unchecked | Unhealthy));
        self.picked.extend(set.members().iter().map(|m| m.slot).chain(out.map(|(slot, ..)| *slot)));
        let endpoints = &self.endpoints;
        let endpoint = |slot: &Slot| Some(&endpoints.get(slot.index())?.as_ref()?.1);
        self.picked.retain(|slot| endpoint(slot).is_some_and(|e| choice.family.has(e.addr.ip())));
        if self.picked.is_empty() {
            return;
        }
        // Rotates the order from answer to answer.
        let by = self.stats.failed_open.get() as usize % self.picked.len();
        self.picked.rotate_left(by);
        self.stats.failed_open.add(1);
        let is_near = |slot: &Slot| endpoint(slot).is_some_and(|e| e.zone.as_deref() == choice.near);
        if choice.near.is_some() && self.picked.iter().any(is_near) {
            self.picked.retain(is_near);
        }
        self.picked.truncate(choice.answers);
    }
}

/// Slots of the endpoints of a family, and of a zone if any.
fn slots<'e>(
    endpoints: &'e [Option<(Slot, Endpoint)>],
    family: Family,
    zone: Option<&'e str>,
) -> impl Iterator<Item = Slot> + 'e {
    let is_in = move |e: &Endpoint| family.has(e.addr.ip()) && (zone.is_none() || e.zone.as_deref() == zone);
    endpoints.iter().flatten().filter(move |(_, e)| is_in(e)).map(|(slot, _)| *slot)
}
