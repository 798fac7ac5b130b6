//! Pools that a route's requests, sessions or flows may go to: a single pool, several by weight, or none.

use super::pool::WorkerPool;
use crate::core::Core;
use crate::peer::hash_key;
use evenkeel_balance::published::Reader;
use evenkeel_config::plan::HashKey;
use evenkeel_runtime::splits::Weights;
use evenkeel_wire::head::Request;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

/// Pools of a route on a worker.
pub enum Target {
    Pool(Rc<WorkerPool>),
    Split(Split),
    /// Pools that a map chooses from, by name.
    Choice(HashMap<Box<[u8]>, Rc<WorkerPool>>),
    /// The route itself responds.
    Nowhere,
}

/// Pools of a route on a worker to which its filters send separate requests.
#[derive(Default)]
pub struct Services {
    /// Pool that `forward_auth` asks.
    pub auth: Option<Rc<WorkerPool>>,
    /// Pools that get the copies of `mirror`, a pool for each of its tables.
    pub mirrors: Box<[Rc<WorkerPool>]>,
    /// Pools that are asked for error pages, a pool for each of these pages.
    pub pages: Box<[Rc<WorkerPool>]>,
}

/// Pools that share requests by weight.
pub struct Split {
    pools: Box<[Rc<WorkerPool>]>,
    /// Weights of the pools, which operators may change.
    weights: RefCell<Reader<Weights>>,
    key: Option<HashKey>,
}

impl Target {
    /// Pool for a request; `None` if the route itself responds. `client` is called for a split with a key only, and
    /// `chosen`, which writes the name of the pool, for a choice.
    #[inline]
    pub fn pool(
        &self,
        core: &Core,
        request: &Request<'_, '_>,
        client: impl FnOnce() -> IpAddr,
        chosen: impl FnOnce(&mut Vec<u8>),
    ) -> Option<&WorkerPool> {
        match self {
            Target::Pool(pool) => Some(pool),
            Target::Split(split) => split.pool(core, |key| hash_key::hash(key, request, client())).map(|pool| &**pool),
            Target::Choice(pools) => {
                let mut name = core.scratch();
                chosen(&mut name);
                let pool = pools.get(&*name).map(|pool| &**pool);
                name.clear();
                core.give_back(name);
                pool
            }
            Target::Nowhere => None,
        }
    }

    /// Pool for a session or flow of a client; `None` if the route itself responds. IPv4-mapped addresses must be made
    /// canonical first.
    pub fn pool_of_client(&self, core: &Core, client: IpAddr) -> Option<&Rc<WorkerPool>> {
        match self {
            Target::Pool(pool) => Some(pool),
            // The key can only be the address, as the configuration was checked.
            Target::Split(split) => split.pool(core, |_| Some(hash_key::of_client(client))),
            // Of requests alone, as the configuration was checked.
            Target::Choice(_) | Target::Nowhere => None,
        }
    }

    /// The only pool; `None` if there are several or none.
    pub fn only(&self) -> Option<&Rc<WorkerPool>> {
        if let Target::Pool(pool) = self { Some(pool) } else { None }
    }

    /// The pools; a split has them in the order of the file.
    pub fn pools(&self) -> impl Iterator<Item = &Rc<WorkerPool>> {
        let split = if let Target::Split(split) = self { &split.pools[..] } else { &[] };
        let choice = if let Target::Choice(pools) = self { Some(pools.values()) } else { None };
        self.only().into_iter().chain(split).chain(choice.into_iter().flatten())
    }
}

impl Split {
    /// Creates a split of these pools by weights in the same order. At least one weight is above 0.
    pub fn new(pools: impl Iterator<Item = Rc<WorkerPool>>, weights: Reader<Weights>, key: Option<HashKey>) -> Split {
        Split { pools: pools.collect(), weights: RefCell::new(weights), key }
    }

    /// Draws a pool, or finds the pool of a key. `hash` is called only for a split with a key.
    fn pool(&self, core: &Core, hash: impl FnOnce(&HashKey) -> Option<u64>) -> Option<&Rc<WorkerPool>> {
        let mut weights = self.weights.borrow_mut();
        weights.refresh();
        let shares = &weights.get().shares;
        let at = match self.key.as_ref().and_then(hash) {
            Some(hash) => shares.of_key(hash),
            None => shares.drawn(core.draw()),
        };
        self.pools.get(at?)
    }
}
