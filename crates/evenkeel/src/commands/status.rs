//! `evenkeel status`, the state of the pools as a table for people or as the JSON of the API; and `evenkeel ready`.

use crate::arguments::{Ready, Status as Arguments};
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::{has_reader, print, print_as_it_is, print_more, table};
use evenkeel_view::served::{Passed, Route};
use evenkeel_view::status::Provider;
use evenkeel_view::words::{self, Traffic, ago, escaped, milliseconds, weight};
use evenkeel_view::{Endpoint, LatencyOfLate, Pool, Status};
use hyper::Method;
use std::fmt::Write;
use std::time::Duration;

/// Time between two drawings of a table that is watched.
const EVERY: Duration = Duration::from_secs(1);

/// Runs `evenkeel status`.
pub fn status(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.place)?;
    loop {
        let text = match (arguments.json, &arguments.pool) {
            (true, _) if arguments.routes => client.text(&Method::GET, "/v1/routes", None)? + "\n",
            (false, _) if arguments.routes => routes(&client.get::<Vec<Route>>("/v1/routes")?),
            (true, None) => client.text(&Method::GET, "/v1/status", None)? + "\n",
            (true, Some(pool)) => client.text(&Method::GET, &format!("/v1/pools/{}", escaped(pool)), None)? + "\n",
            (false, pool) => {
                let mut status: Status = client.get("/v1/status")?;
                if let Some(name) = pool {
                    // A separate request: its error lists the pools if the name is unknown.
                    status.pools = vec![client.get::<Pool>(&format!("/v1/pools/{}", escaped(name)))?];
                }
                text(&status)
            }
        };
        if !arguments.watch {
            return print(&text);
        }
        // Clears the screen from the top on.
        if !print_as_it_is("\x1b[H\x1b[2J")? || !print_more(&text)? {
            return Ok(());
        }
        std::thread::sleep(EVERY);
    }
}

/// Interval of `evenkeel ready --follow`; [`PATIENCE`] limits each request.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `evenkeel ready`.
pub fn ready(arguments: &Ready) -> Result<(), Failure> {
    if arguments.follow {
        return follow_readiness(arguments);
    }
    let reasons = Client::new(&arguments.place)?.reasons_against(PATIENCE)?;
    if reasons.is_empty() { print("ready\n") } else { Err(Failure::running(not_ready(&reasons))) }
}

