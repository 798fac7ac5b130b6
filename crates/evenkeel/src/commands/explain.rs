//! `evenkeel explain` and `evenkeel shadow`: reasons for the pick of a request, the pick for a described request, and
//! predictions for other algorithms. Prints text or JSON.

use super::client::Client;
use crate::arguments::{self, Explain};
use crate::failure::Failure;
use crate::output::print;
use evenkeel_view::picks::{Armed, Candidate, Explained, Pick, QuicFigures, WouldGo};
use evenkeel_view::served::InKernel;
use evenkeel_view::shadows::{PoolShadows, Shadow};
use evenkeel_view::words::{escaped, unix_ms};
use hyper::Method;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Interval at which the command checks for the next request.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Requests that are listed at most.
const LISTED: usize = 20;

/// Runs `evenkeel explain`.
pub fn explain(arguments: &Explain) -> Result<(), Failure> {
    let (client, json) = (Client::new(&arguments.place)?, arguments.json);
    if let (None, None, None, Some(listener)) = (&arguments.what, &arguments.url, &arguments.next, &arguments.listener)
    {
        return show(json, &client.get(&format!("/v1/listeners/{}/kernel", escaped(listener)))?, in_kernel);
    }
    match (&arguments.what, &arguments.url, &arguments.next) {
        (_, _, Some(pool)) => show(json, &next(&client, pool)?, explained),
        (Some(method), Some(url), None) => {
            let Explain { fields, listener, client: from, .. } = arguments;
            let from = from.map(|ip| ip.to_string());
            let body = json!({ "method": method, "url": url, "fields": fields, "listener": listener, "client": from });
            show(json, &client.ask(&Method::POST, "/v1/explain", Some(body.to_string()))?, would_go)
        }
        (Some(id), None, None) => show(json, &client.get(&format!("/v1/explanations/{}", escaped(id)))?, explained),
        (None, _, None) => {
            let all: Vec<Explained> = client.get(&format!("/v1/explanations?limit={LISTED}"))?;
            show(json, &all, |all| listed(all))
        }
    }
}

/// Runs `evenkeel shadow`.
pub fn shadow(arguments: &arguments::Shadow) -> Result<(), Failure> {
    let path = match &arguments.pool {
        Some(pool) => format!("/v1/shadows/{}", escaped(pool)),
        None => "/v1/shadows".to_string(),
    };
    let pools: Vec<PoolShadows> = Client::new(&arguments.place)?.get(&path)?;
    show(arguments.json, &pools, |pools| shadows(pools))
}

fn show<T: Serialize>(json: bool, value: &T, text: impl Fn(&T) -> String) -> Result<(), Failure> {
    let pretty = || serde_json::to_string_pretty(value).map(|text| text + "\n");
    match json {
        true => print(&pretty().map_err(|error| Failure::running(error.to_string()))?),
        false => print(&text(value)),
    }
}

