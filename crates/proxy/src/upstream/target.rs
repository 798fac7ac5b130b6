//! Pools that a route's requests may go to: one, several by weight, or none.

use super::pool::WorkerPool;
use crate::core::Core;
use crate::peer::hash_key;
use evenkeel_config::plan::HashKey;
use evenkeel_wire::head::Request;
use std::net::IpAddr;
use std::rc::Rc;

/// Pools of a route on one worker.
pub enum Target {
    Pool(Rc<WorkerPool>),
    Split(Split),
    /// The route answers by itself.
    Nowhere,
}

/// Pools of a route on one worker that its filters send requests of their own to.
#[derive(Default)]
pub struct Services {
    /// Pool that `forward_auth` asks.
    pub auth: Option<Rc<WorkerPool>>,
    /// Pool that gets the copies of `mirror`.
    pub mirror: Option<Rc<WorkerPool>>,
}

/// Pools that share requests by weight.
pub struct Split {
    /// Pools, each with the sum of the weights up to it.
    pools: Box<[(u64, Rc<WorkerPool>)]>,
    total: u64,
    key: Option<HashKey>,
}

impl Target {
    /// Pool for a request; `None` if the route answers by itself. `client` is called for a split only.
    #[inline]
    pub fn pool(&self, core: &Core, request: &Request<'_, '_>, client: impl FnOnce() -> IpAddr) -> Option<&WorkerPool> {
        match self {
            Target::Pool(pool) => Some(pool),
            Target::Split(split) => split.pool(core, request, client()),
            Target::Nowhere => None,
        }
    }

    /// The only pool; `None` if there are several or none.
    pub fn only(&self) -> Option<&Rc<WorkerPool>> {
        if let Target::Pool(pool) = self { Some(pool) } else { None }
    }

    /// The pools, in the order of the file.
    pub fn pools(&self) -> impl Iterator<Item = &Rc<WorkerPool>> {
        let split = if let Target::Split(split) = self { &split.pools[..] } else { &[] };
        self.only().into_iter().chain(split.iter().map(|(_, pool)| pool))
    }
}

impl Split {
    /// Creates a split of these pools by their weights, of which at least one is above 0.
    pub fn new(pools: impl Iterator<Item = (u32, Rc<WorkerPool>)>, key: Option<HashKey>) -> Split {
        let mut total = 0;
        let pools = pools.map(|(weight, pool)| {
            total += u64::from(weight);
            (total, pool)
        });
        let pools = pools.collect();
        Split { pools, total, key }
    }

    fn pool(&self, core: &Core, request: &Request<'_, '_>, client: IpAddr) -> Option<&WorkerPool> {
        let hash = self.key.as_ref().and_then(|key| hash_key::hash(key, request, client));
        let hash = hash.unwrap_or_else(|| core.draw());
        let at = share(hash, self.total);
        self.pools.iter().find(|(end, _)| at < *end).map(|(_, pool)| &**pool)
    }
}

/// Maps a hash to a number below `total`, evenly and in order.
fn share(hash: u64, total: u64) -> u64 {
    ((u128::from(hash) * u128::from(total)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_shared_evenly_and_a_part_that_grows_keeps_those_it_had() {
        let hashes = (0..10_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let canary = |stable: u64, canary: u64| -> Vec<u64> {
            hashes.clone().filter(|hash| share(*hash, stable + canary) >= stable).collect()
        };
        let (five, ten) = (canary(95, 5), canary(90, 10));
        assert!((450..550).contains(&five.len()) && (950..1050).contains(&ten.len()), "{} {}", five.len(), ten.len());
        assert!(five.iter().all(|hash| ten.contains(hash)));
        assert_eq!((share(u64::MAX, 7), share(0, 7)), (6, 0));
    }
}
