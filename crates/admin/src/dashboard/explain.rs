//! Why did a request go there? Those whose picks are kept, and one of them in full.

use super::page::{Asked, Content, Page};
use super::shown::{brief, milliseconds, since};
use evenkeel_view::picks::{Candidate, ExplainedTry, Pick};
use evenkeel_view::words::{ago, escaped, unix_ms};
use maud::{Markup, html};
use std::time::SystemTime;

/// All that are kept.
pub static PAGE: Page = Page { path: "/ui/explain", name: "Explain", content: kept, is_live: true };

/// One of them.
pub static ONE: Page = Page { path: "/ui/explain/{id}", name: "Explain", content: one, is_live: false };

/// How many are listed.
const LISTED: usize = 100;

fn kept(asked: Asked) -> Content {
    Box::pin(async move {
        let all = asked.process.explanations(None, LISTED).await?;
        let status = asked.process.status();
        Ok(html! {
            h1 { "Explain" }
            p.dim { "Picks of requests that were sampled (" code { "telemetry.explain.sample" } "), asked for by their token, or by the buttons." }
            @if asked.caller.may_change {
                p.buttons { @for pool in status.pools.iter().take(20) {
                    button type="button" data-method="POST" data-path={ "/v1/explanations/next/" (escaped(&pool.name)) } {
                        "Explain the next of " (pool.name)
                    }
                } }
            }
            @if all.is_empty() { p { "None is kept." } }
            @else { div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "Request" } th scope="col" { "When" } th scope="col" { "Asked by" } th scope="col" { "What" }
                    th scope="col" { "Pool" } th scope="col" { "Endpoint" } th.number scope="col" { "Tries" } th.number scope="col" { "Status" }
                    th.number scope="col" { "Took" } } }
                tbody { @for one in &all { tr {
                    th scope="row" { a href={ "/ui/explain/" (escaped(&one.request_id)) } { (one.request_id) } }
                    td { (since(one.at_ms)) }
                    td { (one.asked) }
                    td { (one.method) " " (one.host) (one.path) }
                    td { (one.pool) }
                    td { (endpoint(one.tries.last())) }
                    td.number { (one.tries.len()) }
                    td.number { (one.status) }
                    td.number { (nanoseconds(one.total_ns)) }
                } } }
            } } }
        })
    })
}

fn nanoseconds(ns: u64) -> String {
    milliseconds(ns as f64 / 1e6)
}

fn endpoint(one: Option<&ExplainedTry>) -> &str {
    one.and_then(|one| one.endpoint.as_deref()).unwrap_or("\u{2013}")
}

fn one(asked: Asked) -> Content {
    Box::pin(async move {
        let one = asked.process.explanation(asked.named("id").to_owned()).await?;
        Ok(html! {
            h1 { "Request " (one.request_id) }
            p { (one.method) " " (one.host) (one.path) " at " (since(one.at_ms)) ", answered with " (one.status)
                " after " (nanoseconds(one.total_ns)) }
            p { "Listener " (one.listener) " \u{2192} route " (one.route) " \u{2192} pool " (one.pool)
                "; worker " (one.worker) "; " (nanoseconds(one.queue_ns)) " of it in the queue; ended by " (one.end)
                " in " (one.phase) "." }
            @if let Some(trace) = &one.trace_id { p { "Trace " code { (trace) } } }
            @if !one.filters.is_empty() {
                h2 { "Filters" }
                ol { @for step in &one.filters { li { (step.name) ": " (step.did) } } }
            }
            @for (at, try_) in one.tries.iter().enumerate() {
                h2 { "Try " (at + 1) ": " (endpoint(Some(try_))) " " span.dim { (try_.how) ", after " (nanoseconds(try_.at_ns)) } }
                @if let Some(why) = &try_.failed { p.bad { "Failed: " (why) } }
                @if let Some(made) = &try_.pick { (pick(made)) }
            }
        })
    })
}

/// A column that not every pick has.
type Column = (&'static str, fn(&Candidate) -> Option<String>);

const COLUMNS: [Column; 6] = [
    ("Counted as", |one| one.load.map(brief)),
    ("By", |one| one.counted.as_ref().map(ToString::to_string)),
    ("Score", |one| one.score.map(brief)),
    ("Place", |one| one.place.map(|place| place.to_string())),
    ("Tier", |one| one.tier.map(|tier| tier.to_string())),
    ("Zone", |one| one.zone.as_deref().map(str::to_owned)),
];

/// One pick: what was compared, what was left out, and what decided.
pub fn pick(pick: &Pick) -> Markup {
    // Columns that no candidate has are left out.
    let columns = || COLUMNS.iter().filter(|(_, value)| pick.candidates.iter().any(|one| value(one).is_some()));
    let now = unix_ms(SystemTime::now());
    let is_picked = |one: &Candidate| pick.picked.as_ref() == Some(&one.endpoint);
    html! {
        @if let Some(why) = &pick.refused { p.bad { "None: " (why) } }
        p { "Rule: " (pick.rule) }
        p { "Decided by " (pick.decides) "; " (pick.in_flight) " in flight in the pool"
            @if let Some(key) = &pick.key { "; key " code { (key) } } "." }
        @if pick.level > 0 { p { "From overflow " (pick.level) ": all before it were tried or full." } }
        @if pick.in_panic { p.bad { "In panic: so few endpoints are healthy that health is ignored." } }
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
            thead { tr { th scope="col" { "Compared" } th.number scope="col" { "In flight" } th.number scope="col" { "Weight" }
                @for (label, _) in columns() { th.number scope="col" { (label) } }
                th.number scope="col" { "Ahead" } th.number scope="col" { "Answered in" } } }
            tbody { @for one in &pick.candidates { tr.picked[is_picked(one)] {
                th scope="row" { @if is_picked(one) { "\u{2714} " } (one.endpoint) }
                td.number { (one.in_flight) }
                td.number { (one.weight) }
                @for (_, value) in columns() { td.number { (value(one).unwrap_or_default()) } }
                td.number { (brief(one.ahead)) }
                td.number { @if let Some(ns) = one.latency_ns { (nanoseconds(ns)) } }
            } } }
        } }
        @if pick.unlisted > 0 { p.dim { "And " (pick.unlisted) " behind them." } }
        @if !pick.excluded.is_empty() {
            p { "Not compared:" }
            ul { @for one in &pick.excluded {
                li { (one.endpoint) ": " (one.reason)
                    @if let Some(since) = one.since_ms { ", for " (ago(now.saturating_sub(since))) } }
            } }
            @if pick.excluded_more > 0 { p.dim { "And " (pick.excluded_more) " more." } }
        }
    }
}
