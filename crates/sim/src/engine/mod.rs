//! Event loop around production balancers, in virtual time.
//!
//! A decision is never made here: picks, waiting, retries, health, ejection and slow start are `evenkeel_balance`, called
//! as the proxy calls it, with the moment and the seed passed in. Here are the machines: [`server`]s that work, links that
//! take time, clients that come ([`arrivals`]), and what they see ([`tally`]). Policies share the workload: arrivals, work
//! and capacities have generators of their own, and what is random about a request hangs on its number alone.

mod arrivals;
pub(crate) mod calendar;
mod dispatcher;
mod jobs;
mod outcome;
mod requests;
pub(crate) mod server;
mod serving;
mod tally;
mod upkeep;
mod world;
mod yardstick;

pub use outcome::offered;

use crate::run::Run;
use crate::scenario::{Policy, Scenario};
use evenkeel_balance::Balancer;
use evenkeel_balance::recent::Recent;

/// Runs a scenario under a policy. The same seed gives the same run, whatever else runs.
pub fn simulate(scenario: &Scenario, policy: &Policy, seed: u64) -> Run {
    world::World::new(scenario, policy, seed).run()
}

/// Like [`simulate`]; also returns what the workers of every balancer remember at the end, in the order of balancers.
pub fn simulate_remembered(scenario: &Scenario, policy: &Policy, seed: u64) -> (Run, Vec<Recent>) {
    let mut world = world::World::new(scenario, policy, seed);
    for dispatcher in &mut world.dispatchers {
        let balancers = std::mem::take(&mut dispatcher.balancers);
        dispatcher.balancers = balancers.into_iter().map(Balancer::remembering).collect();
    }
    world.run_telling(|world| {
        let balancers = world.dispatchers.iter().flat_map(|dispatcher| &dispatcher.balancers);
        balancers.filter_map(Balancer::recent).collect()
    })
}
