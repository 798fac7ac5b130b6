//! Fetches of the sets that the plan in use names: at once, before they become stale, and when a token names a key that
//! is not there.

use crate::fetch::{Fault, fetch};
use crate::keys::KeySet;
use crate::routes::Tokens;
use crate::source::Source;
use bytes::Bytes;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Times between fetches of a set.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time in which a server must have answered.
    pub patience: Duration,
    /// Least time between a fetch and the next, whatever tokens ask for.
    pub floor: Duration,
    /// Bounds of the lifetime that servers state.
    pub lifetime: RangeInclusive<Duration>,
    /// Pause after a fetch that failed; doubled after each further failure, up to the second.
    pub retry: RangeInclusive<Duration>,
}

impl Default for Pace {
    fn default() -> Pace {
        let seconds = Duration::from_secs;
        Pace {
            patience: seconds(10),
            floor: seconds(10),
            lifetime: seconds(30)..=seconds(24 * 3600),
            retry: seconds(1)..=seconds(60),
        }
    }
}

/// A set that is followed. The task ends with it.
struct Followed {
    source: Arc<Source>,
    task: JoinHandle<()>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fetches the sets of the latest value of `tokens`, until its sender is gone.
pub async fn follow(mut tokens: watch::Receiver<Arc<Tokens>>, pace: Pace) {
    let mut followed: Vec<Followed> = Vec::new();
    loop {
        let now = tokens.borrow_and_update().clone();
        let is_there = |one: &Followed| now.sources().iter().any(|source| Arc::ptr_eq(source, &one.source));
        followed.retain(is_there);
        for source in now.sources().iter().filter(|source| source.url().is_some()) {
            if !followed.iter().any(|one| Arc::ptr_eq(&one.source, source)) {
                let task = tokio::spawn(keep_fresh(source.clone(), pace.clone()));
                followed.push(Followed { source: source.clone(), task });
            }
        }
        drop(now);
        if tokens.changed().await.is_err() {
            return;
        }
    }
}

/// Fetches a set again and again, until the task is aborted.
async fn keep_fresh(source: Arc<Source>, pace: Pace) {
    let (mut failures, mut last) = (0, Bytes::new());
    loop {
        source.begin();
        let pause = match renew(&source, &pace, &mut last).await {
            Ok(lifetime) => {
                failures = 0;
                lifetime
            }
            Err(error) => {
                failures += 1;
                source.counts.failed.fetch_add(1, Relaxed);
                let kept = if source.is_empty() { "requests get 503" } else { "keeping the previous ones" };
                tracing::error!("cannot fetch the keys of tokens from {}: {error}; {kept}", source.settings().at);
                pause(&pace, failures)
            }
        };
        // A token may ask for a fetch earlier, but not before the floor; a failure is repeated sooner than that.
        sleep(pause.min(pace.floor)).await;
        let _ = timeout(pause.saturating_sub(pace.floor), source.asked.notified()).await;
    }
}

/// Pause after this many failures in a row.
fn pause(pace: &Pace, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    pace.retry.start().saturating_mul(factor).min(*pace.retry.end())
}

/// Fetches a set, and publishes it if it is not the same as `last`. Returns the time for which it is fresh.
async fn renew(source: &Source, pace: &Pace, last: &mut Bytes) -> Result<Duration, Fault> {
    let settings = source.settings();
    let url = source.url().ok_or("it is not a URL")?;
    let fetched = fetch(url, settings.ca.as_deref(), pace.patience).await?;
    // The same keys would make workers forget the tokens that they know.
    if fetched.json != *last {
        let keys = KeySet::read(&fetched.json, false)?;
        tracing::info!(url = %url, keys = keys.len(), "keys of tokens fetched");
        source.publish(keys);
        *last = fetched.json;
    }
    source.counts.fetched.fetch_add(1, Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    source.counts.fetched_at.store(i64::try_from(now.as_secs()).unwrap_or(i64::MAX), Relaxed);
    let stated = fetched.max_age.map(|age| age.clamp(*pace.lifetime.start(), *pace.lifetime.end()));
    Ok(stated.unwrap_or(settings.refresh))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pace = Pace::default();
        let seconds = |failures| pause(&pace, failures).as_secs();
        assert_eq!([1, 2, 3, 6, 7, 40, u32::MAX].map(seconds), [1, 2, 4, 32, 60, 60, 60]);
    }
}
