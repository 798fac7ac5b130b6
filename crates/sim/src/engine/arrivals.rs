//! Arrival times of client requests.

use crate::scenario::{Load, Scenario};
use crate::work::exponential;
use evenkeel_balance::Rng;

/// Stream of arrivals. Has a separate random generator, so that every policy sees the same arrivals; only arrivals of a
/// closed loop depend on the answers.
pub(super) struct Arrivals {
    load: Load,
    rng: Rng,
    made: u64,
    /// Time of the latest arrival of an open stream, in nanoseconds with a fraction. Events have whole nanoseconds: if
    /// the fraction were dropped at each of a million arrivals a second, the rate would be 0.05 % too high.
    latest: f64,
    /// Current state of an MMPP, and the time at which it ends.
    phase: usize,
    phase_ends: f64,
}

impl Arrivals {
    pub fn new(load: &Load, seed: u64) -> Arrivals {
        let mut arrivals =
            Arrivals { load: load.clone(), rng: Rng::new(seed), made: 0, latest: 0.0, phase: 0, phase_ends: 0.0 };
        if let Load::Mmpp { states } = load {
            arrivals.phase_ends = exponential(states[0].1 as f64, &mut arrivals.rng);
        }
        arrivals
    }

    /// Appends the times of the first arrivals: for each user of a closed loop, otherwise a single arrival.
    pub fn first(&mut self, at: &mut Vec<u64>) {
        match &self.load {
            Load::Closed { users, .. } => at.extend((0..*users).map(|_| 0)),
            _ => at.extend(self.next()),
        }
    }

    /// Time of the next arrival of an open stream; `None` for a closed loop and at the end of a trace.
    pub fn next(&mut self) -> Option<u64> {
        self.made += 1;
        match &self.load {
            Load::Closed { .. } => return None,
            Load::Trace { at_ns } => return at_ns.get(self.made as usize - 1).copied(),
            Load::Poisson { per_second } => self.latest += exponential(1e9 / per_second, &mut self.rng),
            Load::Mmpp { states } => loop {
                // Exponential gaps are memoryless: when the state changes, the rest of a gap is drawn anew at the new
                // rate.
                let (rate, _) = states[self.phase];
                let gap = if rate > 0.0 { exponential(1e9 / rate, &mut self.rng) } else { f64::INFINITY };
                if self.latest + gap < self.phase_ends {
                    self.latest += gap;
                    break;
                }
                self.latest = self.phase_ends;
                self.phase = (self.phase + 1) % states.len();
                self.phase_ends += exponential(states[self.phase].1 as f64, &mut self.rng);
            },
        }
        Some(self.latest as u64)
    }

    /// Time of the next request of a user who got an answer at `now`; `None` for an open stream.
    pub fn after_answer(&mut self, now: u64) -> Option<u64> {
        match &self.load {
            Load::Closed { think, .. } => Some(now + think.draw(&mut self.rng)),
            _ => None,
        }
    }
}

/// Number of client requests that a run waits for, at most as many as there are moments; `u64::MAX` if only time ends
/// it.
pub(super) fn requests(scenario: &Scenario) -> u64 {
    match &scenario.load {
        Load::Trace { at_ns } if scenario.requests < u64::MAX => scenario.requests.min(at_ns.len() as u64),
        _ => scenario.requests,
    }
}

/// Mean requests per second. `None` for a closed loop, whose rate depends on the answers, and for traces of less than
/// two moments.
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
