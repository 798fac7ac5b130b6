//! Event loop around the production balancers, in virtual time.
//!
//! Picks, queues, retries, health, ejection and slow start come from `evenkeel_balance`, called as the proxy calls
//! it, with time and seed passed in. This module simulates the rest: [`server`]s, links with a delay, clients
//! ([`arrivals`]), and their measurements ([`tally`]). All policies see the same workload: arrivals, work and
//! capacities have separate generators, and random choices for a request depend on its number alone.

// Order: outcome, requests, serving, upkeep, world, arrivals, calendar, dispatcher, log, jobs, server, tally, yardstick
mod arrivals;
pub(crate) mod calendar;
mod dispatcher;
mod jobs;
mod log;
mod outcome;
mod requests;
pub(crate) mod server;
mod serving;
mod tally;
mod upkeep;
mod world;
mod yardstick;

pub use log::{Logged, LoggedTry};
pub use outcome::{offered, offered_to_servers};

use crate::run::Run;
use crate::scenario::{Policy, Scenario};
use evenkeel_balance::Balancer;
use evenkeel_balance::recent::Recent;

/// Runs a scenario under a policy. Deterministic: the same arguments give the same run.
pub fn simulate(scenario: &Scenario, policy: &Policy, seed: u64) -> Run {
    world::World::new(scenario, policy, seed).run()
}

/// Like [`simulate`]; also returns the log of the balancers of a service, by its index, in the order of arrivals.
pub fn simulate_logged(scenario: &Scenario, policy: &Policy, service: u16, seed: u64) -> (Run, Vec<Logged>) {
    let mut world = world::World::new(scenario, policy, seed);
    world.log = Some(Box::new(log::Log::new(service)));
    world.run_telling(|world| world.log.take().map_or_else(Vec::new, |log| log.requests))
}

/// Like [`simulate`]; also returns the latest requests that each worker remembers at the end, in the order of
/// balancers.
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
