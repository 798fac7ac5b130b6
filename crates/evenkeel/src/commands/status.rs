//! `evenkeel status`, the state of the pools as a table for people or as the JSON of the API; and `evenkeel ready`.

use crate::arguments::{Ready, Status as Arguments};
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::{print, print_as_it_is, table};
use evenkeel_view::words::{ago, escaped, milliseconds, weight};
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
            (true, None) => client.text(&Method::GET, "/v1/status", None)? + "\n",
            (true, Some(pool)) => client.text(&Method::GET, &format!("/v1/pools/{}", escaped(pool)), None)? + "\n",
            (false, pool) => {
                let mut status: Status = client.get("/v1/status")?;
                if let Some(name) = pool {
                    // Requested by itself: the error then lists the pools, if there is none of this name.
                    status.pools = vec![client.get::<Pool>(&format!("/v1/pools/{}", escaped(name)))?];
                }
                text(&status)
            }
        };
        if !arguments.watch {
            return print(&text);
        }
        // Clears the screen from the top on.
        print_as_it_is("\x1b[H\x1b[2J")?;
        print(&text)?;
        std::thread::sleep(EVERY);
    }
}

/// Runs `evenkeel ready`.
pub fn ready(arguments: &Ready) -> Result<(), Failure> {
    let status: Status = Client::new(&arguments.place)?.get("/v1/status")?;
    if status.ready { print("ready\n") } else { Err(Failure::running(not_ready(&status))) }
}

fn not_ready(status: &Status) -> String {
    format!("not ready: {}", status.reasons.join(", "))
}

fn text(status: &Status) -> String {
    let Status { version, pid, started_ms, now_ms, config, .. } = status;
    let ready = if status.ready { "ready".to_owned() } else { not_ready(status) };
    let up = ago(now_ms.saturating_sub(*started_ms));
    let mut text = format!("evenkeel {version}, process {pid}, up {up}, generation {}, {ready}\n", config.generation);
    if config.differs {
        let file = config.file.as_deref().unwrap_or("what it was started with");
        let since = ago(now_ms.saturating_sub(config.since_ms));
        let _ = writeln!(text, "the configuration differs from {file}: {} by {}, {since} ago", config.how, config.by);
    }
    for listener in &status.listeners {
        let addresses = listener.addresses.join(" ");
        let (name, mode, open) = (&listener.name, &listener.mode, listener.connections);
        let _ = writeln!(text, "listener {name} ({mode}) on {addresses}: {open} connections open");
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
        let waiting = if pool.waiting > 0 { format!(", {} requests wait", pool.waiting) } else { String::new() };
        let _ = writeln!(text, "\npool {} ({}){panic}{waiting}", pool.name, pool.algorithm);
        let rows: Vec<Vec<String>> = pool.endpoints.iter().map(|endpoint| row(endpoint, *now_ms)).collect();
        let header =
            ["ENDPOINT", "STATE", "SINCE", "WEIGHT", "IN FLIGHT", "SHARE", "FAIR", "P50", "P99", "FAILED", "WHY"];
        text += &table(&header, &rows);
    }
    text
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
}
