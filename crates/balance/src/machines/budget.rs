//! The budget for extra tries of a pool's requests: a share of recent requests, and a floor per second.
//!
//! Retries and hedges help while few requests need them. When all do, they would multiply the load of endpoints that
//! are already overloaded, so each is paid for with a token. Source: Finagle's RetryBudget (a share of the requests of
//! the last ten seconds, and a floor), with decay instead of its window.

use crate::structures::decay::decay;
use crate::structures::time::{Instant, SECOND_NS};
use crate::structures::token_bucket::{Rate, TokenBucket};

/// Time constant, in nanoseconds, with which earned tokens decay, and the time for which the floor saves up. Finagle's
/// window: long enough that the requests of a failed endpoint can go elsewhere at once.
const MEMORY_NS: u64 = 10 * SECOND_NS;

/// Interval between two decays of earned tokens. At a decay per second, a request costs an addition and a comparison.
const FADE_NS: u64 = SECOND_NS;

/// The budget of a worker for tries beyond the first.
///
/// Whatever happens, the tries granted since its creation number at most `share` x requests + `floor` x (seconds + 10)
/// + 1.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Tokens that each request earns.
    share: f64,
    /// Tokens earned by requests and not spent, as of `at`.
    earned: f64,
    at: Instant,
    floor: Rate,
    /// Tokens from the floor that are not spent.
    saved: TokenBucket,
}

impl Budget {
    /// Returns a budget of `share` (0 to 1) of this worker's requests, and of `floor` tries per second divided among
    /// `workers`. It begins with all that the floor can save up, as the first request may need it.
    pub fn new(share: f64, floor: f64, workers: u32, now: Instant) -> Budget {
        // However low and divided the floor is, a bucket holds a whole try.
        let floor = Rate::new(floor / f64::from(workers.max(1)), 1).saving(MEMORY_NS);
        Budget { share, earned: 0.0, at: now, floor, saved: TokenBucket::default() }
    }

    /// Counts a request. To be called once per request, with its first try.
    #[inline]
    pub fn earn(&mut self, now: Instant) {
        self.earned += self.share;
        if now.since(self.at) >= FADE_NS {
            self.fade(now);
        }
    }

    /// Spends a token. False if there is none.
    pub fn spend(&mut self, now: Instant) -> bool {
        self.fade(now);
        if self.earned >= 1.0 {
            self.earned -= 1.0;
            return true;
        }
        self.saved.take(self.floor, now).is_ok()
    }

    /// Gives back a token whose try did not take place.
    pub fn refund(&mut self) {
        self.earned += 1.0;
    }

    fn fade(&mut self, now: Instant) {
        self.earned *= f64::from(decay(now.since(self.at), MEMORY_NS));
        // Never backwards: a clock that lags must not make anything decay twice.
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    #[test]
    fn no_history_gets_more_than_was_earned() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let share = [0.0, 0.05, 0.2, 1.0][rng.below(4) as usize];
            let floor = [0.0, 0.1, 3.0, 100.0][rng.below(4) as usize];
            let workers = 1 + rng.below(8);
            let mut now = Instant(rng.next_u64() >> 20);
            let (began, mut budget) = (now, Budget::new(share, floor, workers, now));
            let (mut requests, mut spent) = (0.0, 0.0);
            for _ in 0..2000 {
                match rng.below(4) {
                    0 => {
                        budget.earn(now);
                        requests += 1.0;
                    }
                    1 => now = now.after(rng.next_u64() >> (30 + rng.below(34))),
                    // A clock that goes back must not earn the floor again.
                    2 if rng.below(10) == 0 => drop(budget.spend(Instant(began.0)).then(|| spent += 1.0)),
                    _ => spent += f64::from(u8::from(budget.spend(now))),
                }
                let seconds = now.since(began) as f64 / SECOND_NS as f64;
                let most = share * requests + floor / f64::from(workers) * (seconds + 10.0) + 1.0;
                assert!(spent <= most + 1e-6, "seed {seed}: {spent} spent, {most} allowed");
            }
        }
    }

    #[test]
    fn a_fifth_of_the_requests_may_fail_for_ever() {
        let mut budget = Budget::new(0.2, 0.0, 1, Instant(0));
        // Five requests earn a token; 1 % more requests make up for the decay between them.
        let spent = (0..101_000u64)
            .filter(|i| {
                let now = Instant(i * 100_000);
                budget.earn(now);
                budget.spend(now)
            })
            .count();
        assert!((20_000..=20_200).contains(&spent), "{spent}");
    }

    #[test]
    fn the_floor_lets_a_quiet_pool_try_again_on_any_number_of_workers() {
        let mut budget = Budget::new(0.0, 3.0, 64, Instant(0));
        assert!(budget.spend(Instant(0)) && !budget.spend(Instant(SECOND_NS)));
        assert!(budget.spend(Instant(25 * SECOND_NS)), "3 in 64 seconds");
    }

    #[test]
    fn what_was_earned_long_ago_is_forgotten() {
        let mut budget = Budget::new(0.2, 0.0, 1, Instant(0));
        (0..1_000_000).for_each(|_| budget.earn(Instant(0)));
        assert!(budget.spend(Instant(SECOND_NS)));
        assert!(!budget.spend(Instant(150 * SECOND_NS)));
    }
}
