//! Hit ratios of routes over the last five minutes.

#![expect(clippy::disallowed_types, reason = "taken once a second, and when operators look")]

use evenkeel_balance::Instant;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_view::cache::CacheRoute;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Time for which counts are kept, and between two of them.
const KEPT_NS: u64 = 300 * SECOND_NS;
const STEP_NS: u64 = 10 * SECOND_NS;

/// Name of a route, with its requests that a stored response answered, and all its requests for a stored response.
pub type Asked = (Arc<str>, [u64; 2]);

/// Counts of the requests of routes with a cache over the last five minutes.
#[derive(Debug, Default)]
pub struct OfLate(Mutex<VecDeque<(Instant, Vec<Asked>)>>);

impl OfLate {
    /// Notes the counts when they are due. To be called every second.
    pub fn count(&self, asked: impl FnOnce() -> Vec<Asked>, now: Instant) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_some_and(|(last, _)| now.since(*last) < STEP_NS) {
            return;
        }
        samples.push_back((now, asked()));
        while samples.front().is_some_and(|(first, _)| now.since(*first) > KEPT_NS) {
            samples.pop_front();
        }
    }

    /// Returns the hit ratio of a route over that time; `None` without requests.
    pub fn hit_ratio(&self, route: &CacheRoute) -> Option<f64> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = samples.front().and_then(|(_, routes)| routes.iter().find(|(name, _)| **name == *route.route));
        // A route that is newer than the first sample counts from zero.
        let [hits, asked] = first.map(|(_, counts)| *counts).unwrap_or_default();
        let (hits, asked) = ((route.hit + route.stale).saturating_sub(hits), route.asked().saturating_sub(asked));
        (asked > 0).then(|| hits as f64 / asked as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_late_is_that_since_the_first_sample() {
        let of_late = OfLate::default();
        of_late.count(|| vec![("shop".into(), [90, 100])], Instant(0));
        of_late.count(|| vec![("shop".into(), [95, 110])], Instant(STEP_NS));
        let route = |name: &str| CacheRoute { route: name.into(), hit: 95, stored: 25, ..CacheRoute::default() };
        assert_eq!(of_late.hit_ratio(&route("shop")), Some(0.25));
        assert_eq!(of_late.hit_ratio(&route("new")), Some(95.0 / 120.0));
        of_late.count(|| vec![("shop".into(), [95, 120])], Instant(KEPT_NS + 1));
        assert_eq!(of_late.hit_ratio(&route("shop")), Some(0.0), "the first sample is too old");
    }
}
