//! `envoy.filters.http.local_ratelimit`: limits that the routes of a filter chain share.

use super::behind::{Behind, close};
use super::per_route::{Settings, settings};
use crate::durations::milliseconds;
use crate::ledger::Ledger;
use crate::report::OPEN;
use crate::tree::Node;
use evenkeel_config::plan::{LIMITS_MAX, Limit, LimitKey, Most, RequestRate};
use std::sync::Arc;
use std::time::Duration;

/// Limits by name, as `[limit.NAME]`.
pub(super) type Shared = Vec<(Arc<str>, Limit)>;

/// Largest number of requests in a rate and a burst.
const MOST: u64 = 1_000_000;

/// Units of rates, in seconds.
const UNITS: [u64; 3] = [1, 60, 3600];

/// Reason for the difference between a bucket that is filled at intervals and a rate.
const STEADY: &str = "a steady rate with a burst of max_tokens, where Envoy adds tokens at each interval; requests \
    without a route are not counted, and a refusal has Retry-After and RateLimit fields";

/// Adds the limits of a filter to the routes. `name`: beginning of the names of limits.
pub(super) fn read(
    filter: &Node,
    manager: &Node,
    name: &str,
    routes: &mut [Behind<'_>],
    shared: &mut Shared,
    ledger: &mut Ledger,
) {
    let of = filter.get("name").and_then(Node::text).unwrap_or_default();
    let is_off = filter.get("disabled").and_then(Node::text) == Some("true");
    let mut known: Vec<(&Node, Option<Arc<str>>)> = Vec::new();
    for route in routes {
        let table = match settings(manager, &route.host, Some(&route.label), of) {
            Settings::Same => filter.get("typed_config").filter(|_| !is_off),
            Settings::Other(table) => Some(table),
            Settings::Off(line) => {
                ledger.carried(line);
                continue;
            }
        };
        let Some(table) = table else { continue };
        let limit = match known.iter().find(|(other, _)| std::ptr::eq(*other, table)) {
            Some((_, limit)) => Ok(limit.clone()),
            None => bucket(table, ledger).map(|limit| {
                let limit = limit.map(|limit| add(limit, name, shared));
                known.push((table, limit.clone()));
                limit
            }),
        };
        match limit {
            Ok(None) => {}
            Ok(Some(limit)) if route.filters.limits.len() < LIMITS_MAX => {
                let of_name = shared.iter().find(|(other, _)| *other == limit).map(|(_, limit)| limit.clone());
                route.filters.limits.extend(of_name.map(|own| Limit { shared: Some(limit), ..own }));
            }
            Ok(Some(_)) => {
                ledger.decide(filter.line, "a route has eight limits: all its requests are refused", OPEN);
                close(route.filters);
            }
            Err(reason) => {
                ledger.decide(table.line, format!("{reason}: all requests are refused"), OPEN);
                close(route.filters);
            }
        }
        table.carried(ledger);
    }
    filter.carried(ledger);
}

/// Adds a limit under a name of its own.
fn add(limit: Limit, base: &str, shared: &mut Shared) -> Arc<str> {
    let base = crate::model::name_of(base);
    let taken = |name: &str| shared.iter().any(|(other, _)| **other == *name);
    let name = (2..).map(|n| format!("{base}-{n}"));
    let name = std::iter::once(base.clone()).chain(name).find(|name| !taken(name)).unwrap_or(base);
    let name: Arc<str> = name.into();
    shared.push((name.clone(), limit));
    name
}

/// Reads the bucket of a table; `None` if no request is refused.
///
/// # Errors
/// The reason why the bucket has no counterpart.
fn bucket(table: &Node, ledger: &mut Ledger) -> Result<Option<Limit>, String> {
    let shares = ["filter_enabled", "filter_enforced"].map(|key| share(table, key));
    if shares.contains(&0.0) {
        table.dropped("Envoy refuses no request, as filter_enabled and filter_enforced are not both above 0", ledger);
        return Ok(None);
    }
    let number = |path: &str| table.at(path).and_then(Node::text).and_then(|text| text.parse::<u64>().ok());
    if table.get("descriptors").is_some() {
        return Err("limits by descriptor have no counterpart".into());
    }
    let interval = table.at("token_bucket.fill_interval").and_then(Node::text).and_then(milliseconds);
    let (Some(burst), Some(interval)) = (number("token_bucket.max_tokens"), interval.filter(|ms| *ms > 0)) else {
        return Err("its token_bucket was not understood".into());
    };
    let tokens = number("token_bucket.tokens_per_fill").unwrap_or(1);
    let rate = rate(tokens, interval).ok_or("its rate is below 1 in an hour or above 1,000,000 in a second")?;
    if shares.iter().any(|share| *share < 1.0) {
        ledger.changes(table.line, "all requests are limited, and not a share of them", "limits of the [[route]]");
    }
    let per_connection = table.get("local_rate_limit_per_downstream_connection").and_then(Node::text) == Some("true");
    let key = match per_connection {
        true => {
            let reason = "the limit is for each client, where Envoy has it for each of its connections";
            ledger.changes(table.line, reason, "limits of the [[route]]");
            LimitKey::Client { v4: 32, v6: 64 }
        }
        false => LimitKey::Route,
    };
    if table.at("status.code").and_then(Node::text).is_some_and(|code| !matches!(code, "429" | "TooManyRequests")) {
        ledger.changes(table.line, "a refusal has the status 429", "error_pages = [{ status = [429], ... }]");
    }
    ledger.changes(table.line, STEADY, "requests and burst of the [limit.NAME]");
    let burst = u32::try_from(burst.clamp(1, MOST)).unwrap_or(1);
    Ok(Some(Limit { most: Most::Requests { rate, burst }, key, ..Limit::default() }))
}

/// Share of the requests that a key concerns, none of them if it is not set.
fn share(table: &Node, key: &str) -> f64 {
    let text = |name: &str| table.at(&format!("{key}.default_value.{name}")).and_then(Node::text);
    let number = text("numerator").and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let of = match text("denominator") {
        Some("TEN_THOUSAND" | "1") => 10_000.0,
        Some("MILLION" | "2") => 1_000_000.0,
        _ => 100.0,
    };
    (number / of).min(1.0)
}

/// Rate of some tokens in a number of milliseconds, in the smallest unit in which it is a whole number, or rounded down.
fn rate(tokens: u64, interval: u64) -> Option<RequestRate> {
    let of = |unit: u64| {
        let all = u128::from(tokens) * u128::from(unit) * 1000;
        (u64::try_from(all / u128::from(interval)).ok(), all % u128::from(interval) == 0)
    };
    let fits = |number: Option<u64>| number.filter(|number| (1..=MOST).contains(number));
    let exact = UNITS.iter().find_map(|unit| fits(of(*unit).0).filter(|_| of(*unit).1).map(|number| (number, *unit)));
    let found = exact.or_else(|| UNITS.iter().rev().find_map(|unit| fits(of(*unit).0).map(|number| (number, *unit))));
    let (number, unit) = found?;
    Some(RequestRate { requests: u32::try_from(number).ok()?, per: Duration::from_secs(unit) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_numbers_or_smaller() {
        for (tokens, interval, text) in [
            (10, 1000, "10/s"),
            (1, 6000, "10/m"),
            (1, 50, "20/s"),
            (1, 7000, "514/h"),
            (5_000_000, 1000, ""),
            (1, 7_200_000, ""),
        ] {
            let text_of = rate(tokens, interval).map_or(String::new(), |rate| rate.to_string());
            assert_eq!(text_of, text, "{tokens} {interval}");
        }
    }
}
