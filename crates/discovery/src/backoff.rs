//! Pauses after failures, waits for other times, and a bound for the rate of requests.

use evenkeel_balance::rng::Rng;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// First and longest pause after failures.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Waits for a time, for ever if there is none. Cancel safe.
#[cfg(any(feature = "kubernetes", feature = "xds"))]
pub async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Pauses between tries, which double with each failure. Half of each is random, so that balancers that lost the same
/// server do not all ask it at the same time.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
    rng: Rng,
}

impl Backoff {
    pub fn new(seed: u64) -> Backoff {
        Backoff { failures: 0, rng: Rng::new(seed ^ u64::from(std::process::id())) }
    }

    /// Begins with the first pause again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// True if nothing has failed since the last success.
    #[cfg(feature = "etcd")]
    pub fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    /// Counts a failure, and returns the pause after it. `asked`: pause that the server asked for. It counts if it is
    /// longer, up to an hour.
    pub fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let doubled = FIRST.saturating_mul(1u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let pause = doubled.mul_f64(0.5 + 0.5 * self.rng.unit());
        asked.map_or(pause, |asked| pause.max(asked.min(Duration::from_secs(3600))))
    }
}

/// Bound of a rate: a token each second, and a few that were saved.
#[derive(Debug)]
pub struct Bucket {
    /// Time at which the bucket was last full, moved on by each token that was taken.
    full_at: Instant,
}

/// Most tokens that are saved, and the time for a new token.
const BURST: u32 = 5;
const EVERY: Duration = Duration::from_secs(1);

impl Bucket {
    pub fn new() -> Bucket {
        Bucket { full_at: Instant::now() }
    }

    /// Takes a token. Waits until there is a token.
    pub async fn take(&mut self) {
        let at = self.taken_at(Instant::now());
        sleep_until(at).await;
    }

    /// Takes a token, and returns the time at which it is there.
    pub fn taken_at(&mut self, now: Instant) -> Instant {
        self.full_at = self.full_at.max(now) + EVERY;
        now.max(self.full_at.checked_sub(EVERY * BURST).unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_minute_and_half_of_each_is_random() {
        let mut backoff = Backoff::new(1);
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = backoff.pause(None).as_secs_f64();
            assert!((0.5..=1.0).contains(&(pause / f64::from(expected))), "{pause} of {expected}");
        }
        assert_eq!(backoff.pause(Some(Duration::from_secs(100))), Duration::from_secs(100));
        assert_eq!(backoff.pause(Some(Duration::from_secs(100_000))), Duration::from_secs(3600));
        backoff.reset();
        assert!(backoff.pause(None) <= FIRST);
        assert!((0..100).all(|_| backoff.pause(None) <= LONGEST));
    }

    #[test]
    fn a_burst_is_free_and_then_one_comes_a_second() {
        let (mut bucket, now) = (Bucket::new(), Instant::now());
        let waits: Vec<u128> = (0..8).map(|_| (bucket.taken_at(now) - now).as_millis() / 990).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 3]);
        let later = now + Duration::from_secs(60);
        assert_eq!(bucket.taken_at(later), later, "it is full again");
    }
}
