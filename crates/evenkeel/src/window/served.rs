//! What is served, and by what? Routes, certificates and zones of the plan that runs, with what came of them.

use super::shown::Shown;
use evenkeel_admin::api::types::served::{Answered, Certificate, Passed, Record, Route, Zone};
use evenkeel_config::plan::{self, Listener, Mode};
use evenkeel_proxy::Numbers;
use std::sync::Arc;

/// The routes of the plan.
pub fn routes(now: &Numbers, shown: &Shown) -> Vec<Route> {
    let belongs = |listener: &Listener, route: &plan::Route| match route.listeners.is_empty() {
        true => listener.mode == Mode::Http,
        false => route.listeners.contains(&listener.name),
    };
    let passed = |listener: &Arc<str>, route: &Arc<str>| {
        let (so_far, late, span) = shown.history.passed(listener, route);
        let a_second = |count: u64| count as f64 / span.as_secs_f64();
        Passed {
            listener: listener.to_string(),
            requests: so_far.requests,
            errors: so_far.errors,
            rate: a_second(late.requests),
            error_rate: a_second(late.errors),
        }
    };
    let one = |route: &plan::Route| Route {
        name: route.name.to_string(),
        hosts: route.hosts.iter().map(ToString::to_string).collect(),
        path: route.path.to_string(),
        pool: route.pool.to_string(),
        at: now
            .plan()
            .listeners
            .iter()
            .filter(|listener| belongs(listener, route))
            .map(|listener| passed(&listener.name, &route.name))
            .collect(),
    };
    now.plan().routes.iter().map(one).collect()
}

/// The certificates that clients are shown; the one that expires first is the first.
pub fn certificates(shown: &Shown) -> Vec<Certificate> {
    let ms = |seconds: i64| u64::try_from(seconds).unwrap_or_default() * 1000;
    let expiries = shown.certificates.get().map(|certificates| certificates.expiries()).unwrap_or_default();
    let one = |((listener, name), not_after): ((Arc<str>, String), i64)| Certificate {
        listener: listener.to_string(),
        not_after_ms: ms(not_after),
        renewed_ms: shown.issued.get().and_then(|issued| issued.due(&name)).map(ms),
        name,
    };
    let mut all: Vec<Certificate> = expiries.into_iter().map(one).collect();
    all.sort_by_key(|certificate| certificate.not_after_ms);
    all
}

/// The zones of the plan.
pub fn zones(now: &Numbers, shown: &Shown) -> Vec<Zone> {
    let numbers = shown.answers.get().map(|numbers| numbers.borrow().clone());
    let one = |listener: &Arc<Listener>| {
        let zone = listener.zone.as_ref()?;
        let (queries, responses) = numbers.as_ref().map(|numbers| numbers.totals(&listener.name)).unwrap_or_default();
        let answered = |(code, responses): (&str, u64)| Answered { code: code.to_owned(), responses };
        let record = |record: &plan::Record| Record { name: record.name.to_string(), pool: record.pool.to_string() };
        Some(Zone {
            listener: listener.name.to_string(),
            name: zone.name.to_string(),
            queries,
            responses: responses.into_iter().filter(|(_, count)| *count > 0).map(answered).collect(),
            records: zone.records.iter().map(record).collect(),
        })
    };
    now.plan().listeners.iter().filter_map(one).collect()
}
