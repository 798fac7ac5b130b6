//! The endpoints that pools have now: those of the plan, or those that were found in their place. Changed pool by pool, so that a
//! change costs what its pool costs, and no plan is copied for it.
#![expect(clippy::disallowed_types, reason = "workers never take the lock of a list")]

use evenkeel_config::Plan;
use evenkeel_config::plan::Endpoint;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub type Endpoints = Arc<[Endpoint]>;

/// Endpoints that were found, by pool.
pub type Found = Vec<(Arc<str>, Vec<Endpoint>)>;

/// The endpoints of each pool of a plan.
#[derive(Debug)]
pub struct Membership {
    at: HashMap<Arc<str>, usize>,
    /// Endpoints by pool, in the order of the plan.
    pools: Vec<Mutex<Endpoints>>,
}

impl Membership {
    /// The endpoints of a plan, but for pools that have others: those that were found.
    pub fn new(plan: &Plan, found: Found) -> Membership {
        let mut found: HashMap<Arc<str>, Vec<Endpoint>> = found.into_iter().collect();
        let endpoints = plan.pools.iter().map(|pool| {
            let endpoints = found.remove(&pool.name).unwrap_or_else(|| pool.endpoints.clone());
            Mutex::new(endpoints.into())
        });
        let pools = endpoints.collect();
        Membership { at: plan.pools.iter().enumerate().map(|(at, pool)| (pool.name.clone(), at)).collect(), pools }
    }

    /// The index of a pool in its plan.
    pub fn at(&self, pool: &str) -> Option<usize> {
        self.at.get(pool).copied()
    }

    /// The endpoints of a pool, by its index.
    pub fn endpoints(&self, at: usize) -> Endpoints {
        self.pools[at].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives a pool other endpoints.
    pub(crate) fn change(&self, at: usize, endpoints: Endpoints) {
        *self.pools[at].lock().unwrap_or_else(PoisonError::into_inner) = endpoints;
    }
}
