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
use crate::scenario::{Policy, Scenario};

/// Runs a scenario under a policy. The same seed gives the same run, whatever else runs.
pub fn simulate(scenario: &Scenario, policy: &Policy, seed: u64) -> Run {
    world::World::new(scenario, policy, seed).run()
}
