//! Every endpoint with its state and the reason for it, a table for each pool, and buttons that change them.

use super::cards::Figures;
use super::page::{Asked, Page, process};
use super::plots::sparkline;
use super::shown::{kind, milliseconds, or_dash, order, page_of, percent, percentile, rate, state, weight};
use super::table::{Column, Row, table};
use crate::api::endpoints::version;
use evenkeel_draw::share::share;
use evenkeel_view::words::{Standing, Traffic, ago, escaped, grouped};
use evenkeel_view::{Check, Endpoint, Pool};
use maud::{Markup, PreEscaped, html};

pub static PAGE: Page = Page {
    path: "/ui/pools",
    name: "Pools",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// Endpoints that are shown at once; a filter finds the others.
const ROWS: usize = 300;

/// Order of rows: its name in the query, its label, and the figure by which the least comes first.
type Sort = (&'static str, &'static str, fn(&Endpoint) -> f64);

const SORTS: &[Sort] = &[
    ("state", "State, worst first", |e| -f64::from(Standing::of(e) as u8)),
    ("in_flight", "In flight", |e| -f64::from(e.in_flight)),
    ("p99", "p99, slowest first", |e| e.latency.as_ref().map_or(0.0, |latency| -latency.p99_ms)),
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
        @if status.pools.iter().all(|pool| rows(pool, &wanted, sort).is_empty()) && !wanted.is_empty() {
            p.nothing { "No endpoint has \u{201c}" (wanted) "\u{201d} in its name, address, state or reason." }
        }
        @for pool in &status.pools {
            @let rows = rows(pool, &wanted, sort);
            @if !rows.is_empty() || wanted.is_empty() {
                h2 id=(pool.name) { (pool.name) " " span.dim { (pool.algorithm) } }
                @if pool.in_panic { p.bad { "In panic: so few endpoints are healthy that health is ignored." } }
                @if pool.waiting > 0 { p { (pool.waiting) " " (Traffic::of_pool(pool).many) " wait for a place." } }
                @let shown = rows.len().min(left);
                div.aligned { ({ left -= shown; endpoints(asked, pool, &rows[..shown], status.now_ms) }) }
                @if pool.endpoints.is_empty() { p.nothing { "This pool has no endpoints now." } }
                @if shown < rows.len() { p.dim { "And " (grouped((rows.len() - shown) as u64)) " more: a filter finds them." } }
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

/// Columns of endpoints. The last one is for callers who may change endpoints.
static COLUMNS: [Column; 10] = [
    Column::text("Endpoint"),
    Column::text("State"),
    Column::text("Share, mark: fair"),
    Column::text("Rate, 5 min"),
    Column::number("Failed"),
    Column::number("p50"),
    Column::number("p99"),
    Column::number("In flight"),
    Column::number("Weight"),
    Column::text("Change"),
];

fn endpoints(asked: &Asked, pool: &Pool, rows: &[&Endpoint], now_ms: u64) -> Markup {
    let largest = |whole: f64, one: &Endpoint| whole.max(one.share.unwrap_or_default()).max(one.fair_share);
    let whole = pool.endpoints.iter().fold(0.0, largest);
    let columns = if asked.caller.may_change { &COLUMNS[..] } else { &COLUMNS[..9] };
    let row = |endpoint: &&Endpoint| {
        let mut cells = vec![
            name(pool, endpoint, now_ms),
            html! {
                (state(endpoint)) " " span.dim { (ago(now_ms.saturating_sub(endpoint.since_ms))) }
                @if let Some(check) = &endpoint.check { div.dim { (checked(check, now_ms)) } }
            },
            html! { span.share {
                (PreEscaped(share(endpoint.share.unwrap_or_default(), endpoint.fair_share, whole)))
                span { (or_dash(endpoint.share, percent)) }
            } },
            rated(asked, pool, endpoint),
            html! { span.bad[endpoint.failed > 0] { (grouped(endpoint.failed)) } " of " (grouped(endpoint.requests)) },
            html! { (or_dash(endpoint.latency.as_ref().map(|l| l.p50_ms), percentile)) },
            html! { (or_dash(endpoint.latency.as_ref().map(|l| l.p99_ms), percentile)) },
            html! { (grouped(u64::from(endpoint.in_flight))) },
            html! { (weight(endpoint)) },
        ];
        if asked.caller.may_change {
            cells.push(buttons(pool, endpoint));
        }
        Row { id: Some(format!("{}/{}", pool.name, endpoint.name)), cells, ..Row::default() }
    };
    table(&format!("Endpoints of pool {}", pool.name), columns, rows.iter().map(row))
}

/// Name and address of an endpoint, and below them why it is not up, and the order of an operator.
fn name(pool: &Pool, endpoint: &Endpoint, now_ms: u64) -> Markup {
    let address = endpoint.address.as_ref().filter(|address| **address != endpoint.name);
    html! {
        a href=(page_of(&pool.name, &endpoint.name)) { (endpoint.name) }
        @if let Some(address) = address { " " span.dim { (address) } }
        @if let Some(reason) = &endpoint.reason {
            div class={ "why " (kind(Standing::of(endpoint))) } { (reason) }
        }
        @if let Some(given) = &endpoint.order { div.why.dim { (order(given, endpoint.reason.as_deref(), now_ms)) } }
    }
}

/// Rate of the last five seconds, and a line of the last five minutes.
fn rated(asked: &Asked, pool: &Pool, endpoint: &Endpoint) -> Markup {
    let Some(history) = asked.process.history(Some((&pool.name, Some(&endpoint.name)))) else {
        return html! { span.dim { "no " (Traffic::of_pool(pool).many) " yet" } };
    };
    html! { span.rated { (sparkline(&history)) span { (rate(Figures::of(&history).rate)) } } }
}

/// Outcome of an endpoint's latest check.
pub fn checked(check: &Check, now_ms: u64) -> Markup {
    let when = ago(now_ms.saturating_sub(check.at_ms));
    html! {
        @match &check.failure {
            None => { "checked " (when) " ago, " (milliseconds(check.took_ms)) }
            Some(why) => { span.bad title=(why) { "check failed" } " " (when) " ago" }
        }
    }
}

/// Buttons for the changes that an endpoint allows now.
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
