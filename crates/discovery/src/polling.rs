//! Polling of sources that do not push, with the same loop for all: a source looks up its current state ([`Look`]) at a
//! given [`Pace`].

use crate::kept::Answer;
use crate::out::Out;
use evenkeel_balance::rng::Rng;
use std::time::Duration;
use tokio::time::sleep;

/// A source that can be polled.
pub trait Look {
    /// Looks up the current state.
    fn look(&mut self) -> impl Future<Output = Answer> + Send;
}

/// Bounds for the time between polls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Shortest time that an answer is used.
    pub min: Duration,
    /// Longest time that an answer is used; never below `min`.
    pub max: Duration,
    /// Wait after the first failure. Doubles with each further failure.
    pub retry: Duration,
    /// Longest wait after a failure.
    pub retry_max: Duration,
    /// Random extension of each wait, as a share of it, so that sources started together drift apart.
    pub spread: f64,
}

/// Polls a source forever, and submits its answers.
pub async fn poll(mut look: impl Look, pace: Pace, mut out: Out) -> ! {
    // Seeded by source and process, so that balancers started together drift apart.
    let mut rng = Rng::new(out.seed() ^ u64::from(std::process::id()));
    let mut row = Row { pace, failures: 0 };
    loop {
        let answer = look.look().await;
        let wait = row.wait(&answer, rng.unit());
        out.put(answer);
        sleep(wait).await;
    }
}

/// State of a sequence of polls.
#[derive(Debug)]
struct Row {
    pace: Pace,
    /// Consecutive failures so far.
    failures: u32,
}

impl Row {
    /// Wait after this answer. `drawn`, from 0 to 1, selects the random part.
    fn wait(&mut self, answer: &Answer, drawn: f64) -> Duration {
        let Pace { min, max, retry, retry_max, spread } = self.pace;
        let wait = match answer {
            Answer::Failed(_) => {
                self.failures = self.failures.saturating_add(1);
                let doubled = 1u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
                retry.saturating_mul(doubled).min(retry_max)
            }
            Answer::Nothing => min,
            Answer::Same => {
                self.failures = 0;
                min
            }
            Answer::List(list) => {
                self.failures = 0;
                list.ttl.unwrap_or(max).min(max).max(min)
            }
        };
        wait.mul_f64(1.0 + spread * drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::List;

    const S: Duration = Duration::from_secs(1);

    const PACE: Pace =
        Pace { min: S, max: Duration::from_secs(300), retry: S, retry_max: Duration::from_secs(30), spread: 0.0 };

    fn row(pace: Pace) -> Row {
        Row { pace, failures: 0 }
    }

    fn list(seconds: u64) -> Answer {
        Answer::List(List { ttl: Some(Duration::from_secs(seconds)), ..List::default() })
    }

    #[test]
    fn a_time_to_live_is_kept_within_bounds() {
        for (ttl, wait) in [(0, 1), (1, 1), (20, 20), (86_400, 300), (u64::from(u32::MAX), 300)] {
            assert_eq!(row(PACE).wait(&list(ttl), 1.0), Duration::from_secs(wait));
        }
        assert_eq!(row(PACE).wait(&Answer::List(List::default()), 1.0), PACE.max);
        let spread = Pace { spread: 0.1, ..PACE };
        assert_eq!(row(spread).wait(&list(20), 1.0), 22 * S);
        assert_eq!(row(spread).wait(&list(20), 0.0), 20 * S);
    }

    #[test]
    fn failures_are_asked_about_less_and_less_until_there_is_an_answer() {
        let mut row = row(PACE);
        let fail = |row: &mut Row| row.wait(&Answer::Failed("SERVFAIL".into()), 1.0);
        for answer in [list(1), Answer::Same] {
            let waits: Vec<Duration> = (0..41).map(|_| fail(&mut row)).collect();
            let seconds: Vec<u64> = waits.iter().take(7).map(Duration::as_secs).collect();
            assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
            assert_eq!(waits[40], PACE.retry_max);
            assert_eq!(row.wait(&Answer::Nothing, 1.0), S);
            assert_eq!(fail(&mut row), PACE.retry_max, "nothing is no answer");
            assert_eq!(row.wait(&answer, 1.0), S);
        }
        assert_eq!(fail(&mut row), S, "counted from one again");
    }
}