/// Prints whether evenkeel is ready, and then each change.
fn follow_readiness(arguments: &Ready) -> Result<(), Failure> {
    let mut last = String::new();
    loop {
        // A restarted process may have another socket.
        let reasons = Client::new(&arguments.place).and_then(|client| client.reasons_against(PATIENCE));
        let line = match reasons {
            Ok(reasons) if reasons.is_empty() => "ready".to_owned(),
            Ok(reasons) => not_ready(&reasons),
            Err(failure) => format!("not ready: {}", failure.problem().lines().next().unwrap_or_default()),
        };
        if line != last {
            print(&format!("{line}\n"))?;
            last = line;
        }
        // Changes may never arrive.
        if !has_reader() {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn not_ready(reasons: &[String]) -> String {
    format!("not ready: {}", reasons.join(", "))
}

fn text(status: &Status) -> String {
    let Status { version, pid, started_ms, now_ms, config, .. } = status;
    let ready = if status.ready { "ready".to_owned() } else { not_ready(&status.reasons) };
    let up = ago(now_ms.saturating_sub(*started_ms));
    let mut text = format!("evenkeel {version}, process {pid}, up {up}, generation {}, {ready}\n", config.generation);
    if config.differs {
        let file = config.file.as_deref().unwrap_or("what it was started with");
        let since = ago(now_ms.saturating_sub(config.since_ms));
        let _ = writeln!(text, "the configuration differs from {file}: {} by {}, {since} ago", config.how, config.by);
    }
    if let Some(state) = &status.cache_disk {
        let _ = writeln!(text, "disk of the cache {state}");
    }
    if let Some(memory) = &status.compression {
        let _ = writeln!(text, "memory for compression: {}", words::compression_memory(memory));
    }
    for map in &status.maps {
        let behind = if map.is_behind { ", older than its file, which is wrong: see the log" } else { "" };
        let (rows, unmatched) = (words::grouped(map.rows), words::grouped(map.unmatched));
        let _ = writeln!(text, "map {}: {rows} rows, {unmatched} lookups without a row{behind}", map.name);
    }
    for provider in &status.providers {
        text += &of_provider(provider, *now_ms);
    }
    for listener in &status.listeners {
        let addresses = listener.addresses.join(" ");
        let (name, kind, open) = (&listener.name, listener.kind(), listener.connections);
        let what = if listener.mode == "udp" { "flows" } else { "connections" };
        let _ = writeln!(text, "listener {name} ({kind}) on {addresses}: {open} {what} open");
        if let Some(http3) = &listener.http3 {
            let _ = writeln!(text, "  over HTTP/3: {}", words::http3(http3));
        }
    }
    for split in &status.splits {
        let order = split
            .order
            .as_ref()
            .map(|order| format!(" by {}, {} ago", order.by, ago(now_ms.saturating_sub(order.at_ms))));
        let _ = writeln!(text, "route {}: split {}{}", split.route, split.words(), order.unwrap_or_default());
    }
    for pool in &status.pools {
        let panic = if pool.in_panic { ", in panic: too few endpoints are healthy" } else { "" };
        let waiting = if pool.waiting > 0 {
            format!(", {} {} wait", pool.waiting, Traffic::of_pool(pool).many)
        } else {
            String::new()
        };
        let _ = writeln!(text, "\npool {} ({}){panic}{waiting}", pool.name, pool.algorithm);
        let rows: Vec<Vec<String>> = pool.endpoints.iter().map(|endpoint| row(endpoint, *now_ms)).collect();
        let header =
            ["ENDPOINT", "STATE", "SINCE", "WEIGHT", "IN FLIGHT", "SHARE", "FAIR", "P50", "P99", "FAILED", "WHY"];
        text += &table(&header, &rows);
    }
    text
}

/// Objects of a provider that are named in the text; the JSON has all.
const REFUSED_MAX: usize = 10;

fn of_provider(provider: &Provider, now_ms: u64) -> String {
    let Provider { name, listeners, routes, pools, changed_ms, fault, refused, warnings } = provider;
    let mut text = match changed_ms {
        Some(at) => {
            let since = ago(now_ms.saturating_sub(*at));
            let count = |n: &u32, what: &str| format!("{n} {what}{}", if *n == 1 { "" } else { "s" });
            let (listeners, routes) = (count(listeners, "listener"), count(routes, "route"));
            format!("provider {name}: {listeners}, {routes}, {}, changed {since} ago\n", count(pools, "pool"))
        }
        None => format!(
            "provider {name}: no response yet; after an upgrade, the plan of the previous process is served until then\n"
        ),
    };
    if let Some(fault) = fault {
        let _ = writeln!(text, "  current state unknown: {fault}");
    }
    let refused = refused.iter().map(|refused| format!("skipped: {refused}")).collect();
    for lines in [refused, warnings.clone()] {
        for line in lines.iter().take(REFUSED_MAX) {
            let _ = writeln!(text, "  {line}");
        }
        if lines.len() > REFUSED_MAX {
            let _ = writeln!(text, "  and {} more; --json lists all", lines.len() - REFUSED_MAX);
        }
    }
    text
}

/// Most characters of a match or an action in the table of routes.
const CELL_MAX: usize = 60;

/// Table of the routes. Long cells are cut; the JSON has them whole.
fn routes(routes: &[Route]) -> String {
    let cut = |text: String| match text.char_indices().nth(CELL_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    };
    let row = |route: &Route| {
        let sum = |of: fn(&Passed) -> f64| route.at.iter().map(of).sum::<f64>();
        let (rate, errors) = (sum(|at| at.rate), sum(|at| at.error_rate));
        let filters = if route.filters.is_empty() { "-".to_owned() } else { route.filters.join(",") };
        vec![
            route.name.clone(),
            cut(route.matching.words()),
            cut(route.action.words()),
            cut(filters),
            format!("{}/s", words::rate(rate)),
            if rate > 0.0 { words::percent(errors / rate, "") } else { "-".to_owned() },
            route.hit_ratio.map_or("-".to_owned(), |ratio| words::percent(ratio, "")),
        ]
    };
    let rows: Vec<Vec<String>> = routes.iter().map(row).collect();
    let header = ["ROUTE", "MATCH", "ACTION", "FILTERS", "RATE", "ERRORS", "HITS"];
    // The last column is for routes with a cache.
    let columns = if routes.iter().any(|route| route.hit_ratio.is_some()) { header.len() } else { header.len() - 1 };
    table(&header[..columns], &rows.into_iter().map(|row| row[..columns].to_vec()).collect::<Vec<_>>())
}

fn row(endpoint: &Endpoint, now_ms: u64) -> Vec<String> {
    let percent = |part: f64| format!("{:.0}%", part * 100.0);
    let ms = |of: fn(&LatencyOfLate) -> f64| {
        endpoint.latency.as_ref().map_or("-".to_owned(), |latency| milliseconds(of(latency)))
    };
    vec![
        endpoint.name.clone(),
        endpoint.state.clone(),
        ago(now_ms.saturating_sub(endpoint.since_ms)),
        weight(endpoint, " -> "),
        endpoint.in_flight.to_string(),
        endpoint.share.map_or("-".to_owned(), percent),
        percent(endpoint.fair_share),
        ms(|latency| latency.p50_ms),
        ms(|latency| latency.p99_ms),
        format!("{} of {}", endpoint.failed, endpoint.requests),
        endpoint.reason.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::Weights;
    use evenkeel_view::served::{Action, Matching, Redirect};

    #[test]
    fn an_endpoint_that_is_down_says_since_when_and_why() {
        let endpoint = Endpoint {
            name: "shop-2".into(),
            state: "down".into(),
            reason: Some("answered 500".into()),
            since_ms: 1000,
            weight: Weights { configured: 2, effective: 0.0 },
            failed: 3,
            requests: 7,
            latency: Some(LatencyOfLate { responses: 4, p50_ms: 1.234, p99_ms: 2345.6 }),
            ..Endpoint::default()
        };
        let row = row(&endpoint, 42_000);
        let want = ["shop-2", "down", "41s", "2 -> 0", "0", "-", "0%", "1.23ms", "2.3s", "3 of 7", "answered 500"];
        assert_eq!(row, want);
    }

    #[test]
    fn a_route_has_its_match_its_action_and_its_filters() {
        let redirect = Redirect { status: 301, to: format!("https://{{host}}/{}", "x".repeat(60)) };
        let matching = Matching { path: Some("prefix /api".into()), ..Matching::default() };
        let passed = |rate, error_rate| Passed { rate, error_rate, ..Passed::default() };
        let route = Route {
            name: "api".into(),
            action: Action::Redirect(redirect),
            matching,
            filters: vec!["limits".into(), "jwt".into()],
            at: vec![passed(6.0, 1.0), passed(2.0, 1.0)],
            ..Route::default()
        };
        let cached = Route { hit_ratio: Some(0.5), ..route.clone() };
        assert!(routes(&[route.clone(), cached]).contains("25%     50%\n"));
        let text = routes(&[route]);
        assert!(!text.contains("HITS"), "{text}");
        let line = text.lines().nth(1).expect("a row");
        for part in ["api", "prefix /api", "redirect 301 to https://{host}/", "...", "limits,jwt", "8.0/s", "25%"] {
            assert!(line.contains(part), "no {part} in {line}");
        }
    }
}
