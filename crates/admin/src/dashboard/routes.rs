//! Routes with their rates and latencies, and a form that tries a request.

use super::explain::pick;
use super::page::{Asked, Content, Page};
use super::shown::{cut, or_dash, percent, percentile, rate};
use super::table::{Column, Row, table};
use crate::api::problem::Problem;
use evenkeel_view::Described;
use evenkeel_view::picks::WouldGo;
use evenkeel_view::served::{Action, Route};
use evenkeel_view::words::{escaped, grouped};
use maud::{Markup, html};

/// The page does not follow events, or text that was typed would be lost.
pub static PAGE: Page = Page { path: "/ui/routes", name: "Routes", content, is_live: false };

/// Routes that are listed at once.
const ROWS: usize = 300;

const COLUMNS: &[Column] = &[
    Column::text("Route"),
    Column::text("Action"),
    Column::text("Listener"),
    Column::number("Rate"),
    Column::number("Errors"),
    Column::number("Mean"),
    Column::number("p99"),
    Column::number("So far"),
    Column::number("Errors so far"),
];

fn content(asked: Asked) -> Content {
    Box::pin(async move {
        let tried = match asked.value("url") {
            Some(url) => Some(asked.process.would_go(described(&asked, url)).await),
            None => None,
        };
        Ok(page(&asked, tried.as_ref()))
    })
}

fn described(asked: &Asked, url: &str) -> Described {
    let fields = asked.value("fields").unwrap_or_default().lines().map(str::trim).filter(|line| !line.is_empty());
    Described {
        method: asked.value("method").map(str::to_owned),
        url: url.trim().to_owned(),
        fields: fields.map(str::to_owned).collect(),
        listener: asked.value("listener").map(str::to_owned),
        client: asked.value("client").map(str::to_owned),
    }
}

