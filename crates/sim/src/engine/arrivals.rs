//! When does the next request of a client come?

use crate::scenario::Load;
use crate::work::exponential;
use evenkeel_balance::Rng;

/// The stream of arrivals. Draws from its own generator, so that every policy sees the same ones; in a closed loop those
/// depend on the answers.
pub(super) struct Arrivals {
    load: Load,
    rng: Rng,
    made: u64,
    /// The state of an MMPP, and until when it lasts.
    phase: usize,
    phase_ends: u64,
}

impl Arrivals {
    pub fn new(load: &Load, seed: u64) -> Arrivals {
        let mut arrivals = Arrivals { load: load.clone(), rng: Rng::new(seed), made: 0, phase: 0, phase_ends: 0 };
        if let Load::Mmpp { states } = load {
            arrivals.phase_ends = exponential(states[0].1 as f64, &mut arrivals.rng) as u64;
        }
        arrivals
    }

    /// The moments at which requests come first.
    pub fn first(&mut self, link: &mut Vec<u64>) {
        match &self.load {
            Load::Closed { users, .. } => link.extend((0..*users).map(|_| 0)),
            _ => link.extend(self.after(0)),
        }
    }

    /// After an arrival at `now`: the next one of an open stream.
    pub fn after(&mut self, now: u64) -> Option<u64> {
        self.made += 1;
        match &self.load {
            Load::Closed { .. } => None,
            Load::Poisson { per_second } => Some(now + exponential(1e9 / per_second, &mut self.rng) as u64),
            Load::Trace { at_ns } => at_ns.get(self.made as usize - 1).copied(),
            Load::Mmpp { states } => {
                // Memoryless: what is left of a gap when the state changes is drawn anew at the new rate.
                let mut from = now;
                loop {
                    let (rate, _) = states[self.phase];
                    let gap = if rate > 0.0 { exponential(1e9 / rate, &mut self.rng) } else { f64::INFINITY };
                    if from as f64 + gap < self.phase_ends as f64 {
                        return Some(from + gap as u64);
                    }
                    from = self.phase_ends;
                    self.phase = (self.phase + 1) % states.len();
                    self.phase_ends = from + exponential(states[self.phase].1 as f64, &mut self.rng) as u64;
                }
            }
        }
    }

    /// After an answer at `now`: the next request of the user who got it.
    pub fn after_answer(&mut self, now: u64) -> Option<u64> {
        match &self.load {
            Load::Closed { think, .. } => Some(now + think.draw(&mut self.rng)),
            _ => None,
        }
    }
}

/// Requests a second on average; `None` for a closed loop, which follows the answers.
pub(super) fn rate(load: &Load) -> Option<f64> {
    match load {
        Load::Closed { .. } => None,
        Load::Poisson { per_second } => Some(*per_second),
        Load::Mmpp { states } => {
            let length: f64 = states.iter().map(|(_, ns)| *ns as f64).sum();
            Some(states.iter().map(|(rate, ns)| rate * *ns as f64).sum::<f64>() / length)
        }
        Load::Trace { at_ns } => match (at_ns.first(), at_ns.last()) {
            (Some(first), Some(last)) if last > first => Some((at_ns.len() - 1) as f64 * 1e9 / (last - first) as f64),
            _ => None,
        },
    }
}
