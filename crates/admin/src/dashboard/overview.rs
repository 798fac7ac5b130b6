//! The first page: the faults, the figures of now, a card for each pool, the last quarter of an hour, and events.

use super::cards::cards;
use super::page::{Asked, Page, process};
use super::plots::{self, Plot, Range, counts, per_second};
use super::shown::{or_dash, page_of, percent, percentile, rate, state};
use super::table::{Column, Row, table};
use evenkeel_draw::axis::Axis;
use evenkeel_view::history::{History, Span};
use evenkeel_view::words::{Traffic, ago, bytes, grouped, http3};
use evenkeel_view::{Event, Listener, Status};
use maud::{Markup, html};

pub static PAGE: Page = Page {
    path: "/ui",
    name: "Overview",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// Events, and endpoints that are not up, that are listed at most.
const LISTED: usize = 20;

/// Spans, of a second each, that the figures of now are of.
const NOW: usize = 5;

fn content(asked: &Asked) -> Markup {
    let status = asked.process.status();
    let history = asked.process.history(None).unwrap_or_default();
    let events = asked.process.events(0);
    let range = Range::of(asked);
    let shown = range.within(&history);
    html! {
        h1 { "Overview" }
        (process(asked))
        (troubles(&status))
        (now(Traffic::of_all(&status), &history))
        @if !status.pools.is_empty() {
            h2 { "Pools" }
            (cards(asked, &status.pools))
        }
        h2 { "Over time" }
        (range.choice("/ui"))
        (plotted(Traffic::of_all(&status), &shown, &events))
        h2 { "Events" }
        (list(events.iter().rev().take(LISTED), status.now_ms))
        h2 { "Listeners" }
        (listeners(&status))
    }
}

fn plotted(traffic: &Traffic, shown: &History, events: &[Event]) -> Markup {
    // Requests come and go; that a configuration or a state changed explains a bend.
    let since = shown.spans.first().map_or(u64::MAX, |span| span.until_ms);
    let is_marked = |event: &&Event| event.at_ms >= since && event.kind != "process";
    let marked: Vec<Event> = events.iter().filter(is_marked).cloned().collect();
    html! {
        div.tiles {
            (Plot { title: traffic.title, axis: per_second(), lines: &[(traffic.many, plots::rate)] }.draw(shown, &marked))
            (Plot { title: "Errors: answered with 500 and above, or not at all", axis: per_second(),
                lines: &[("errors", plots::errors)] }.draw(shown, &marked))
            (Plot { title: traffic.latency, axis: Axis::Seconds { log: true },
                lines: &[("p50", plots::p50), ("p95", plots::p95), ("p99", plots::p99)] }.draw(shown, &marked))
            (Plot { title: traffic.open, axis: counts(), lines: &[("in flight", plots::in_flight)] }.draw(shown, &marked))
        }
        @if !marked.is_empty() { p.dim { "Dashed: events of the list below." } }
    }
}

/// Sums over the last seconds.
fn now(traffic: &Traffic, history: &History) -> Markup {
    let last: &[Span] = &history.spans[history.spans.len().saturating_sub(NOW)..];
    let seconds = last.len().max(1) as f64 * f64::from(history.step_ms) / 1000.0;
    let (requests, errors) = last.iter().fold((0, 0), |sum, span| (sum.0 + span.requests, sum.1 + span.errors));
    let failed = (requests > 0).then(|| f64::from(errors) / f64::from(requests));
    let worst = |of: fn(&Span) -> Option<f64>| last.iter().filter_map(of).max_by(f64::total_cmp);
    let figures = [
        (traffic.many, rate(f64::from(requests) / seconds.max(1.0)), false),
        ("errors", or_dash(failed, percent), errors > 0),
        ("p50", or_dash(worst(|span| span.p50_ms), percentile), false),
        ("p95", or_dash(worst(|span| span.p95_ms), percentile), false),
        ("p99", or_dash(worst(|span| span.p99_ms), percentile), false),
        ("in flight", grouped(u64::from(last.last().map_or(0, |span| span.in_flight))), false),
    ];
    html! {
        dl.figures {
            @for (name, figure, is_bad) in figures { div { dt { (name) } dd.bad[is_bad] { (figure) } } }
        }
        @if history.spans.iter().all(|span| span.requests == 0) {
            p.nothing { "No " (traffic.many) " have come in yet. Figures appear here with the first ones." }
        }
    }
}

/// Each endpoint that is not as it should be, and pools in panic.
fn troubles(status: &Status) -> Markup {
    let all = status.pools.iter().flat_map(|pool| pool.endpoints.iter().map(move |endpoint| (pool, endpoint)));
    let not_up: Vec<_> = all.filter(|(_, endpoint)| endpoint.state != "up").collect();
    html! {
        @if !not_up.is_empty() {
            ul.troubles {
                @for (pool, endpoint) in not_up.iter().take(LISTED) {
                    li {
                        (state(endpoint)) " "
                        a href=(page_of(&pool.name, &endpoint.name)) { (pool.name) " / " (endpoint.name) }
                        @if let Some(reason) = &endpoint.reason { " " (reason) }
                        " " span.dim { "for " (ago(status.now_ms.saturating_sub(endpoint.since_ms))) }
                    }
                }
                @if not_up.len() > LISTED {
                    li.dim { "and " (not_up.len() - LISTED) " more on " a href="/ui/pools" { "Pools" } }
                }
            }
        }
        @for pool in status.pools.iter().filter(|pool| pool.in_panic) {
            p.bad { "Pool " (pool.name) " is in panic: so few endpoints are healthy that health is ignored." }
        }
    }
}

fn listeners(status: &Status) -> Markup {
    const COLUMNS: &[Column] = &[
        Column::text("Listener"),
        Column::text("Mode"),
        Column::text("Addresses"),
        Column::number("Open connections, flows"),
        Column::number("So far"),
        Column::number("Received"),
        Column::number("Sent"),
    ];
    let row = |listener: &Listener| {
        Row::from(vec![
            html! { (listener.name) },
            html! { (listener.kind()) },
            html! { (listener.addresses.join(" ")) },
            html! { (grouped(listener.connections)) },
            html! { (grouped(listener.accepted)) },
            html! { (bytes(listener.bytes_in)) },
            html! { (bytes(listener.bytes_out)) },
        ])
    };
    html! {
        (table("Listeners", COLUMNS, status.listeners.iter().map(row)))
        @for listener in &status.listeners {
            @if let Some(served) = &listener.http3 {
                p.dim { "Listener " (listener.name) " over HTTP/3: " (http3(served)) }
            }
        }
    }
}

/// Draws events as a list, in the order in which they come.
pub fn list<'e>(events: impl Iterator<Item = &'e Event>, now_ms: u64) -> Markup {
    let mut events = events.peekable();
    html! {
        @if events.peek().is_none() { p.dim { "None yet." } }
        @else { ol.events reversed {
            @for event in events { li {
                time { (ago(now_ms.saturating_sub(event.at_ms))) " ago" } " "
                span class={ "kind " (event.kind) } { (event.kind) } " "
                span {
                    @if let Some(pool) = &event.pool {
                        @if let Some(endpoint) = &event.endpoint { a href=(page_of(pool, endpoint)) { (pool) " / " (endpoint) } }
                        @else { (pool) }
                        ": "
                    }
                    (event.text)
                    @if let Some(by) = &event.by { span.dim { ", by " (by) } }
                }
            } }
        } }
    }
}
