//! Requests whose picks are kept: a list with a filter, and a single request in full.

use super::page::{Asked, Content, Page};
use super::shown::{brief, milliseconds, percent, since};
use super::table::{Column, Row, table};
use evenkeel_draw::share::bar;
use evenkeel_view::Status;
use evenkeel_view::picks::{Candidate, Explained, ExplainedTry, Pick};
use evenkeel_view::words::{ago, escaped, grouped, unix_ms};
use maud::{Markup, PreEscaped, html};
use std::cmp::Reverse;
use std::time::SystemTime;

pub static PAGE: Page = Page { path: "/ui/explain", name: "Explain", content: kept, is_live: true };

pub static ONE: Page = Page { path: "/ui/explain/{id}", name: "Explain", content: one, is_live: false };

/// Explanations that are listed at most.
const LISTED: usize = 100;

/// Orders of the list: name in the query, and label. The first is the default.
const ORDERS: [(&str, &str); 3] =
    [("slowest", "Slowest first"), ("latest", "Latest first"), ("tries", "Most tries first")];

const COLUMNS: &[Column] = &[
    Column::text("Request"),
    Column::text("Asked by"),
    Column::text("At"),
    Column::text("Pool"),
    Column::text("Endpoint"),
    Column::number("Tries"),
    Column::number("Status"),
    Column::number("Queued"),
    Column::number("Took"),
    Column::text("Beside the slowest"),
];

fn kept(asked: Asked) -> Content {
    Box::pin(async move {
        let pool = asked.value("pool").map(str::to_owned);
        let mut all = asked.process.explanations(pool, usize::MAX).await?;
        let (status, kept) = (asked.process.status(), all.len());
        all.retain(|one| is_wanted(&asked, one));
        sort(asked.value("sort").unwrap_or_default(), &mut all);
        let slowest = all.iter().map(|one| one.total_ns).max().unwrap_or_default();
        let found = all.len();
        Ok(html! {
            h1 { "Explain" }
            p.dim { "Picks of requests that were sampled (" code { "telemetry.explain.sample" } "), that asked for it with the token, or that a button chose." }
            @if asked.caller.may_change {
                p.buttons { @for pool in status.pools.iter().take(20) {
                    button type="button" data-method="POST" data-path={ "/v1/explanations/next/" (escaped(&pool.name)) } {
                        "Explain the next of " (pool.name)
                    }
                } }
            }
            (form(&asked, &status))
            @if kept == 0 {
                p.nothing { "No explanation is kept. " code { "telemetry.explain.sample = 0.01" } " explains one request in a hundred." }
            } @else if found == 0 {
                p.nothing { "None of " (kept) " explanations fits the filter." }
            } @else {
                p.dim { (grouped(found as u64)) " of " (grouped(kept as u64)) " explanations"
                    @if found > LISTED { ", of which " (LISTED) " are listed" } "." }
                (table("Explained requests", COLUMNS, all.iter().take(LISTED).map(|one| row(one, slowest, status.now_ms))))
            }
        })
    })
}

fn row(one: &Explained, slowest: u64, now_ms: u64) -> Row {
    let part = one.total_ns as f64 / slowest.max(1) as f64;
    Row::from(vec![
        html! {
            a href={ "/ui/explain/" (escaped(&one.request_id)) } title={ "request " (one.request_id) } { (one.method) " " (one.host) (one.path) }
            div.dim.id { (one.request_id) }
        },
        html! { (one.asked) },
        html! { (since(one.at_ms)) div.dim { (ago(now_ms.saturating_sub(one.at_ms))) " ago" } },
        html! { (one.pool) },
        html! { (endpoint(one.tries.last())) },
        html! { span.warn[one.tries.len() > 1] { (one.tries.len()) } },
        html! { span.bad[one.status >= 500 || one.status == 0] { @if one.status == 0 { "\u{2013}" } @else { (one.status) } } },
        html! { @if one.queue_ns > 0 { (nanoseconds(one.queue_ns)) } @else { "\u{2013}" } },
        html! { (nanoseconds(one.total_ns)) },
        html! { (PreEscaped(bar(part, &format!("{} of the slowest", percent(part))))) },
    ])
}

