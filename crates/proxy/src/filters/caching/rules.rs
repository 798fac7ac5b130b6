//! Rules of the cache of a route, from its configuration.

use crate::filters::row::Build;
use evenkeel_cache::policy::{Access, Heuristic, Policy, SetCookie};
use evenkeel_config::plan::{self, CookieRule};
use std::time::Duration;

/// Guessed lifetimes are a tenth of the age of the content (RFC 9111 section 4.2.2), and at most a day.
const HEURISTIC: Heuristic = Heuristic { percent: 10, max: 86_400 };

/// Largest head that is stored, in bytes.
const HEAD_MAX: u32 = 32 << 10;

/// Rules for the responses of a route.
pub fn policy(plan: &plan::Cache, from: &Build<'_>, route: &plan::Route, object_max: u64) -> Policy {
    let is_guarded = route.filters.basic_auth.is_some()
        || route.filters.jwt.is_some()
        || route.filters.forward_auth.is_some()
        || from.listener.tls.as_ref().is_some_and(|tls| tls.client_auth.is_some());
    Policy {
        lifetime_min: seconds(plan.min_ttl),
        lifetime_max: seconds(plan.max_ttl),
        lifetime_by_status: plan
            .ttl
            .by_precedence()
            .into_iter()
            .map(|(statuses, time)| (statuses, seconds(time)))
            .collect(),
        heuristic: plan.heuristics.then_some(HEURISTIC),
        stale_while_revalidate: seconds(plan.stale_while_revalidate),
        stale_if_error: seconds(plan.stale_if_error),
        set_cookie: match plan.set_cookie {
            CookieRule::Refuse => SetCookie::Refuse,
            CookieRule::Strip => SetCookie::Strip,
            CookieRule::Store => SetCookie::Store,
        },
        stores_errors: plan.store_errors,
        request_directives: plan.client_directives,
        access: match (plan.by_user, is_guarded) {
            (true, _) => Access::PerUser,
            (false, true) => Access::Guarded,
            (false, false) => Access::Open,
        },
        sends_tags: plan.pass_tags,
        body_max: object_max,
        head_max: HEAD_MAX,
        ..Policy::default()
    }
}

/// Whole seconds, at most `u32::MAX`.
fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}
