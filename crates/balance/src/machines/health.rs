//! Is an endpoint up? Rise and fall over the results of active checks.

use crate::structures::time::{Instant, SECOND_NS};

/// How long an endpoint waits for its first result at most, nanoseconds. After that it counts as usable: otherwise a
/// check that hangs would hold up a whole pool.
pub const FIRST_CHECK_NS: u64 = SECOND_NS;

/// What checks must say before an endpoint changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failed checks in a row that take an endpoint down; at least 1.
    pub fall: u32,
    /// Passed checks in a row that bring it back; at least 1.
    pub rise: u32,
    /// What an endpoint is before its first result.
    pub initial: Initial,
}

impl Default for Settings {
    /// HAProxy's: 3 down, 2 up.
    fn default() -> Settings {
        Settings { fall: 3, rise: 2, initial: Initial::CheckFirst }
    }
}

/// What an endpoint is before the first result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Neither: requests wait for the result, but no longer than a second; the first result decides alone.
    CheckFirst,
    /// Up until checks say otherwise.
    Healthy,
    /// Down until checks say otherwise.
    Unhealthy,
}

/// What the checks of one endpoint have said so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    verdict: Verdict,
    /// Results in a row that speak against the verdict.
    against: u32,
}

/// What checks say of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Unchecked {
        /// Since when it has waited for its first result.
        since: Instant,
    },
    /// Up.
    Up,
    /// Down.
    Down,
}

/// A change of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It is up now.
    Up,
    /// It is down now.
    Down,
}

impl Health {
    /// Before the first result.
    pub fn new(initial: Initial, now: Instant) -> Health {
        let verdict = match initial {
            Initial::CheckFirst => Verdict::Unchecked { since: now },
            Initial::Healthy => Verdict::Up,
            Initial::Unhealthy => Verdict::Down,
        };
        Health { verdict, against: 0 }
    }

    /// What checks have said.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Takes a result and returns what it changed. The first result of an unchecked endpoint decides alone, late or
    /// not.
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
    /// When an unchecked endpoint counts as usable without a result.
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

    /// The same rule computed differently: over the whole history, not step by step.
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
