//! Active health: rise and fall counts over the results of health checks.

use crate::structures::time::{Instant, SECOND_NS};

/// Longest time that an endpoint waits for its first result, nanoseconds. After that it counts as usable: otherwise a
/// check that hangs would hold up a whole pool.
pub const FIRST_CHECK_NS: u64 = SECOND_NS;

/// Results needed to change the state of an endpoint, and the state it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failed checks in a row that take an endpoint down; at least 1.
    pub fall: u32,
    /// Passed checks in a row that take an endpoint up again; at least 1.
    pub rise: u32,
    /// State of an endpoint before its first result.
    pub initial: Initial,
}

impl Default for Settings {
    /// HAProxy's counts: 3 failed checks to go down, 2 passed checks to come up.
    fn default() -> Settings {
        Settings { fall: 3, rise: 2, initial: Initial::CheckFirst }
    }
}

/// State of an endpoint before the first result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Neither up nor down: requests wait for the first result, at most a second. That result decides alone.
    CheckFirst,
    /// Up until `fall` checks in a row have failed.
    Healthy,
    /// Down until `rise` checks in a row have passed.
    Unhealthy,
}

/// Health of an endpoint, from the results of its checks so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    verdict: Verdict,
    /// Results in a row that contradict the verdict.
    against: u32,
}

/// Current conclusion from the checks of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No check of the endpoint has finished yet.
    Unchecked {
        /// Start of the wait for the first result.
        since: Instant,
    },
    /// Healthy, by its checks or by [`Initial::Healthy`].
    Up,
    /// Unhealthy, by its checks or by [`Initial::Unhealthy`].
    Down,
}

/// A change of the verdict by a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The endpoint has come up.
    Up,
    /// The endpoint has gone down.
    Down,
}

impl Health {
    /// Returns the health before the first result.
    pub fn new(initial: Initial, now: Instant) -> Health {
        let verdict = match initial {
            Initial::CheckFirst => Verdict::Unchecked { since: now },
            Initial::Healthy => Verdict::Up,
            Initial::Unhealthy => Verdict::Down,
        };
        Health { verdict, against: 0 }
    }

    /// Returns the current verdict.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Applies a result and returns the change it caused, if any. The first result of an unchecked endpoint decides
    /// alone, even if it comes late.
    pub fn on_check(&mut self, settings: &Settings, passed: bool) -> Option<Transition> {
        let needed = match self.verdict {
            Verdict::Unchecked { .. } => 1,
            Verdict::Up if !passed => settings.fall,
            Verdict::Down if passed => settings.rise,
            Verdict::Up | Verdict::Down => {
                self.against = 0;
                return None;
            }
        };
        self.against += 1;
        if self.against < needed {
            return None;
        }
        let (verdict, transition) =
            if passed { (Verdict::Up, Transition::Up) } else { (Verdict::Down, Transition::Down) };
        *self = Health { verdict, against: 0 };
        Some(transition)
    }
}

impl Verdict {
    /// Time from which an unchecked endpoint counts as usable without a result. `None` once it was checked.
    pub fn usable_at(&self) -> Option<Instant> {
        match self {
            Verdict::Unchecked { since } => Some(since.after(FIRST_CHECK_NS)),
            Verdict::Up | Verdict::Down => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    #[test]
    fn the_first_result_alone_decides_when_checks_come_first() {
        for passed in [true, false] {
            let mut health = Health::new(Initial::CheckFirst, Instant(5));
            assert_eq!(health.verdict().usable_at(), Some(Instant(5 + SECOND_NS)));
            let change = health.on_check(&Settings::default(), passed);
            assert_eq!(change, Some(if passed { Transition::Up } else { Transition::Down }));
            assert_eq!(health.verdict().usable_at(), None);
        }
    }

    #[test]
    fn other_starts_need_as_many_results_as_any_change() {
        let settings = Settings { fall: 2, rise: 3, initial: Initial::Healthy };
        let mut up = Health::new(Initial::Healthy, Instant(0));
        let mut down = Health::new(Initial::Unhealthy, Instant(0));
        assert_eq!([false, false].map(|p| up.on_check(&settings, p)), [None, Some(Transition::Down)]);
        assert_eq!([true, true, true].map(|p| down.on_check(&settings, p)), [None, None, Some(Transition::Up)]);
    }

    /// Compares with the same rule computed differently: over the whole history, not step by step.
    #[test]
    fn rise_and_fall_are_exact_over_any_history() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let settings = Settings { fall: 1 + rng.below(4), rise: 1 + rng.below(4), initial: Initial::Healthy };
            let (mut health, mut up, mut results) = (Health::new(Initial::Healthy, Instant(0)), true, Vec::new());
            for step in 0..300 {
                let passed = rng.coin();
                results.push(passed);
                let needed = if up { settings.fall } else { settings.rise } as usize;
                let turned = results.len() >= needed && results.iter().rev().take(needed).all(|&r| r != up);
                if turned {
                    up = !up;
                    results.clear();
                }
                let want = turned.then_some(if up { Transition::Up } else { Transition::Down });
                assert_eq!(health.on_check(&settings, passed), want, "seed {seed}, step {step}, {settings:?}");
            }
        }
    }
}
