//! Page of an endpoint: its figures, the last quarter of an hour, the spread of its latencies, and its events.

use super::overview::list;
use super::page::{Asked, Content, Page};
use super::plots::{self, Plot, Range, counts, per_second};
use super::pools::{buttons, checked};
use super::shown::{milliseconds, or_dash, order, page_of, percent, percentile, since, state, weight};
use crate::api::problem::Problem;
use evenkeel_draw::axis::Axis;
use evenkeel_view::history::History;
use evenkeel_view::words::{Traffic, ago, bytes, escaped, grouped};
use evenkeel_view::{Endpoint, Event, LoadReport, Pool};
use maud::{Markup, html};

pub static PAGE: Page = Page { path: "/ui/pools/{pool}/{endpoint}", name: "Endpoint", content, is_live: true };

fn content(asked: Asked) -> Content {
    Box::pin(async move { page(&asked) })
}

fn page(asked: &Asked) -> Result<Markup, Problem> {
    let status = asked.process.status();
    let (pool, name) = (asked.named("pool"), asked.named("endpoint"));
    let of_pool = |known: &&Pool| known.name == pool;
    let found = status.pools.iter().find(of_pool);
    let found = found.and_then(|pool| Some((pool, pool.endpoints.iter().find(|endpoint| endpoint.name == name)?)));
    let none = || Problem::not_found(format!("no pool \"{pool}\" has an endpoint \"{name}\" now"));
    let (pool, endpoint) = found.ok_or_else(none)?;
    let history = asked.process.history(Some((&pool.name, Some(name)))).unwrap_or_default();
    let (range, path) = (Range::of(asked), page_of(&pool.name, name));
    let all = asked.process.events(0);
    let its: Vec<Event> = all
        .into_iter()
        .filter(|event| event.pool.as_deref() == Some(&pool.name) && event.endpoint.as_deref() == Some(name))
        .collect();
    Ok(html! {
        h1 { a href={ "/ui/pools#" (escaped(&pool.name)) } { (pool.name) } " / " (endpoint.name) }
        p { (state(endpoint)) " since " (since(endpoint.since_ms)) " (" (ago(status.now_ms.saturating_sub(endpoint.since_ms))) ")"
            @if let Some(reason) = &endpoint.reason { ": " span.why { (reason) } } }
        @if asked.caller.may_change { div.buttons { (buttons(pool, endpoint)) (weigh(pool, endpoint)) } }
        (facts(pool, endpoint, status.now_ms))
        h2 { "Over time" }
        (range.choice(&path))
        (plotted(Traffic::of_pool(pool), &range.within(&history), &its))
        h2 { "Checks, ejections and orders" }
        (list(its.iter().rev(), status.now_ms))
    })
}

fn plotted(traffic: &Traffic, shown: &History, events: &[Event]) -> Markup {
    let first = shown.spans.first().map_or(u64::MAX, |span| span.until_ms);
    let marked: Vec<Event> = events.iter().filter(|event| event.at_ms >= first).cloned().collect();
    html! {
        div.tiles {
            (Plot { title: traffic.tries_title, axis: per_second(), lines: &[(traffic.tries, plots::rate), ("failed", plots::errors)] }.draw(shown, &marked))
            (Plot { title: traffic.open, axis: counts(), lines: &[("in flight", plots::in_flight)] }.draw(shown, &marked))
            (Plot { title: traffic.latency, axis: Axis::Seconds { log: true },
                lines: &[("p50", plots::p50), ("p95", plots::p95), ("p99", plots::p99)] }.draw(shown, &marked))
            @if shown.spreads.iter().any(|spread| !spread.is_empty()) { (plots::spread(shown)) }
        }
    }
}

fn facts(pool: &Pool, endpoint: &Endpoint, now_ms: u64) -> Markup {
    let traffic = Traffic::of_pool(pool);
    html! {
        dl.facts {
            dt { "Address" } dd { (endpoint.address.as_deref().unwrap_or("not resolved")) }
            dt { "Weight" } dd { (weight(endpoint)) }
            dt { "Tier" } dd { (endpoint.priority) @if let Some(zone) = &endpoint.zone { ", zone " (zone) } }
            dt { "Share" } dd { (or_dash(endpoint.share, percent)) ", " (percent(endpoint.fair_share)) " is fair" }
            dt { "In flight" } dd { (endpoint.in_flight) }
            dt { "Latency" } dd { @match &endpoint.latency {
                Some(latency) => { "p50 " (percentile(latency.p50_ms)) ", p99 " (percentile(latency.p99_ms)) ", of " (grouped(latency.responses)) " " (traffic.measured) }
                None => { "no " (traffic.measured) " in the last minute" }
            } }
            @if let Some(report) = &endpoint.report { dt { "Reports" } dd { (reported(report)) } }
            dt { "Failed" } dd { span.bad[endpoint.failed > 0] { (grouped(endpoint.failed)) } " of " (grouped(endpoint.requests)) " " (traffic.tries) }
            @if endpoint.bytes_in + endpoint.bytes_out > 0 {
                dt { "Bytes" } dd { (bytes(endpoint.bytes_in)) " sent to it, " (bytes(endpoint.bytes_out)) " received" }
            }
            dt { "Check" } dd { @match &endpoint.check { Some(check) => { (checked(check, now_ms)) @if let Some(why) = &check.failure { ": " (why) } } None => { "none" } } }
            @if let Some(given) = &endpoint.order { dt { "Operators" } dd { (order(given, None, now_ms)) } }
        }
    }
}

/// Load that the endpoint reports.
fn reported(report: &LoadReport) -> Markup {
    html! {
        (report.in_flight) " in flight from all balancers"
        @if let Some(ms) = report.latency_ms { ", " (milliseconds(ms)) " a request" }
        @if let Some(part) = report.utilization { ", " (percent(part)) " busy" }
        ", " (ago(report.age_ms)) " ago"
    }
}

/// Controls that force the health of an endpoint and set its weight.
fn weigh(pool: &Pool, endpoint: &Endpoint) -> Markup {
    let path = format!("/v1/pools/{}/endpoints/{}", escaped(&pool.name), escaped(&endpoint.name));
    let match_ = crate::api::endpoints::version(endpoint);
    html! {
        span.buttons {
            @for (label, body) in [("Force down", r#"{"health":"down"}"#), ("Force up", r#"{"health":"up"}"#)] {
                button type="button" data-method="PATCH" data-path=(path) data-match=(match_) data-body=(body)
                    data-asks={ (label.to_lowercase()) " " (endpoint.name) "?" } { (label) }
            }
            form.inline data-patch=(path) data-match=(match_) {
                label { "Weight " input type="number" name="weight" min="0" max="65535" value=(endpoint.weight.configured); }
                button { "Set" }
            }
        }
    }
}
