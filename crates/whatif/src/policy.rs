//! Policies: the policy that was in force, and those to try.

use evenkeel_balance::{Algorithm, Params, algorithms};
use evenkeel_sim::scenario::{Chooser, Policy};

/// Algorithm with its parameters.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub label: String,
    pub algorithm: &'static Algorithm,
    pub params: Params,
}

impl Candidate {
    /// `None` for yardsticks, which no balancer can implement.
    pub fn of(policy: &Policy) -> Option<Candidate> {
        let Chooser::Algorithm(algorithm, params) = &policy.chooser else { return None };
        Some(Candidate { label: policy.label.clone(), algorithm, params: params.clone() })
    }

    pub fn is_same(&self, other: &Candidate) -> bool {
        self.algorithm.name == other.algorithm.name && self.params.values().eq(other.params.values())
    }
}

/// All algorithms at their defaults that need neither a key nor probes.
pub fn usual() -> Vec<Candidate> {
    let usual = algorithms::ALL.iter().filter(|algorithm| !algorithm.needs.key && !algorithm.needs.probes);
    let candidate = |algorithm: &'static &'static Algorithm| Candidate {
        label: algorithm.name.to_string(),
        algorithm,
        params: Params::defaults(algorithm.params),
    };
    usual.map(candidate).collect()
}
