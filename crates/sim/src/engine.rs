//! What happens next? The loop of events around production balancers.

use crate::run::Run;
use crate::scenario::{Policy, Scenario};

/// Runs a scenario under a policy. The same seed gives the same run, whatever else runs.
pub fn simulate(_scenario: &Scenario, _policy: &Policy, _seed: u64) -> Run {
    unreachable!("being written")
}
