//! How has one endpoint been? Its figures, how its latencies are spread, and what happened to it.

use super::overview::list;
use super::page::{Asked, Content, Page};
use super::plots::{self, Plot};
use super::pools::{buttons, checked};
use super::shown::{milliseconds, or_dash, order, percent, since, state, weight};
use crate::api::problem::Problem;
use evenkeel_draw::axis::Axis;
use evenkeel_view::words::{ago, escaped};
use evenkeel_view::{Endpoint, Event, LoadReport, Pool};
use maud::{Markup, html};

/// The page.
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
    let all = asked.process.events(0);
    let its: Vec<Event> = all
        .into_iter()
        .filter(|event| event.pool.as_deref() == Some(&pool.name) && event.endpoint.as_deref() == Some(name))
        .collect();
    let first = history.spans.first().map_or(u64::MAX, |span| span.until_ms);
    let marked: Vec<Event> = its.iter().filter(|event| event.at_ms >= first).cloned().collect();
    Ok(html! {
        h1 { a href={ "/ui/pools#" (escaped(&pool.name)) } { (pool.name) } " / " (endpoint.name) }
        p { (state(endpoint)) " since " (ago(status.now_ms.saturating_sub(endpoint.since_ms)))
            " (" (since(endpoint.since_ms)) ")" @if let Some(reason) = &endpoint.reason { ": " (reason) } }
        @if asked.caller.may_change { p { (buttons(pool, endpoint)) (weigh(pool, endpoint)) } }
        (facts(endpoint, status.now_ms))
        div.tiles {
            (Plot { title: "Tries a second", axis: Axis::Plain { name: String::new(), log: false },
                lines: &[("tries", plots::rate), ("failed", plots::errors)] }.draw(&history, &marked))
            (Plot { title: "In flight", axis: Axis::Plain { name: String::new(), log: false },
                lines: &[("requests under way", plots::in_flight)] }.draw(&history, &marked))
            (Plot { title: "Latency to the first byte", axis: Axis::Seconds { log: true },
                lines: &[("p50", plots::p50), ("p95", plots::p95), ("p99", plots::p99)] }.draw(&history, &marked))
        }
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { (plots::spread(&history)) }
        h2 { "Checks, ejections and orders" }
        (list(its.iter().rev(), status.now_ms))
    })
}

fn facts(endpoint: &Endpoint, now_ms: u64) -> Markup {
    html! {
        dl.facts {
            dt { "Address" } dd { (endpoint.address.as_deref().unwrap_or("not resolved")) }
            dt { "Weight" } dd { (weight(endpoint)) }
            dt { "Tier" } dd { (endpoint.priority) @if let Some(zone) = &endpoint.zone { ", zone " (zone) } }
            dt { "Share" } dd { (or_dash(endpoint.share, percent)) ", " (percent(endpoint.fair_share)) " is fair" }
            dt { "In flight" } dd { (endpoint.in_flight) }
            dt { "Latency" } dd { @match &endpoint.latency {
                Some(latency) => { "p50 " (milliseconds(latency.p50_ms)) ", p99 " (milliseconds(latency.p99_ms)) ", of " (latency.responses) " responses" }
                None => { "no responses of late" }
            } }
            @if let Some(said) = &endpoint.report { dt { "Reports" } dd { (reported(said)) } }
            dt { "Failed" } dd { (endpoint.failed) " of " (endpoint.requests) " tries" }
            dt { "Last check" } dd { @match &endpoint.check { Some(check) => { (checked(check, now_ms)) @if let Some(why) = &check.failure { ": " (why) } } None => { "none" } } }
            @if let Some(given) = &endpoint.order { dt { "Operators" } dd { (order(given, None, now_ms)) } }
        }
    }
}

/// What it says of its own load.
fn reported(said: &LoadReport) -> Markup {
    html! {
        (said.in_flight) " in flight from all balancers"
        @if let Some(ms) = said.latency_ms { ", " (milliseconds(ms)) " a request" }
        @if let Some(part) = said.utilization { ", " (percent(part)) " busy" }
        ", " (ago(said.age_ms)) " ago"
    }
}

/// Another weight, and what it counts as.
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
