//! Which endpoints does an answer name? A worker's hold on one pool: the balancer that picks, and what is said of whom it
//! picks. Made by whoever owns the pools, for every worker anew with each plan.

use crate::stats::PoolStats;
use evenkeel_balance::{Balancer, Exclusion, Instant, Request, Slot};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What an owner of pools gives for a pool and a worker.
pub struct PoolParts {
    /// Picks, by the same sets as every other plane. Its worker counts nothing, so it may share a seat with one that does.
    pub balancer: Balancer,
    /// Whether it goes by the hash of the client's network.
    pub goes_by_key: bool,
    /// Who is in which slot.
    pub endpoints: Vec<(Slot, Endpoint)>,
}

/// What is said of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub addr: SocketAddr,
    /// Its weight, for SRV.
    pub weight: u16,
    /// Its tier, for SRV.
    pub priority: u8,
    /// The zone it is in.
    pub zone: Option<Arc<str>>,
}

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
    /// The hash of the client's network.
    pub key: u64,
    /// Endpoints in this zone go before all others.
    pub near: Option<&'c str>,
    /// Whether all are named when none is well.
    pub fail_open: bool,
}

/// A pool as a worker has it.
pub struct WorkerPool {
    balancer: Balancer,
    /// By slot.
    endpoints: Vec<Option<Endpoint>>,
    /// By family: slots of the other one.
    others: [Vec<Slot>; 3],
    goes_by_key: bool,
    stats: Arc<PoolStats>,
    picked: Vec<Slot>,
}

impl WorkerPool {
    /// Of its parts.
    pub fn new(parts: PoolParts, stats: Arc<PoolStats>) -> WorkerPool {
        let slots = parts.endpoints.iter().map(|(slot, _)| slot.index() + 1).max().unwrap_or(0);
        let others = [Family::V4, Family::V6, Family::Both].map(|family| {
            let other = parts.endpoints.iter().filter(|(_, e)| !family.has(e.addr.ip()));
            other.map(|(slot, _)| *slot).collect()
        });
        let mut endpoints = vec![None; slots];
        parts.endpoints.into_iter().for_each(|(slot, endpoint)| endpoints[slot.index()] = Some(endpoint));
        WorkerPool {
            balancer: parts.balancer,
            endpoints,
            others,
            goes_by_key: parts.goes_by_key,
            stats,
            picked: Vec::new(),
        }
    }

    /// Whether clients of other networks may get others.
    pub fn goes_by_key(&self) -> bool {
        self.goes_by_key
    }

    /// Whether it has endpoints of that family, well or not.
    pub fn has(&self, family: Family) -> bool {
        self.endpoints.iter().flatten().any(|e| family.has(e.addr.ip()))
    }

    /// Whether an endpoint has this address.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        self.endpoints.iter().flatten().any(|e| e.addr.ip() == ip)
    }

    /// Takes up the newest set, for pools that nobody asks for.
    pub fn refresh(&mut self, now: Instant) {
        self.balancer.refresh(now);
    }

    /// The endpoints that an answer names; none if it has none to name.
    pub fn choose(&mut self, choice: &Choice<'_>, now: Instant) -> impl Iterator<Item = &Endpoint> {
        let request = Request { key: Some(choice.key), tried: &self.others[choice.family as usize] };
        // Who is near is seen among all of them.
        let k = if choice.near.is_some() { self.endpoints.len() } else { choice.answers };
        // Why there is none makes no difference: a full endpoint, or one that was not checked yet, is better than none too.
        let found = self.balancer.choose_k(&request, k, now, &mut self.picked).is_ok();
        if !found && choice.fail_open {
            self.name_all(choice);
        } else if found && self.balancer.set().in_panic() {
            self.stats.failed_open.add(1);
        }
        let endpoints = &self.endpoints;
        let zone_of = |slot: &Slot| endpoints.get(slot.index())?.as_ref()?.zone.as_deref();
        if choice.near.is_some() && self.picked.iter().any(|slot| zone_of(slot) == choice.near) {
            self.picked.retain(|slot| zone_of(slot) == choice.near);
        }
        self.picked.truncate(choice.answers);
        self.stats.answers.add(1);
        // One that joined this moment is not known here yet.
        self.picked.iter().filter_map(|slot| endpoints.get(slot.index())?.as_ref())
    }

    /// All endpoints that should serve, whatever is known of them.
    #[cold]
    fn name_all(&mut self, choice: &Choice<'_>) {
        use Exclusion::{Ejected, Full, Panic, Unchecked, Unhealthy};
        let set = self.balancer.set();
        let out =
            set.excluded().iter().filter(|(_, _, why)| matches!(why, Ejected | Full | Panic | Unchecked | Unhealthy));
        self.picked.extend(set.members().iter().map(|m| m.slot).chain(out.map(|(slot, ..)| *slot)));
        let other = &self.others[choice.family as usize];
        self.picked.retain(|slot| !other.contains(slot));
        if !self.picked.is_empty() {
            // Another one first each time.
            let by = self.stats.failed_open.get() as usize % self.picked.len();
            self.picked.rotate_left(by);
            self.stats.failed_open.add(1);
        }
    }
}