/// True if a request fits the filter of the query.
fn is_wanted(asked: &Asked, one: &Explained) -> bool {
    let text = asked.value("q").unwrap_or_default().to_lowercase();
    let tried = one.tries.iter().filter_map(|tried| tried.endpoint.as_deref());
    let mut texts = [&*one.request_id, &*one.host, &*one.path, &*one.method, &*one.route].into_iter().chain(tried);
    let has_status = match asked.value("status") {
        Some("errors") => one.status >= 500 || one.status == 0,
        Some("retried") => one.tries.len() > 1,
        _ => true,
    };
    let least_ms = asked.value("min_ms").and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    has_status && one.total_ns as f64 >= least_ms * 1e6 && texts.any(|one| one.to_lowercase().contains(&text))
}

/// Sorts by an order of [`ORDERS`].
fn sort(order: &str, all: &mut [Explained]) {
    match order {
        "latest" => all.sort_by_key(|one| Reverse(one.at_ms)),
        "tries" => all.sort_by_key(|one| Reverse((one.tries.len(), one.total_ns))),
        _ => all.sort_by_key(|one| Reverse(one.total_ns)),
    }
}

fn form(asked: &Asked, status: &Status) -> Markup {
    let value = |name: &str| asked.value(name).unwrap_or_default();
    html! { form.filter method="get" action="/ui/explain" role="search" {
        label.grows { "Filter " input type="search" name="q" value=(value("q")) placeholder="path, host, method, endpoint, route or id"; }
        label { "Pool " select name="pool" {
            option value="" { "all" }
            @for pool in &status.pools { option value=(pool.name) selected[value("pool") == pool.name] { (pool.name) } }
        } }
        label { "Outcome " select name="status" {
            @for (name, words) in [("", "all"), ("errors", "errors"), ("retried", "retried")] {
                option value=(name) selected[value("status") == name] { (words) }
            }
        } }
        label { "At least, ms " input name="min_ms" size="5" inputmode="decimal" value=(value("min_ms")); }
        label { "Order " select name="sort" {
            @for (name, words) in ORDERS { option value=(name) selected[value("sort") == name] { (words) } }
        } }
        button { "Show" }
    } }
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

/// Figure of a candidate that not every pick has: its label, and how it is read.
type Figure = (&'static str, fn(&Candidate) -> Option<String>);

const FIGURES: [Figure; 6] = [
    ("Counted as", |one| one.load.map(brief)),
    ("By", |one| one.counted.as_ref().map(ToString::to_string)),
    ("Score", |one| one.score.map(brief)),
    ("Place", |one| one.place.map(|place| place.to_string())),
    ("Tier", |one| one.tier.map(|tier| tier.to_string())),
    ("Zone", |one| one.zone.as_deref().map(str::to_owned)),
];

/// Endpoints that a pick compared; figures that none of them has are left out.
fn candidates(pick: &Pick) -> Markup {
    let figures = || FIGURES.iter().filter(|(_, value)| pick.candidates.iter().any(|one| value(one).is_some()));
    let columns: Vec<Column> = [Column::text("Compared"), Column::number("In flight"), Column::number("Weight")]
        .into_iter()
        .chain(figures().map(|(label, _)| Column::number(label)))
        .chain([Column::number("Ahead"), Column::number("Answered in")])
        .collect();
    let row = |one: &Candidate| {
        let is_picked = pick.picked.as_ref() == Some(&one.endpoint);
        let mut cells = vec![
            html! { @if is_picked { "\u{2714} " } (one.endpoint) },
            html! { (one.in_flight) },
            html! { (one.weight) },
        ];
        cells.extend(figures().map(|(_, value)| html! { (value(one).unwrap_or_default()) }));
        cells.push(html! { (brief(one.ahead)) });
        cells.push(html! { @if let Some(ns) = one.latency_ns { (nanoseconds(ns)) } });
        Row { is_marked: is_picked, cells, id: None }
    };
    table("Endpoints that were compared", &columns, pick.candidates.iter().map(row))
}

/// Draws a pick: the rule that decided, the endpoints that were compared, and those left out.
pub fn pick(pick: &Pick) -> Markup {
    let now = unix_ms(SystemTime::now());
    html! {
        @if let Some(why) = &pick.refused { p.bad { "No endpoint was picked: " (why) } }
        p { "Rule: " (pick.rule) }
        p { "Decided by " (pick.decides) "; " (pick.in_flight) " in flight in the pool"
            @if let Some(key) = &pick.key { "; key " code { (key) } } "." }
        @if pick.level > 0 { p { "From overflow " (pick.level) ": all before it were tried or full." } }
        @if pick.in_panic { p.bad { "In panic: so few endpoints are healthy that health is ignored." } }
        @if pick.explored_share > 0.0 {
            p { "Of all requests, a share of " (pick.explored_share) " gets a random endpoint (" code { "explore" } ")." }
        }
        (candidates(pick))
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
