//! How is it doing? The figures of now, those of the last quarter of an hour, and what happened.

use super::page::{Asked, Page, process};
use super::plots::{self, Plot};
use super::shown::{milliseconds, or_dash, page_of, percent, state};
use evenkeel_draw::axis::Axis;
use evenkeel_draw::number::many;
use evenkeel_view::history::{History, Span};
use evenkeel_view::words::ago;
use evenkeel_view::{Event, Status};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The first page.
pub static PAGE: Page = Page {
    path: "/ui",
    name: "Overview",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// Events that are listed.
const LISTED: usize = 20;

/// Spans that the figures of now are of.
const NOW: usize = 5;

fn content(asked: &Asked) -> Markup {
    let status = asked.process.status();
    let history = asked.process.history(None).unwrap_or_default();
    let events = asked.process.events(0);
    // Requests come and go; that a configuration or a state changed explains a bend.
    let since = history.spans.first().map_or(0, |span| span.until_ms);
    let marked: Vec<Event> =
        events.iter().filter(|event| event.at_ms >= since && event.kind != "process").cloned().collect();
    html! {
        h1 { "Overview" }
        (process(asked))
        (now(&history))
        (troubles(&status))
        div.tiles {
            (Plot { title: "Requests a second", axis: Axis::Plain { name: String::new(), log: false },
                lines: &[("requests", plots::rate), ("errors", plots::errors)] }.draw(&history, &marked))
            (Plot { title: "Errors a second", axis: Axis::Plain { name: String::new(), log: false },
                lines: &[("answered with 500 and above", plots::errors)] }.draw(&history, &marked))
            (Plot { title: "Latency to the first byte, from endpoints", axis: Axis::Seconds { log: true },
                lines: &[("p50", plots::p50), ("p95", plots::p95), ("p99", plots::p99)] }.draw(&history, &marked))
            (Plot { title: "In flight", axis: Axis::Plain { name: String::new(), log: false },
                lines: &[("requests under way", plots::in_flight)] }.draw(&history, &marked))
        }
        p.dim { "Dashed: an event of the list below." }
        (listeners(&status))
        (happened(&events, status.now_ms))
    }
}

/// Sums over the last seconds.
fn now(history: &History) -> Markup {
    let last: &[Span] = &history.spans[history.spans.len().saturating_sub(NOW)..];
    let seconds = last.len().max(1) as f64 * f64::from(history.step_ms) / 1000.0;
    let (requests, errors) = last.iter().fold((0, 0), |sum, span| (sum.0 + span.requests, sum.1 + span.errors));
    let part = if requests > 0 { f64::from(errors) / f64::from(requests) } else { 0.0 };
    let worst = |of: fn(&Span) -> Option<f64>| last.iter().filter_map(of).max_by(f64::total_cmp);
    let figures = [
        ("requests a second", many(f64::from(requests) / seconds.max(1.0))),
        ("errors", percent(part)),
        ("p50", or_dash(worst(|span| span.p50_ms), milliseconds)),
        ("p95", or_dash(worst(|span| span.p95_ms), milliseconds)),
        ("p99", or_dash(worst(|span| span.p99_ms), milliseconds)),
        ("in flight", last.last().map_or(0, |span| span.in_flight).to_string()),
    ];
    html! {
        dl.figures {
            @for (name, figure) in figures { div { dt { (name) } dd { (figure) } } }
        }
    }
}

/// Endpoints by state, and each one that is not as it should be.
fn troubles(status: &Status) -> Markup {
    let all = status.pools.iter().flat_map(|pool| pool.endpoints.iter().map(move |endpoint| (pool, endpoint)));
    let mut states = BTreeMap::<&str, usize>::new();
    all.clone().for_each(|(_, endpoint)| *states.entry(&endpoint.state).or_default() += 1);
    let mut not_up = all.filter(|(_, endpoint)| endpoint.state != "up").peekable();
    html! {
        p { "Endpoints: " @for (at, (state, count)) in states.iter().enumerate() { @if at > 0 { ", " } (count) " " (state) } "." }
        @if not_up.peek().is_some() {
            ul.troubles {
                @for (pool, endpoint) in not_up.take(LISTED) {
                    li {
                        (state(endpoint)) " "
                        a href=(page_of(&pool.name, &endpoint.name)) { (pool.name) " / " (endpoint.name) }
                        " since " (ago(status.now_ms.saturating_sub(endpoint.since_ms)))
                        @if let Some(reason) = &endpoint.reason { ": " (reason) }
                    }
                }
            }
        }
        @for pool in status.pools.iter().filter(|pool| pool.in_panic) {
            p.bad { "Pool " (pool.name) " is in panic: so few endpoints are healthy that health is ignored." }
        }
    }
}

fn listeners(status: &Status) -> Markup {
    html! {
        h2 { "Listeners" }
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
            thead { tr { th scope="col" { "Listener" } th scope="col" { "Mode" } th scope="col" { "Addresses" }
                th.number scope="col" { "Open" } th.number scope="col" { "Connections" }
                th.number scope="col" { "Bytes in" } th.number scope="col" { "Bytes out" } } }
            tbody { @for listener in &status.listeners { tr {
                th scope="row" { (listener.name) }
                td { (listener.mode) }
                td { (listener.addresses.join(" ")) }
                td.number { (listener.connections) }
                td.number { (many(listener.accepted as f64)) }
                td.number { (many(listener.bytes_in as f64)) }
                td.number { (many(listener.bytes_out as f64)) }
            } } }
        } }
    }
}

fn happened(events: &[Event], now_ms: u64) -> Markup {
    html! {
        h2 { "Events" }
        (list(events.iter().rev().take(LISTED), now_ms))
    }
}

/// Events, as a list.
pub fn list<'e>(events: impl Iterator<Item = &'e Event>, now_ms: u64) -> Markup {
    let mut events = events.peekable();
    html! {
        @if events.peek().is_none() { p.dim { "None yet." } }
        @else { ol.events reversed {
            @for event in events { li {
                time { (ago(now_ms.saturating_sub(event.at_ms))) " ago" } " "
                span class={ "kind " (event.kind) } { (event.kind) } " "
                @if let Some(pool) = &event.pool {
                    @if let Some(endpoint) = &event.endpoint { a href=(page_of(pool, endpoint)) { (pool) " / " (endpoint) } }
                    @else { (pool) }
                    ": "
                }
                (event.text)
                @if let Some(by) = &event.by { ", by " (by) }
            } }
        } }
    }
}
