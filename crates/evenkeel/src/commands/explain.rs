//! Why did a request go there, where would one go, and what would other algorithms have done? Asked of a running evenkeel, for
//! people or as JSON.

use super::client::Client;
use super::status::escaped;
use crate::arguments::{Explain, Shadow};
use crate::failure::Failure;
use crate::output::print;
use hyper::Method;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often it is looked whether the next request has come.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How many are listed.
const LISTED: usize = 20;

/// Runs `evenkeel explain`.
pub fn explain(arguments: &Explain) -> Result<(), Failure> {
    let client = Client::new(&arguments.place)?;
    let show = |value: &Value, text: fn(&Value) -> String| show(arguments.json, value, text);
    match (&arguments.what, &arguments.url, &arguments.next) {
        (_, _, Some(pool)) => show(&next(&client, pool)?, explained),
        (Some(method), Some(url), None) => {
            let Explain { fields, listener, client: from, .. } = arguments;
            let from = from.map(|ip| ip.to_string());
            let body = json!({ "method": method, "url": url, "fields": fields, "listener": listener, "client": from });
            show(&client.ask(&Method::POST, "/v1/explain", Some(body.to_string()))?, would_go)
        }
        (Some(id), None, None) => show(&client.get(&format!("/v1/explanations/{}", escaped(id)))?, explained),
        (None, _, None) => show(&client.get(&format!("/v1/explanations?limit={LISTED}"))?, listed),
    }
}

/// Runs `evenkeel shadow`.
pub fn shadow(arguments: &Shadow) -> Result<(), Failure> {
    let path = match &arguments.pool {
        Some(pool) => format!("/v1/shadows/{}", escaped(pool)),
        None => "/v1/shadows".to_string(),
    };
    show(arguments.json, &Client::new(&arguments.place)?.get(&path)?, shadows)
}

fn show(json: bool, value: &Value, text: fn(&Value) -> String) -> Result<(), Failure> {
    print(&if json { format!("{value:#}\n") } else { text(value) })
}

