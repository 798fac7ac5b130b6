//! What is the state of every endpoint, why, and since when? A dense table for each pool, with what can be done about it.

use super::page::{Asked, Page, process};
use super::plots::sparkline;
use super::shown::{milliseconds, or_dash, order, page_of, percent, state, weight};
use crate::api::endpoints::version;
use evenkeel_draw::share::share;
use evenkeel_view::words::{ago, escaped};
use evenkeel_view::{Check, Endpoint, Pool};
use maud::{Markup, PreEscaped, html};

/// The page.
pub static PAGE: Page = Page {
    path: "/ui/pools",
    name: "Pools",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// Endpoints that are shown at once: a filter finds the others.
const ROWS: usize = 300;

/// What the rows can be sorted by, and how one that comes first compares.
type Sort = (&'static str, &'static str, fn(&Endpoint) -> f64);

const SORTS: &[Sort] = &[
    ("in_flight", "In flight", |e| -f64::from(e.in_flight)),
    ("p99", "p99", |e| e.latency.as_ref().map_or(0.0, |latency| -latency.p99_ms)),
    ("share", "Share", |e| -e.share.unwrap_or_default()),
    ("failed", "Failed", |e| -(e.failed as f64)),
    ("since", "Since", |e| -(e.since_ms as f64)),
];

fn content(asked: &Asked) -> Markup {
    let status = asked.process.status();
    let (wanted, sort) = (asked.value("q").unwrap_or_default().to_lowercase(), asked.value("sort"));
    let mut left = ROWS;
    html! {
        h1 { "Pools" }
        (process(asked))
        form.filter method="get" action="/ui/pools" role="search" {
            label { "Filter " input type="search" name="q" value=(wanted) placeholder="name, address, state or reason"; }
            label { "Sort by " select name="sort" {
                option value="" { "Configuration" }
                @for (name, label, _) in SORTS { option value=(name) selected[sort == Some(name)] { (label) } }
            } }
            button { "Show" }
        }
        @for pool in &status.pools {
            @let rows = rows(pool, &wanted, sort);
            @if !rows.is_empty() || wanted.is_empty() {
                h2 id=(pool.name) { (pool.name) " " span.dim { (pool.algorithm) } }
                @if pool.in_panic { p.bad { "In panic: so few endpoints are healthy that health is ignored." } }
                @if pool.waiting > 0 { p { (pool.waiting) " requests wait for a place." } }
                @let shown = rows.len().min(left);
                ({ left -= shown; table(asked, pool, &rows[..shown], status.now_ms) })
                @if shown < rows.len() { p.dim { "And " (rows.len() - shown) " more: a filter finds them." } }
            }
        }
    }
}

fn rows<'p>(pool: &'p Pool, wanted: &str, sort: Option<&str>) -> Vec<&'p Endpoint> {
    let has = |text: &str| text.to_lowercase().contains(wanted);
    let is_wanted = |endpoint: &&Endpoint| {
        let texts = [Some(&endpoint.name), Some(&endpoint.state), endpoint.address.as_ref(), endpoint.reason.as_ref()];
        has(&pool.name) || texts.into_iter().flatten().any(|text| has(text))
    };
    let mut rows: Vec<&Endpoint> = pool.endpoints.iter().filter(is_wanted).collect();
    if let Some((_, _, by)) = SORTS.iter().find(|(name, _, _)| Some(*name) == sort) {
        rows.sort_by(|a, b| by(a).total_cmp(&by(b)));
    }
    rows
}