fn page(asked: &Asked, tried: Option<&Result<WouldGo, Problem>>) -> Markup {
    let (routes, status) = (asked.process.routes(), asked.process.status());
    let value = |name: &str| asked.value(name).unwrap_or_default();
    html! {
        h1 { "Routes" }
        h2 { "Try a request" }
        p.dim { "Nothing is sent: this says which route takes it, why the others do not, what its filters would do, and what its pool would pick now." }
        form.try method="get" action="/ui/routes" {
            label { "Method " input name="method" size="7" value=(asked.value("method").unwrap_or("GET")); }
            label.grows { "URL " input name="url" required placeholder="https://host/path, or /path" value=(value("url")); }
            label { "Listener " select name="listener" {
                option value="" { "the first for HTTP" }
                @for listener in status.listeners.iter().filter(|listener| listener.mode == "http") {
                    option selected[value("listener") == listener.name] { (listener.name) }
                }
            } }
            label { "Client " input name="client" size="15" placeholder="127.0.0.1" value=(value("client")); }
            label.grows { "Header fields, one a line " textarea name="fields" rows="2" { (value("fields")) } }
            button { "Explain" }
        }
        @match tried {
            None => {}
            Some(Err(problem)) => { p.bad role="alert" { (problem.detail) } }
            Some(Ok(would)) => { section #tried { (would_go(would)) } }
        }
        h2 { "All routes" }
        p.dim { "Rates and times are of the last five seconds. A time ends with the response; p99 is an end of a bucket of the metrics." }
        @if routes.is_empty() { p.nothing { "No route is configured." } }
        @else { (table("Routes", COLUMNS, routes.iter().take(ROWS).flat_map(rows))) }
        @if routes.len() > ROWS { p.dim { "And " (routes.len() - ROWS) " more." } }
    }
}

/// Pools of a split that are shown, of many.
const SHARES: usize = 4;

/// The action of a route: a pool, pools with their shares, or words.
fn action(action: &Action) -> Markup {
    let pool = |name: &str| html! { a href={ "/ui/pools?q=" (escaped(name)) } { (name) } };
    match action {
        Action::Pool(name) => pool(name),
        Action::Split(split) => html! {
            @for share in split.pools.iter().take(SHARES) { div { (pool(&share.pool)) " " (percent(share.share)) } }
            @if split.pools.len() > SHARES {
                div.dim title=(split.words()) { "and " (split.pools.len() - SHARES) " more" }
            }
            @if let Some(order) = &split.order { div.dim { "weights by " (order.by) } }
        },
        own => html! { (cut(&own.words())) },
    }
}

/// A row for each listener that the route belongs to.
fn rows(route: &Route) -> impl Iterator<Item = Row> {
    route.at.iter().map(|passed| {
        let errors = (passed.rate > 0.0).then(|| passed.error_rate / passed.rate);
        Row::from(vec![
            html! {
                (route.name)
                div.dim { (cut(&route.matching.words())) }
                @if !route.filters.is_empty() { div.dim { "filters: " (cut(&route.filters.join(", "))) } }
                @if let Some(ratio) = route.hit_ratio { div.dim { a href="/ui/cache" { "cache" } ": " (percent(ratio)) " hits" } }
            },
            action(&route.action),
            html! { (passed.listener) },
            html! { (rate(passed.rate)) },
            html! { span.bad[errors > Some(0.0)] { (or_dash(errors, percent)) } },
            html! { (or_dash(passed.mean_ms, percentile)) },
            html! { @match (passed.mean_ms, passed.p99_ms) {
                (None, _) => { "\u{2013}" }
                (_, Some(ms)) => { "\u{2264} " (percentile(ms)) }
                (_, None) => { "above all buckets" }
            } },
            html! { (grouped(passed.requests)) },
            html! { span.bad[passed.errors > 0] { (grouped(passed.errors)) } },
        ])
    })
}

fn would_go(would: &WouldGo) -> Markup {
    let routed = &would.routed;
    html! {
        @match &routed.route {
            Some(route) => { p { "Listener " (routed.listener) " \u{2192} route " strong { (route) } " \u{2192} "
                strong { (routed.outcome()) } } }
            None if routed.refused.is_some() => {
                p.bad { "Listener " (routed.listener) " \u{2192} " strong { (routed.outcome()) } }
            }
            None if would.answer.is_some() => { p { "Listener " (routed.listener) ": no route matches." } }
            None => { p.bad { "Listener " (routed.listener) ": no route matches, so the response is a 404." } }
        }
        @if let Some(normal) = &routed.normal { p { "Matched and forwarded as " strong { (normal) } } }
        @if !routed.readings.is_empty() {
            ul { @for reading in &routed.readings {
                li { "Read as " (reading.path) " \u{2192} " (reading.route.as_deref().unwrap_or("no route")) }
            } }
        }
        ul.matches { @for route in &routed.routes {
            li { @if route.taken { strong { (route.route) } } @else { (route.route) } ": " (route.why) }
        } }
        @if !would.filters.is_empty() {
            ul { @for one in &would.filters { li { "Filter " (one.name) ": " (one.would) } } }
        }
        @if let Some(answer) = &would.answer {
            p { "Filter " strong { (answer.filter) } " " (answer) "; no endpoint is picked." }
        }
        @if let Some(made) = &would.pick {
            h3 { "Its pool would pick " (made.picked.as_deref().unwrap_or("none")) " now" }
            (pick(made))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::served::{Matching, Passed, Redirect, Respond, Share, Split};

    fn first(action: Action) -> String {
        let matching = Matching { criteria: vec!["header x-beta = 1".into()], ..Matching::default() };
        let filters = vec!["limits".into(), "jwt".into()];
        let at = vec![Passed { listener: "web".into(), ..Passed::default() }];
        let route = Route { name: "shop".into(), action, matching, filters, at, ..Route::default() };
        table("Routes", COLUMNS, rows(&route)).into_string()
    }

    #[test]
    fn each_action_says_where_requests_go() {
        let page = first(Action::Pool("a/b".into()));
        assert!(page.contains("<a href=\"/ui/pools?q=a%2Fb\">a/b</a>"), "{page}");
        assert!(page.contains("header x-beta = 1") && page.contains("filters: limits, jwt"), "{page}");
        let share = |pool: String, share| Share { pool, weight: 1, configured: 1, share, drained: false };
        let pools = (0..6).map(|at| share(format!("pool-{at}"), 1.0 / 6.0)).collect();
        let page = first(Action::Split(Split { route: "shop".into(), pools, order: None }));
        assert!(page.contains(">pool-0</a> 17 %") && page.contains("pool-5 1\">and 2 more"), "{page}");
        let to = format!("https://{{host}}/{}", "x".repeat(80));
        let page = first(Action::Redirect(Redirect { status: 308, to: to.clone() }));
        assert!(page.contains("redirect 308") && page.contains(&format!("title=\"redirect 308 to {to}\"")), "{page}");
        assert!(!page.contains(&format!("{to}<")), "{page}");
        let page = first(Action::Respond(Respond { status: 410 }));
        assert!(page.contains("respond 410"), "{page}");
    }
}
