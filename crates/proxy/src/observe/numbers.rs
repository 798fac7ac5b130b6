//! The numbers of the workers under the plan that runs. Replaced as a whole by those of the next plan; a pool that has other
//! endpoints replaces its own.
#![expect(clippy::disallowed_types, reason = "workers never take the lock of a pool's numbers")]

use crate::observe::stats::{EndpointStats, WorkerStats};
use evenkeel_config::Plan;
use evenkeel_config::plan::Endpoint;
use evenkeel_runtime::Generation;
use evenkeel_runtime::membership::Endpoints;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What the workers count under a plan.
#[derive(Debug)]
pub struct Numbers {
    /// The plan that runs.
    pub generation: Arc<Generation>,
    /// The numbers of each worker.
    pub workers: Vec<Arc<WorkerStats>>,
    /// By pool.
    members: Vec<Mutex<Arc<Members>>>,
}

/// The endpoints of a pool, and what each worker counts of them.
#[derive(Debug)]
pub struct Members {
    /// The endpoints.
    pub endpoints: Endpoints,
    /// By worker, then by endpoint.
    pub workers: Vec<Vec<Arc<EndpointStats>>>,
}

impl Members {
    fn first(endpoints: Endpoints, workers: usize) -> Members {
        let new = || endpoints.iter().map(|_| Arc::default()).collect();
        Members { workers: (0..workers).map(|_| new()).collect(), endpoints }
    }

    /// Those that follow: endpoints that stay go on counting.
    pub fn next(&self, endpoints: Endpoints) -> Members {
        let before: HashMap<&str, usize> = self.endpoints.iter().enumerate().map(|(e, it)| (&*it.name, e)).collect();
        let of = |worker: &Vec<Arc<EndpointStats>>| {
            let kept = |endpoint: &Endpoint| Some(worker[*before.get(&*endpoint.name)?].clone());
            endpoints.iter().map(|endpoint| kept(endpoint).unwrap_or_default()).collect()
        };
        Members { workers: self.workers.iter().map(of).collect(), endpoints }
    }

    /// What each worker counts of an endpoint.
    pub fn stats(&self, endpoint: usize) -> impl Iterator<Item = &EndpointStats> + Clone {
        self.workers.iter().map(move |worker| &*worker[endpoint])
    }
}

impl Numbers {
    /// The first ones, of so many workers.
    pub fn first(generation: Arc<Generation>, workers: usize) -> Numbers {
        let members = |at| Mutex::new(Members::first(generation.membership.endpoints(at), workers).into());
        let members = (0..generation.plan.pools.len()).map(members).collect();
        let workers = (0..workers).map(|_| WorkerStats::new(&generation.plan, None).into()).collect();
        Numbers { generation, workers, members }
    }

    /// Those that follow: what both plans name goes on counting.
    pub fn next(&self, generation: Arc<Generation>) -> Numbers {
        let next = |w: &Arc<WorkerStats>| WorkerStats::new(&generation.plan, Some((self.plan(), &**w))).into();
        let workers: Vec<_> = self.workers.iter().map(next).collect();
        let members = generation.plan.pools.iter().enumerate().map(|(at, pool)| {
            let endpoints = generation.membership.endpoints(at);
            let before = self.generation.membership.at(&pool.name).map(|before| self.members(before));
            Mutex::new(Arc::new(match before {
                Some(before) => before.next(endpoints),
                None => Members::first(endpoints, workers.len()),
            }))
        });
        let members = members.collect();
        Numbers { generation, workers, members }
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        &self.generation.plan
    }

    /// The endpoints of a pool, by its index in the plan.
    pub fn members(&self, pool: usize) -> Arc<Members> {
        self.members[pool].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The endpoints of each pool, in the order of the plan.
    pub fn all_members(&self) -> Vec<Arc<Members>> {
        (0..self.members.len()).map(|pool| self.members(pool)).collect()
    }

    /// What is read at one moment.
    pub fn moment(&self) -> Moment<'_> {
        Moment { numbers: self, members: self.all_members() }
    }

    /// Gives a pool other endpoints.
    pub(crate) fn change(&self, pool: usize, members: Arc<Members>) {
        *self.members[pool].lock().unwrap_or_else(PoisonError::into_inner) = members;
    }
}

/// The numbers of the workers with the endpoints of one moment, for those who read them.
#[derive(Debug)]
pub struct Moment<'n> {
    /// The numbers.
    pub numbers: &'n Numbers,
    /// The endpoints of each pool, in the order of the plan.
    pub members: Vec<Arc<Members>>,
}

impl Moment<'_> {
    /// The plan with these endpoints.
    pub fn plan(&self) -> Plan {
        let mut plan = Plan::clone(self.numbers.plan());
        for (pool, members) in plan.pools.iter_mut().zip(&self.members) {
            if pool.endpoints != *members.endpoints {
                Arc::make_mut(pool).endpoints = members.endpoints.to_vec();
            }
        }
        plan
    }
}
