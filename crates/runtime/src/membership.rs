//! Current endpoints of pools: planned endpoints, or discovered endpoints instead. They change pool by pool, so that
//! the cost of a change depends on its pool alone, and no plan is copied.
#![expect(clippy::disallowed_types, reason = "workers never take the lock of a list")]

use evenkeel_config::Plan;
use evenkeel_config::plan::Endpoint;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub type Endpoints = Arc<[Endpoint]>;

/// Discovered endpoints, by pool.
pub type Found = Vec<(Arc<str>, Vec<Endpoint>)>;

/// Current endpoints of each pool of a plan.
#[derive(Debug)]
pub struct Membership {
    at: HashMap<Arc<str>, usize>,
    /// Endpoints by pool, in the order of the plan.
    pools: Vec<Mutex<Endpoints>>,
}

impl Membership {
    /// Creates the membership of a plan, with `found` endpoints instead of planned ones where given.
    pub fn new(plan: &Plan, found: Found) -> Membership {
        let mut found: HashMap<Arc<str>, Vec<Endpoint>> = found.into_iter().collect();
        let endpoints = plan.pools.iter().map(|pool| {
            let endpoints = found.remove(&pool.name).unwrap_or_else(|| pool.endpoints.clone());
            Mutex::new(endpoints.into())
        });
        let pools = endpoints.collect();
        Membership { at: plan.pools.iter().enumerate().map(|(at, pool)| (pool.name.clone(), at)).collect(), pools }
    }

    /// Index of a pool in its plan.
    pub fn at(&self, pool: &str) -> Option<usize> {
        self.at.get(pool).copied()
    }

    /// Current endpoints of a pool, by its index.
    pub fn endpoints(&self, at: usize) -> Endpoints {
        self.pools[at].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the endpoints of a pool.
    pub(crate) fn change(&self, at: usize, endpoints: Endpoints) {
        *self.pools[at].lock().unwrap_or_else(PoisonError::into_inner) = endpoints;
    }
}
