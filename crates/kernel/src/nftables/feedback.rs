//! Weights by measured connections: an endpoint that has more open connections than its share answers slowly, and gets
//! less.
//!
//! The number of open connections is the rate of new ones times their duration (Little's law), so endpoints of equal
//! speed have connections in proportion to their weights. The factor of each follows the inverse of its excess by the
//! square root, which damps oscillation, and at least a sixteenth is left to notice a recovery.

use crate::service::Member;
use std::collections::HashMap;

/// Smallest part of its weight that an endpoint keeps.
const LEAST: f64 = 1.0 / 16.0;

/// Change of a factor that is worth new rules.
const STEP: f64 = 0.1;

/// Open connections of a service below which their spread says nothing.
const ENOUGH: u32 = 16;

/// Factors of weights, by the number of the endpoint.
#[derive(Clone, Debug, Default)]
pub struct Feedback {
    factors: HashMap<u32, f64>,
    /// Factors that the rules have.
    in_use: HashMap<u32, f64>,
}

impl Feedback {
    /// Handles open connections. Returns true if the rules have to change.
    pub fn on_read(&mut self, members: &[Member], active: &HashMap<u32, u32>) -> bool {
        let serving: Vec<&Member> = members.iter().filter(|member| member.weight > 0).collect();
        let open = |member: &Member| active.get(&member.id).copied().unwrap_or_default();
        let total: u32 = serving.iter().map(|member| open(member)).sum();
        let weight: f64 = serving.iter().map(|member| f64::from(member.weight)).sum();
        self.factors.retain(|id, _| serving.iter().any(|member| member.id == *id));
        if total >= ENOUGH {
            for member in &serving {
                let fair = f64::from(total) * f64::from(member.weight) / weight;
                // One more on either side, so that small numbers do not swing.
                let excess = (f64::from(open(member)) + 1.0) / (fair + 1.0);
                let factor = self.factors.entry(member.id).or_insert(1.0);
                *factor /= excess.sqrt();
            }
        } else {
            self.factors.values_mut().for_each(|factor| *factor *= 1.0 + STEP);
        }
        let most = self.factors.values().copied().fold(0.0, f64::max);
        self.factors.values_mut().for_each(|factor| *factor = (*factor / most).max(LEAST));
        let used = |id: &u32| self.in_use.get(id).copied().unwrap_or(1.0);
        let differs = self.factors.iter().any(|(id, factor)| (factor / used(id) - 1.0).abs() > STEP);
        if differs {
            self.in_use.clone_from(&self.factors);
        }
        differs
    }

    /// Members with their factors applied. Weights are scaled up, so that small ones have room.
    pub fn applied_to(&self, members: &[Member]) -> Vec<Member> {
        let scaled = |member: &Member| {
            let factor = self.in_use.get(&member.id).copied().unwrap_or(1.0);
            let weight = (f64::from(member.weight) * 256.0 * factor).ceil().min(f64::from(u32::MAX)) as u32;
            Member { weight, ..member.clone() }
        };
        members.iter().map(scaled).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::State;

    fn members(n: u32) -> Vec<Member> {
        let one = |id| Member { id, addr: ([127, 0, 0, 1], 80).into(), weight: 1, state: State::Serving };
        (1..=n).map(one).collect()
    }

    /// Open connections of endpoints that need these times for each, by the shares that rules give them.
    fn open(members: &[Member], times: &[f64], rate: f64) -> HashMap<u32, u32> {
        let sum: f64 = members.iter().map(|member| f64::from(member.weight)).sum();
        let of = |(member, time): (&Member, &f64)| {
            (member.id, (rate * f64::from(member.weight) / sum * time).round() as u32)
        };
        members.iter().zip(times).map(of).collect()
    }

    #[test]
    fn a_slow_endpoint_gets_less_until_it_recovers() {
        let (members, mut feedback) = (members(4), Feedback::default());
        for _ in 0..30 {
            let active = open(&feedback.applied_to(&members), &[8.0, 1.0, 1.0, 1.0], 100.0);
            feedback.on_read(&members, &active);
        }
        let weights: Vec<u32> = feedback.applied_to(&members).iter().map(|member| member.weight).collect();
        let share = f64::from(weights[0]) / f64::from(weights.iter().sum::<u32>());
        assert!(share < 0.06, "{weights:?}");
        for _ in 0..30 {
            let active = open(&feedback.applied_to(&members), &[1.0; 4], 100.0);
            feedback.on_read(&members, &active);
        }
        let weights: Vec<u32> = feedback.applied_to(&members).iter().map(|member| member.weight).collect();
        assert!(weights[0] * 10 > weights[1] * 8, "{weights:?}");
    }

    #[test]
    fn equal_endpoints_keep_their_rules() {
        let (members, mut feedback) = (members(4), Feedback::default());
        assert!(!feedback.on_read(&members, &open(&members, &[1.0; 4], 100.0)));
        assert!(!feedback.on_read(&members, &HashMap::new()));
    }
}
