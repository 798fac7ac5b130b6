//! The cache as its operators see it, and their purges.

use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::api::running::Later;
use evenkeel_proxy::{CacheRefused, Numbers};
use evenkeel_runtime::control::Control;
use evenkeel_view::cache::{Cache, Purge, PurgeDone, TopKey, TopWanted};
use evenkeel_view::events::Kind;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys in a list of the first ones, unless another number is asked for.
const TOP: u16 = 20;

/// Time for which counts are kept, and between two of them.
const KEPT_MS: u64 = 300_000;
const STEP_MS: u64 = 10_000;

/// Counts of the requests of routes with a cache over the last five minutes.
#[derive(Debug, Default)]
pub struct OfLate(Mutex<VecDeque<Sample>>);

/// Counts at a time, in milliseconds since 1970: of each route, answered by a stored response, and all.
#[derive(Debug)]
struct Sample {
    at_ms: u64,
    routes: Vec<(Arc<str>, [u64; 2])>,
}

impl OfLate {
    /// Notes the counts, if the time for that has come. To be called every second.
    pub fn count(&self, now: &Numbers, now_ms: u64) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_some_and(|last| now_ms.saturating_sub(last.at_ms) < STEP_MS) {
            return;
        }
        samples.push_back(Sample { at_ms: now_ms, routes: now.cache_asked() });
        while samples.front().is_some_and(|first| now_ms.saturating_sub(first.at_ms) > KEPT_MS) {
            samples.pop_front();
        }
    }

    /// Adds the hit ratios of that time.
    pub fn add_to(&self, cache: &mut Cache) {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for route in &mut cache.routes {
            let of_route = |sample: &Sample| {
                let found = sample.routes.iter().find(|(name, _)| **name == *route.route);
                found.map(|(_, counts)| *counts)
            };
            // A route that is newer than the first sample counts from zero.
            let [hits, asked] = samples.front().and_then(of_route).unwrap_or_default();
            let (hits, asked) = ((route.hit + route.stale).saturating_sub(hits), route.asked().saturating_sub(asked));
            route.hit_ratio_of_late = (asked > 0).then(|| hits as f64 / asked as f64);
        }
    }
}

/// Explains why the cache has no answer.
pub fn problem(refused: CacheRefused) -> Problem {
    match refused {
        CacheRefused::NoCache => no_cache(),
        CacheRefused::Malformed(why) => Problem::malformed(why),
    }
}

#[cold]
pub fn no_cache() -> Problem {
    Problem::not_found("no route has a cache: `cache = true` in a [[route]] turns it on")
}

/// Finds the first keys, off the thread of the admin: with a million keys that takes a while.
pub fn top(now: Arc<Numbers>, control: &Control, wanted: TopWanted) -> Later<Result<Vec<TopKey>, Problem>> {
    let at = control.now();
    Box::pin(async move {
        let top = move || now.cache_top(wanted.n.unwrap_or(TOP).into(), wanted.by, at).map_err(problem);
        apart(top).await?
    })
}

/// Purges at once, and counts off the thread of the admin.
pub fn purge(now: &Arc<Numbers>, control: &Control, purge: &Purge, by: &str) -> Later<Result<PurgeDone, Problem>> {
    let purging = match now.purge_cache(purge, control.now()) {
        Ok(purging) => purging,
        Err(refused) => return Box::pin(async move { Err(problem(refused)) }),
    };
    let how = if purge.soft { "soft purge" } else { "purge" };
    let text = format!("{how} of the cache: {}", purging.target());
    tracing::info!(by, "operator order: {text}");
    control.events().tell(Kind::Operator, (None, None), text, Some(by));
    Box::pin(async move {
        let ended = apart(move || purging.end()).await?;
        ended.map_err(|why| Problem::refused(why.to_string()))
    })
}

async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let failed = |error: tokio::task::JoinError| Problem::refused(format!("the cache could not be read: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::cache::CacheRoute;

    #[test]
    fn the_ratio_of_late_is_that_since_the_first_sample() {
        let of_late = OfLate::default();
        let sample = |at_ms, counts| Sample { at_ms, routes: vec![("shop".into(), counts)] };
        of_late.0.lock().unwrap().extend([sample(0, [90, 100]), sample(STEP_MS, [95, 110])]);
        let route = |name: &str| CacheRoute { route: name.into(), hit: 95, stored: 25, ..CacheRoute::default() };
        let mut cache = Cache { routes: vec![route("shop"), route("new")], ..Cache::default() };
        of_late.add_to(&mut cache);
        assert_eq!(cache.routes[0].hit_ratio_of_late, Some(0.25));
        assert_eq!(cache.routes[1].hit_ratio_of_late, Some(95.0 / 120.0));
    }
}