/// Asks for the next request of a pool, and waits for it.
fn next(client: &Client, pool: &str) -> Result<Explained, Failure> {
    let path = format!("/v1/explanations?pool={}&limit=1000", escaped(pool));
    let kept = || -> Result<Vec<Explained>, Failure> {
        let all: Vec<Explained> = client.get(&path)?;
        Ok(all.into_iter().filter(|one| one.asked == "next").collect())
    };
    let before: Vec<String> = kept()?.into_iter().map(|one| one.request_id).collect();
    let _: Armed = client.ask(&Method::POST, &format!("/v1/explanations/next/{}", escaped(pool)), None)?;
    loop {
        if let Some(new) = kept()?.into_iter().find(|one| !before.contains(&one.request_id)) {
            return Ok(new);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn or_dash(name: Option<&Arc<str>>) -> &str {
    name.map_or("-", |name| name)
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn asked(one: &Explained) -> String {
    format!("{} {}{}", one.method, one.host, one.path)
}

// Writing to a String cannot fail.
macro_rules! line {
    ($out:ident, $($arg:tt)*) => {{ let _ = writeln!($out, $($arg)*); }};
}

fn in_kernel(shown: &InKernel) -> String {
    let InKernel { listener, plane, pool, connections, lines } = shown;
    let mut out = String::new();
    line!(out, "listener {listener} ({plane}) -> pool {pool}: {connections} connections open");
    lines.iter().for_each(|text| line!(out, "  {text}"));
    out
}

fn listed(all: &[Explained]) -> String {
    let mut out = String::new();
    for one in all {
        let endpoint = or_dash(one.tries.last().and_then(|last| last.endpoint.as_ref()));
        line!(out, "{}  {}  {} -> {endpoint}  {}", one.request_id, one.status, one.pool, asked(one));
    }
    if out.is_empty() {
        out.push_str(
            "no explanation is kept: set telemetry.explain.sample, or wait for a request: evenkeel explain --next POOL\n",
        );
    }
    out
}

fn explained(one: &Explained) -> String {
    let mut out = String::new();
    line!(out, "request {}  {}  status {}", one.request_id, asked(one), one.status);
    let Explained { listener, protocol, route, pool, worker, end, phase, .. } = one;
    line!(
        out,
        "{protocol} at listener {listener} -> route {route} -> pool {pool}; worker {worker}; {} in all, {} of it in the queue; end: {end} in {phase}",
        ms(one.total_ns),
        ms(one.queue_ns)
    );
    if let Some(QuicFigures { handshake_ns, migrations, packets_lost }) = one.quic {
        let handshake = ms(handshake_ns);
        line!(out, "connection: handshake {handshake}, migrations {migrations}, packets lost {packets_lost}");
    }
    if let Some(trace) = &one.trace_id {
        line!(out, "trace {trace}");
    }
    for step in &one.filters {
        line!(out, "filter {}: {}", step.name, step.did);
    }
    for (i, one) in one.tries.iter().enumerate() {
        line!(out, "try {}: {} ({}, after {})", i + 1, or_dash(one.endpoint.as_ref()), one.how, ms(one.at_ns));
        one.pick.iter().for_each(|made| pick(made, &mut out));
        if let Some(failed) = &one.failed {
            line!(out, "  failed: {failed}");
        }
    }
    out
}

/// Since then, in whole seconds.
fn ago(ms: u64) -> String {
    format!("{} s", unix_ms(SystemTime::now()).saturating_sub(ms) / 1000)
}

fn pick(pick: &Pick, out: &mut String) {
    match &pick.refused {
        Some(why) => line!(out, "  none: {why}"),
        None => line!(out, "  rule: {}", pick.rule),
    }
    line!(out, "  decided by: {}; {} in flight in the pool", pick.decides, pick.in_flight);
    if let Some(key) = &pick.key {
        line!(out, "  key: {key}");
    }
    if pick.level > 0 {
        line!(out, "  from overflow {}: all before it were tried or full", pick.level);
    }
    if pick.in_panic {
        line!(out, "  in panic: too few endpoints are healthy, so health is ignored");
    }
    if pick.explored_share > 0.0 {
        line!(out, "  explore: of all requests, a share of {} gets a random endpoint", pick.explored_share);
    }
    for one in &pick.candidates {
        let mark = if pick.picked.as_ref() == Some(&one.endpoint) { "*" } else { " " };
        line!(out, "  {mark} {}: {}", one.endpoint, compared(one));
    }
    if pick.unlisted > 0 {
        line!(out, "    and {} behind them", pick.unlisted);
    }
    for one in &pick.excluded {
        let since = one.since_ms.map(|since| format!(", as it is since {} ago", ago(since)));
        line!(out, "  - {}: {}{}", one.endpoint, one.reason, since.unwrap_or_default());
    }
    if pick.excluded_more > 0 {
        line!(out, "  - and {} more", pick.excluded_more);
    }
}

fn compared(one: &Candidate) -> String {
    let mut what = format!("{} in flight, weight {}", one.in_flight, one.weight);
    let mut add = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(what, ", {label} {value}");
        }
    };
    let number = |x: f64| json!(x).to_string();
    let counted = one.counted.as_ref().map(|counted| format!(" ({counted})")).unwrap_or_default();
    add("counted as", one.load.map(|load| number(load) + &counted));
    add("score", one.score.map(number));
    add("place", one.place.map(|place| place.to_string()));
    add("ahead by", Some(number(one.ahead)));
    add("tier", one.tier.map(|tier| tier.to_string()));
    add("zone", one.zone.as_deref().map(str::to_owned));
    add("answered", one.latency_ns.map(ms));
    what
}

fn would_go(would: &WouldGo) -> String {
    let (mut out, routed) = (String::new(), &would.routed);
    match &routed.route {
        Some(route) => {
            line!(out, "listener {} -> route {route} -> {}", routed.listener, routed.outcome())
        }
        None if routed.refused.is_some() => line!(out, "listener {} -> {}", routed.listener, routed.outcome()),
        None if would.answer.is_some() => line!(out, "listener {}: no route matches", routed.listener),
        None => line!(out, "listener {}: no route matches, so the response is a 404", routed.listener),
    }
    if let Some(normal) = &routed.normal {
        line!(out, "matched and forwarded as {normal}");
    }
    for reading in &routed.readings {
        line!(out, "  read as {} -> {}", reading.path, or_dash(reading.route.as_ref()));
    }
    for route in &routed.routes {
        line!(out, "  {} {}: {}", if route.taken { "*" } else { " " }, route.route, route.why);
    }
    for one in &would.maps {
        let value = if one.value.is_empty() { "no value" } else { &*one.value };
        line!(out, "map {}: {value}", one.map);
    }
    for one in &would.filters {
        line!(out, "filter {}: {}", one.name, one.would);
    }
    if let Some(answer) = &would.answer {
        line!(out, "filter {} {answer}; no endpoint is picked", answer.filter);
    }
    if let Some(made) = &would.pick {
        let worker = would.worker.unwrap_or_default();
        line!(out, "now, worker {worker} would pick {}", or_dash(made.picked.as_ref()));
        pick(made, &mut out);
    }
    out
}

fn shadows(pools: &[PoolShadows]) -> String {
    let mut out = String::new();
    for of in pools {
        if let Some(nothing) = &of.nothing {
            line!(out, "pool {}, balanced by {}: nothing to predict from: {nothing}", of.pool, of.balance);
            continue;
        }
        let span = of.span_ns as f64 / 1e9;
        line!(
            out,
            "pool {}, balanced by {}, by its latest {} requests in {span:.1} s",
            of.pool,
            of.balance,
            of.requests
        );
        of.shadows.iter().for_each(|one| shadow_of(of, one, &mut out));
    }
    if out.is_empty() {
        out.push_str("no pool has shadows: set the key `shadow` of a pool, such as shadow = [\"leastconn\"]\n");
    }
    out
}

fn shadow_of(of: &PoolShadows, shadow: &Shadow, out: &mut String) {
    let part = |part: f64| format!("{:.1} %", 100.0 * part);
    let known = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or_else(|| "unknown".to_string(), show);
    let how = match shadow.exact {
        _ if shadow.algorithm == of.balance => "measured: the algorithm of the pool",
        true => "exact: its picks do not depend on other requests",
        false => "simulated",
    };
    line!(out, "  {} ({how})", shadow.algorithm);
    for one in &shadow.endpoints {
        line!(
            out,
            "    {:<24} {:>8} now {:>8} predicted {:>8} by weight",
            one.endpoint,
            part(one.real),
            known(one.shadow, &part),
            part(one.fair)
        );
    }
    let number = |x: f64| format!("{x:.2}");
    let time = |ns: f64| ms(ns as u64);
    line!(
        out,
        "    in flight at the endpoint before a pick: {} now, {} predicted",
        known(of.met, &number),
        known(shadow.met, &number)
    );
    line!(out, "    p99 to the first byte: {} now, {} predicted", known(of.p99_ns, &time), known(shadow.p99_ns, &time));
    shadow.withheld.iter().for_each(|why| line!(out, "    unknown: {why}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::picks::FilterStep;

    #[test]
    fn figures_of_a_connection_are_shown_over_http3_alone() {
        let mut one = Explained { protocol: "HTTP/2".into(), listener: "web".into(), ..Explained::default() };
        assert!(explained(&one).contains("\nHTTP/2 at listener web -> ") && json!(one).get("quic").is_none());
        one.quic = Some(QuicFigures { handshake_ns: 1_500_000, migrations: 2, packets_lost: 3 });
        assert!(
            explained(&one).contains("\nconnection: handshake 1.500 ms, migrations 2, packets lost 3\n"),
            "{}",
            explained(&one)
        );
    }

    #[test]
    fn filters_are_shown_where_one_did_something_and_nowhere_else() {
        let mut one = Explained::default();
        assert!(!explained(&one).contains("filter") && json!(one).get("filters").is_none());
        one.filters.push(FilterStep { name: "hsts".into(), did: "added strict-transport-security".into() });
        assert!(explained(&one).contains("\nfilter hsts: added strict-transport-security\n"), "{}", explained(&one));
        assert_eq!(json!(one)["filters"], json!([{ "name": "hsts", "did": "added strict-transport-security" }]));
    }
}