/// Asks for the next request of a pool, and waits for it.
fn next(client: &Client, pool: &str) -> Result<Value, Failure> {
    let path = format!("/v1/explanations?pool={}&limit=1000", escaped(pool));
    let kept = || -> Result<Vec<Value>, Failure> {
        let all: Vec<Value> = client.get(&path)?;
        Ok(all.into_iter().filter(|one| one["asked"] == "next").collect())
    };
    let before: Vec<Value> = kept()?.into_iter().map(|one| one["request_id"].clone()).collect();
    let _: Value = client.ask(&Method::POST, &format!("/v1/explanations/next/{}", escaped(pool)), None)?;
    loop {
        if let Some(new) = kept()?.into_iter().find(|one| !before.contains(&one["request_id"])) {
            return Ok(new);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("-")
}

fn each<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn ms(value: &Value) -> String {
    format!("{:.3} ms", value.as_f64().unwrap_or_default() / 1e6)
}

fn asked(one: &Value) -> String {
    format!("{} {}{}", text(one, "method"), text(one, "host"), text(one, "path"))
}

// Writing to a String cannot fail.
macro_rules! line {
    ($out:ident, $($arg:tt)*) => {{ let _ = writeln!($out, $($arg)*); }};
}

fn listed(all: &Value) -> String {
    let mut out = String::new();
    for one in all.as_array().into_iter().flatten() {
        let last = one["tries"].as_array().and_then(|tries| tries.last());
        let endpoint = last.map_or("-", |last| text(last, "endpoint"));
        line!(
            out,
            "{}  {}  {} -> {endpoint}  {}",
            text(one, "request_id"),
            one["status"],
            text(one, "pool"),
            asked(one)
        );
    }
    if out.is_empty() {
        out.push_str(
            "none is kept: set telemetry.explain.sample, or ask for the next one: evenkeel explain --next POOL\n",
        );
    }
    out
}

fn explained(one: &Value) -> String {
    let mut out = String::new();
    line!(out, "request {}  {}  status {}", text(one, "request_id"), asked(one), one["status"]);
    line!(
        out,
        "listener {} -> route {} -> pool {}; worker {}; {} in all, {} of it in the queue; end: {} in {}",
        text(one, "listener"),
        text(one, "route"),
        text(one, "pool"),
        one["worker"],
        ms(&one["total_ns"]),
        ms(&one["queue_ns"]),
        text(one, "end"),
        text(one, "phase")
    );
    for (i, one) in each(one, "tries").enumerate() {
        line!(out, "try {}: {} ({}, after {})", i + 1, text(one, "endpoint"), text(one, "how"), ms(&one["at_ns"]));
        pick(&one["pick"], &mut out);
        if let Some(failed) = one["failed"].as_str() {
            line!(out, "  failed: {failed}");
        }
    }
    out
}

/// Since then, in whole seconds.
fn ago(ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    format!("{} s", now.saturating_sub(ms) / 1000)
}

fn pick(pick: &Value, out: &mut String) {
    if pick.is_null() {
        return;
    }
    match pick["refused"].as_str() {
        Some(why) => line!(out, "  none: {why}"),
        None => line!(out, "  rule: {}", text(pick, "rule")),
    }
    line!(out, "  decided by: {}; {} in flight in the pool", text(pick, "decides"), pick["in_flight"]);
    if let Some(key) = pick["key"].as_str() {
        line!(out, "  key: {key}");
    }
    if pick["level"].as_u64().unwrap_or_default() > 0 {
        line!(out, "  from overflow {}: all before it were tried or full", pick["level"]);
    }
    if pick["in_panic"] == true {
        line!(out, "  in panic: too few endpoints are healthy, so health is ignored");
    }
    let picked = text(pick, "picked");
    for c in each(pick, "candidates") {
        let name = text(c, "endpoint");
        let mut what = format!("{} in flight, weight {}", c["in_flight"], c["weight"]);
        let mut add = |label: &str, value: &Value| {
            if !value.is_null() {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
                let _ = write!(what, ", {label} {value}");
            }
        };
        add("counted as", &c["load"]);
        add("score", &c["score"]);
        add("place", &c["place"]);
        add("ahead by", &c["ahead"]);
        add("tier", &c["tier"]);
        add("zone", &c["zone"]);
        if !c["latency_ns"].is_null() {
            let _ = write!(what, ", answered {}", ms(&c["latency_ns"]));
        }
        line!(out, "  {} {name}: {what}", if name == picked { "*" } else { " " });
    }
    if pick["unlisted"].as_u64().unwrap_or_default() > 0 {
        line!(out, "    and {} behind them", pick["unlisted"]);
    }
    for e in each(pick, "excluded") {
        let since = e["since_ms"].as_u64().map(|since| format!(", as it is since {} ago", ago(since)));
        line!(out, "  - {}: {}{}", text(e, "endpoint"), text(e, "reason"), since.unwrap_or_default());
    }
    if pick["excluded_more"].as_u64().unwrap_or_default() > 0 {
        line!(out, "  - and {} more", pick["excluded_more"]);
    }
}

fn would_go(would: &Value) -> String {
    let (mut out, routed) = (String::new(), &would["routed"]);
    match routed["route"].as_str() {
        Some(route) => {
            line!(out, "listener {} -> route {route} -> pool {}", text(routed, "listener"), text(routed, "pool"))
        }
        None => line!(out, "listener {}: no route takes it, so it is answered with 404", text(routed, "listener")),
    }
    for route in each(routed, "routes") {
        let mark = if route["taken"] == true { "*" } else { " " };
        line!(out, "  {mark} {}: {}", text(route, "route"), text(route, "why"));
    }
    if !would["pick"].is_null() {
        line!(out, "now, worker {} would pick {}", would["worker"], text(&would["pick"], "picked"));
        pick(&would["pick"], &mut out);
    }
    out
}

fn shadows(pools: &Value) -> String {
    let mut out = String::new();
    for pool in pools.as_array().into_iter().flatten() {
        let part = |value: &Value| format!("{:.1} %", 100.0 * value.as_f64().unwrap_or_default());
        let number = |value: &Value| format!("{:.2}", value.as_f64().unwrap_or_default());
        line!(
            out,
            "pool {}, balanced by {}, {} of the picks compared",
            text(pool, "pool"),
            text(pool, "balance"),
            part(&pool["sample"])
        );
        for shadow in each(pool, "shadows") {
            if shadow["agreement"].is_null() {
                line!(out, "  {}: no pick was compared yet", text(shadow, "algorithm"));
                continue;
            }
            line!(
                out,
                "  {}: the same endpoint in {} of {} picks compared; none in {}",
                text(shadow, "algorithm"),
                part(&shadow["agreement"]),
                shadow["compared"],
                shadow["refused"]
            );
            let (met, peak) = (&shadow["met"], &shadow["peak"]);
            line!(
                out,
                "    in flight at the endpoint before the pick: {} now, {} predicted",
                number(&met["real"]),
                number(&met["shadow"])
            );
            line!(
                out,
                "    the most picks of an endpoint for its weight:  {} now, {} predicted (1 is even)",
                number(&peak["real"]),
                number(&peak["shadow"])
            );
            for e in each(shadow, "endpoints") {
                let share = &e["share"];
                line!(
                    out,
                    "    {:<24} {:>7} now {:>7} predicted {:>7} by weight",
                    text(e, "endpoint"),
                    part(&share["real"]),
                    part(&share["shadow"]),
                    part(&e["fair"])
                );
            }
            line!(out, "    it cannot know {}", text(shadow, "unknown"));
        }
    }
    if out.is_empty() {
        out.push_str("no pool has shadows: the key `shadow` of a pool names some, as shadow = [\"leastconn\"]\n");
    } else {
        out.push_str("what a shadow cannot tell, a simulation can: evenkeel sim --list\n");
    }
    out
}
