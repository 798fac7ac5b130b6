//! Which endpoints does an answer name? A worker's view of one pool: the balancer that picks, and what an answer says of an
//! endpoint. The plane makes it, for every worker anew with each plan.

use crate::stats::{EndpointStats, PoolStats};
use evenkeel_balance::balancer::part::Part;
use evenkeel_balance::{Balancer, Exclusion, Instant, Request, Slot};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What a worker is given of a pool.
pub struct PoolParts {
    /// Picks, by the same sets as every other plane. Its worker counts nothing, so it may share a seat with one that does.
    pub balancer: Balancer,
    /// Whether it goes by the hash of the client's network.
    pub goes_by_key: bool,
    /// The endpoint in each slot.
    pub endpoints: Vec<(Slot, Endpoint)>,
    /// Endpoints that it had before: it may pick them until the set without them is published.
    pub leaving: Vec<(Slot, Endpoint)>,
}

/// What an answer says of an endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where it is.
    pub addr: SocketAddr,
    /// Its weight, for SRV.
    pub weight: u16,
    /// Its tier, for SRV.
    pub priority: u8,
    /// The zone it is in.
    pub zone: Option<Arc<str>>,
    /// Counts of this worker.
    pub stats: Arc<EndpointStats>,
}

/// Endpoints of pools, by name.
pub type Found = HashMap<Arc<str>, Vec<(Slot, Endpoint)>>;

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4: A.
    V4,
    /// IPv6: AAAA.
    V6,
    /// All: SRV.
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

/// How endpoints are chosen for one answer.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'c> {
    /// Which may be named.
    pub family: Family,
    /// How many at most.
    pub answers: usize,
    /// The hash of the client's network, if the pool goes by it.
    pub key: Option<u64>,
    /// Endpoints in this zone go before all others.
    pub near: Option<&'c str>,
    /// Whether an answer names all endpoints when none is healthy.
    pub fail_open: bool,
}

/// A pool as a worker has it.
pub struct WorkerPool {
    balancer: Balancer,
    /// By slot. One that left stays until its slot is needed again: it may be picked for a moment more.
    endpoints: Vec<Option<(Slot, Endpoint)>>,
    /// By family: whether it has endpoints of that.
    has: [bool; 3],
    /// By family: the endpoints of that, where there are others too.
    of_family: [Option<Part>; 3],
    /// By family and zone, of the zones that clients were near to.
    near: [HashMap<Arc<str>, Part>; 3],
    goes_by_key: bool,
    stats: Arc<PoolStats>,
    picked: Vec<Slot>,
}

const FAMILIES: [Family; 3] = [Family::V4, Family::V6, Family::Both];

impl WorkerPool {
    /// Of its parts.
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

    /// Fills slots with endpoints.
    fn fill(&mut self, with: &[(Slot, Endpoint)]) {
        for (slot, endpoint) in with {
            if self.endpoints.len() <= slot.index() {
                self.endpoints.resize(slot.index() + 1, None);
            }
            self.endpoints[slot.index()] = Some((*slot, endpoint.clone()));
        }
    }

    /// Takes over other endpoints, before any of them can be picked.
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

    /// Whether clients of other networks may get others.
    pub fn goes_by_key(&self) -> bool {
        self.goes_by_key
    }

    /// Whether the pool has endpoints of that family, healthy or not; also true while no endpoint at all was found.
    pub fn has(&self, family: Family) -> bool {
        self.has[family as usize]
    }

    /// Whether an endpoint has this address, or had it until now: a client may just come for it.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        self.endpoints.iter().flatten().any(|(_, e)| e.addr.ip() == ip)
    }

    /// Takes over the newest endpoint set, also for a pool that no query asks for.
    pub fn refresh(&mut self, now: Instant) {
        self.balancer.refresh(now);
    }

    /// The endpoints that an answer names; none if it has none to name.
    pub fn choose(&mut self, choice: &Choice<'_>, now: Instant) -> impl Iterator<Item = &Endpoint> {
        let found = choice.near.is_some_and(|zone| self.pick_near(zone, choice, now)) || self.pick(choice, now);
        if !found && choice.fail_open {
            self.name_all(choice);
        } else if found && self.balancer.set().in_panic() {
            self.stats.failed_open.add(1);
        }
        self.stats.answers.add(1);
        let endpoints = &self.endpoints;
        // One that joined this moment is not known here yet.
        let named = self.picked.iter().filter_map(|slot| Some(&endpoints.get(slot.index())?.as_ref()?.1));
        named.inspect(|endpoint| endpoint.stats.answers.add(1))
    }

    /// Picks among the endpoints of a zone. Whether there is one.
    fn pick_near(&mut self, zone: &str, choice: &Choice<'_>, now: Instant) -> bool {
        let near = &mut self.near[choice.family as usize];
        if !near.contains_key(zone) {
            near.insert(zone.into(), Part::new(slots(&self.endpoints, choice.family, Some(zone))));
        }
        let part = near.get_mut(zone).expect("it was put there");
        let request = Request { key: choice.key, ..Request::default() };
        self.balancer.choose_k_of(part, &request, choice.answers, now, &mut self.picked).is_ok()
    }

    /// Picks among all endpoints of the family. Whether there is one: why there is none makes no difference, as a full
    /// endpoint, or one that was not checked yet, is better than none too.
    fn pick(&mut self, choice: &Choice<'_>, now: Instant) -> bool {
        let request = Request { key: choice.key, ..Request::default() };
        let (k, picked) = (choice.answers, &mut self.picked);
        let found = match &mut self.of_family[choice.family as usize] {
            None => self.balancer.choose_k(&request, k, now, picked),
            Some(part) => self.balancer.choose_k_of(part, &request, k, now, picked),
        };
        found.is_ok()
    }

    /// All endpoints that should serve, healthy or not.
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
        // Another one first each time.
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

/// The slots of endpoints of a family, and in a zone if one is given.
fn slots<'e>(
    endpoints: &'e [Option<(Slot, Endpoint)>],
    family: Family,
    zone: Option<&'e str>,
) -> impl Iterator<Item = Slot> + 'e {
    let is_in = move |e: &Endpoint| family.has(e.addr.ip()) && (zone.is_none() || e.zone.as_deref() == zone);
    endpoints.iter().flatten().filter(move |(_, e)| is_in(e)).map(|(slot, _)| *slot)
}
