//! What happens when? The loop of events around production balancers, in virtual time.
//!
//! A decision is never made here: picks, waiting, retries, health, ejection and slow start are `evenkeel_balance`, called
//! as the proxy calls it, with the moment and the seed passed in. Here are the machines: [`server`]s that work, links that
//! take time, clients that come ([`arrivals`]), and what they see ([`tally`]). Policies share the workload: arrivals, work
//! and capacities have generators of their own, and what is random about a request hangs on its number alone.

mod arrivals;
mod calendar;
mod dispatcher;
mod jobs;
mod outcome;
mod requests;
mod server;
mod serving;
mod tally;
mod upkeep;
mod world;
mod yardstick;

pub use outcome::offered;

use crate::run::Run;
use crate::scenario::{Chooser, Policy, Scenario};
use evenkeel_balance::shadow::{Cast, Shown};
use evenkeel_balance::{Balancer, Seat};

/// Runs a scenario under a policy. The same seed gives the same run, whatever else runs.
pub fn simulate(scenario: &Scenario, policy: &Policy, seed: u64) -> Run {
    world::World::new(scenario, policy, seed).run()
}

/// The same with shadows beside every balancer, which see all of its picks; and what they saw and did, by balancer and worker.
pub fn simulate_shadowed(
    scenario: &Scenario,
    policy: &Policy,
    shadows: &[Policy],
    seed: u64,
) -> (Run, Vec<Vec<Shown>>) {
    let mut world = world::World::new(scenario, policy, seed);
    let algorithm = |policy: &Policy| match &policy.chooser {
        Chooser::Algorithm(algorithm, params) => Some((*algorithm, params.clone())),
        Chooser::Reference(_) => None,
    };
    let shadows: Vec<_> = shadows.iter().filter_map(algorithm).collect();
    let shadows: Vec<_> = shadows.iter().map(|(algorithm, params)| (*algorithm, params)).collect();
    for dispatcher in &mut world.dispatchers {
        let workers = dispatcher.balancers.len() as u32;
        let cast = Cast::new(&shadows, 1.0, workers);
        let balancers = std::mem::take(&mut dispatcher.balancers).into_iter().zip(0..);
        let shadowed = balancers.map(|(balancer, worker)| balancer.shadowed(&cast, Seat { worker, workers }));
        dispatcher.balancers =
            shadowed.collect::<Result<_, _>>().expect("parameters were checked when the policies were made");
    }
    world.run_telling(|world| {
        let balancers = world.dispatchers.iter().flat_map(|dispatcher| &dispatcher.balancers);
        balancers.map(Balancer::shadows).collect()
    })
}
