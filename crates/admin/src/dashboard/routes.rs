//! Which route takes a request? The routes with what passed by them, and a form that tries one.

use super::explain::pick;
use super::page::{Asked, Content, Page};
use crate::api::problem::Problem;
use evenkeel_view::Described;
use evenkeel_view::picks::WouldGo;
use maud::{Markup, html};

/// The page. Not followed: what was typed would be lost.
pub static PAGE: Page = Page { path: "/ui/routes", name: "Routes", content, is_live: false };

/// Routes that are listed at once.
const ROWS: usize = 300;

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
        p.dim { "Nothing is sent: this says which route takes it, why the others do not, and what its pool would pick now." }
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
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
            thead { tr { th scope="col" { "Route" } th scope="col" { "Hosts" } th scope="col" { "Path" } th scope="col" { "Pool" }
                th scope="col" { "Listener" } th.number scope="col" { "Requests/s" } th.number scope="col" { "Requests" }
                th.number scope="col" { "Errors" } } }
            tbody { @for route in routes.iter().take(ROWS) { @for (at, passed) in route.at.iter().enumerate() { tr {
                th scope="row" { @if at == 0 { (route.name) } }
                td { @if at == 0 { @if route.hosts.is_empty() { span.dim { "any" } } (route.hosts.join(", ")) } }
                td { @if at == 0 { code { (route.path) } } }
                td { @if at == 0 { a href={ "/ui/pools?q=" (route.pool) } { (route.pool) } } }
                td { (passed.listener) }
                td.number { (format!("{:.1}", passed.rate)) }
                td.number { (passed.requests) }
                td.number { (passed.errors) }
            } } } }
        } }
        @if routes.len() > ROWS { p.dim { "And " (routes.len() - ROWS) " more." } }
    }
}

fn would_go(would: &WouldGo) -> Markup {
    let routed = &would.routed;
    html! {
        @match &routed.route {
            Some(route) => { p { "Listener " (routed.listener) " \u{2192} route " strong { (route) } " \u{2192} pool "
                strong { (routed.pool.as_deref().unwrap_or_default()) } } }
            None => { p.bad { "Listener " (routed.listener) ": no route takes it, so it is answered with 404." } }
        }
        ul.matches { @for route in &routed.routes {
            li { @if route.taken { strong { (route.route) } } @else { (route.route) } ": " (route.why) }
        } }
        @if let Some(made) = &would.pick {
            h3 { "Its pool would pick " (made.picked.as_deref().unwrap_or("none")) " now" }
            (pick(made))
        }
    }
}