fn table(asked: &Asked, pool: &Pool, rows: &[&Endpoint], now_ms: u64) -> Markup {
    let whole = rows.iter().map(|e| e.share.unwrap_or_default().max(e.fair_share)).fold(0.0, f64::max);
    html! {
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table.pool {
            thead { tr {
                th scope="col" { "Endpoint" } th scope="col" { "State" } th.number scope="col" { "Since" }
                th.number scope="col" { "Weight" } th scope="col" { "Share \u{b7} mark: fair" } th.number scope="col" { "In flight" }
                th.number scope="col" { "p50" } th.number scope="col" { "p99" } th scope="col" { "Rate, 5 min" }
                th.number scope="col" { "Failed" } th scope="col" { "Last check" } th scope="col" { "Why" }
                @if asked.caller.may_change { th scope="col" { "Change" } }
            } }
            tbody { @for endpoint in rows { tr id={ (pool.name) "/" (endpoint.name) } {
                th scope="row" {
                    a href=(page_of(&pool.name, &endpoint.name)) { (endpoint.name) }
                    @if let Some(address) = endpoint.address.as_ref().filter(|address| **address != endpoint.name) { " " span.dim { (address) } }
                }
                td { (state(endpoint)) }
                td.number { (ago(now_ms.saturating_sub(endpoint.since_ms))) }
                td.number { (weight(endpoint)) }
                td.share { (PreEscaped(share(endpoint.share.unwrap_or_default(), endpoint.fair_share, whole)))
                    span { (or_dash(endpoint.share, percent)) } }
                td.number { (endpoint.in_flight) }
                td.number { (or_dash(endpoint.latency.as_ref().map(|l| l.p50_ms), milliseconds)) }
                td.number { (or_dash(endpoint.latency.as_ref().map(|l| l.p99_ms), milliseconds)) }
                td { @if let Some(history) = asked.process.history(Some((&pool.name, Some(&endpoint.name)))) { (sparkline(&history)) } }
                td.number { (endpoint.failed) " of " (endpoint.requests) }
                td { @if let Some(check) = &endpoint.check { (checked(check, now_ms)) } @else { span.dim { "none" } } }
                td.why {
                    @if let Some(reason) = &endpoint.reason { (reason) }
                    @if let Some(given) = &endpoint.order { " " span.dim { "(" (order(given, endpoint.reason.as_deref(), now_ms)) ")" } }
                }
                @if asked.caller.may_change { td { (buttons(pool, endpoint)) } }
            } } }
        } }
    }
}

/// Its latest check.
pub fn checked(check: &Check, now_ms: u64) -> Markup {
    let when = ago(now_ms.saturating_sub(check.at_ms));
    html! {
        @match &check.failure {
            None => { span.good { "passed" } " " (when) " ago, " (milliseconds(check.took_ms)) }
            Some(why) => { span.bad title=(why) { "failed" } " " (when) " ago" }
        }
    }
}

/// What can be done to an endpoint now.
pub fn buttons(pool: &Pool, endpoint: &Endpoint) -> Markup {
    let (path, match_) =
        (format!("/v1/pools/{}/endpoints/{}", escaped(&pool.name), escaped(&endpoint.name)), version(endpoint));
    let order = endpoint.order.clone().unwrap_or_default();
    let patch = |label: &str, body: &str, asks: &str| {
        html! {
            button type="button" data-method="PATCH" data-path=(path) data-match=(match_) data-body=(body) data-asks=(asks) { (label) }
        }
    };
    let post = |label: &str, what: &str, asks: &str| {
        html! { button type="button" data-method="POST" data-path={ (path) "/" (what) } data-asks=(asks) { (label) } }
    };
    html! {
        span.buttons {
            @if order.drain.is_none() { (patch("Drain", r#"{"drain":"keep-sessions"}"#, &format!("drain {}?", endpoint.name))) }
            @else { (patch("Undrain", r#"{"drain":null}"#, "")) }
            @if endpoint.state == "ejected" { (post("Restore", "restore", "")) }
            @else { (post("Eject", "eject", &format!("eject {}?", endpoint.name))) }
            @if order.weight.is_some() || order.health.is_some() {
                (patch("Auto", r#"{"weight":null,"health":null}"#, ""))
            }
        }
    }
}
