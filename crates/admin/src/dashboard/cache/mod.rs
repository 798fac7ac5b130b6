//! The cache: memory, the results of each route's requests, the most used and the largest URLs, and a form to purge.

mod lists;

use super::page::{Asked, Content, Page};
use super::shown::{or_dash, percent};
use super::table::{Column, Row, compact, table};
use evenkeel_view::cache::{Cache, CacheDisk, CacheRoute, Evicted, TopBy, TopKey, TopWanted};
use evenkeel_view::words::{ago, bytes, grouped};
use lists::{keys, stored};
use maud::{Markup, html};

/// The page does not follow events: a list of all keys every second would cost too much.
pub static PAGE: Page = Page { path: "/ui/cache", name: "Cache", content, is_live: false };

/// Number of URLs in each list.
const ROWS: u16 = 15;

const ROUTES: &[Column] = &[
    Column::text("Route"),
    Column::number("Hit ratio"),
    Column::number("Last 5 min"),
    Column::number("Hit"),
    Column::number("Stale"),
    Column::number("Renewed"),
    Column::number("Stored"),
    Column::number("Not stored"),
    Column::number("Passed by"),
    Column::number("Waited"),
    Column::number("Sent"),
];

const REASONS: &[Column] = &[Column::text("Reason"), Column::number("Responses")];

fn content(asked: Asked) -> Content {
    Box::pin(async move {
        let Ok(cache) = asked.process.cache() else { return Ok(none()) };
        let first = |by| asked.process.cache_top(TopWanted { by, n: Some(ROWS) });
        let (used, largest) = (first(TopBy::Hits), first(TopBy::Size));
        let (used, largest) = (used.await.unwrap_or_default(), largest.await.unwrap_or_default());
        Ok(page(&asked, &cache, [&used, &largest]))
    })
}

fn none() -> Markup {
    html! {
        h1 { "Cache" }
        p.nothing { "No route has a cache. " code { "cache = true" } " in a " code { "[[route]]" } " gives it one." }
    }
}

fn page(asked: &Asked, cache: &Cache, [used, largest]: [&[TopKey]; 2]) -> Markup {
    html! {
        h1 { "Cache" }
        (figures(cache))
        (evicted(&cache.evicted))
        @if let Some(of_cache) = &cache.disk { (disk(of_cache)) }
        h2 { "Routes" }
        p.dim { "Requests since the start. The hit ratio is the part of those for the cache that a stored response answered, fresh or stale." }
        (table("Routes with a cache", ROUTES, cache.routes.iter().map(route)))
        @for route in cache.routes.iter().filter(|route| !route.reasons.is_empty()) {
            h3 { "Why responses of " (route.route) " were not stored" }
            (compact("Reasons", REASONS, route.reasons.iter().map(|reason| {
                Row::from(vec![html! { (reason.text) }, html! { (grouped(reason.responses)) }])
            })))
        }
        h2 { "Stored responses of a URL" }
        form.try method="get" action="/ui/cache" {
            label.grows { "URL " input name="url" required placeholder="https://host/path" value=(asked.value("url").unwrap_or_default()); }
            button { "Show" }
        }
        @if let Some(url) = asked.value("url") { section #stored { (stored(asked, url)) } }
        h2 { "Most used" }
        (keys("Most used URLs", used))
        h2 { "Largest" }
        (keys("Largest URLs", largest))
        @if asked.caller.may_change {
            h2 { "Purge" }
            p.dim { "Later requests do not get what is removed; what is made stale is validated or fetched anew at its next use." }
            form.try data-purge="/v1/cache/purge" {
                label { "What " select name="kind" {
                    option value="url" { "URL" }
                    option value="prefix" { "URLs that begin with" }
                    option value="tag" { "tag" }
                    option value="all" { "everything" }
                } }
                label.grows { "Value " input name="value" placeholder="https://host/path, or a tag"; }
                label { input type="checkbox" name="soft"; " only make it stale" }
                button data-asks="purge" { "Purge" }
            }
        }
    }
}

fn figures(cache: &Cache) -> Markup {
    let part = cache.bytes as f64 / cache.capacity.max(1) as f64;
    html! {
        dl.figures {
            div { dt { "memory" } dd { (bytes(cache.bytes)) " of " (bytes(cache.capacity)) } }
            div { dt { "in use" } dd { (percent(part)) } }
            div { dt { "responses" } dd { (grouped(cache.objects)) } }
            div { dt { "keys" } dd { (grouped(cache.entries)) } }
            div { dt { "stored so far" } dd { (grouped(cache.inserted)) } }
            div { dt { "purged" } dd { (grouped(cache.purged)) } }
            div { dt { "validated behind requests now" } dd { (grouped(cache.fetching_behind)) } }
        }
    }
}

fn disk(disk: &CacheDisk) -> Markup {
    let part = disk.bytes as f64 / disk.capacity.max(1) as f64;
    html! {
        h2 { "Disk" }
        @if !disk.is_open { p { (disk.state) "." } }
        dl.figures {
            div { dt { "folder" } dd { (disk.path) } }
            div { dt { "disk" } dd { (bytes(disk.bytes)) " of " (bytes(disk.capacity)) } }
            div { dt { "in use" } dd { (percent(part)) } }
            div { dt { "responses" } dd { (grouped(disk.objects)) } }
            div { dt { "read" } dd { (grouped(disk.reads)) } }
            div { dt { "found" } dd { (grouped(disk.hits)) } }
            div { dt { "written" } dd { (grouped(disk.writes)) } }
            div { dt { "not written, as too many waited" } dd { (grouped(disk.dropped)) } }
            div { dt { "broken or failed" } dd { (grouped(disk.errors)) } }
        }
    }
}

fn evicted(evicted: &Evicted) -> Markup {
    let Some(age) = evicted.mean_age_ms else { return html! { p.dim { "Nothing was evicted for want of memory." } } };
    html! {
        p { (grouped(evicted.entries)) " keys with " (bytes(evicted.bytes)) " were evicted for want of memory, "
            (ago(age as u64)) " after they were stored, on average." }
    }
}

fn route(route: &CacheRoute) -> Row {
    let counts = [route.hit, route.stale, route.renewed, route.stored, route.not_stored, route.passed, route.collapsed];
    let mut cells = vec![
        html! { (route.route) },
        html! { (or_dash(route.hit_ratio, percent)) },
        html! { (or_dash(route.hit_ratio_of_late, percent)) },
    ];
    cells.extend(counts.into_iter().map(|count| html! { (grouped(count)) }));
    cells.push(html! { (bytes(route.bytes)) });
    Row::from(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_without_requests_has_no_ratio() {
        let empty = CacheRoute { route: "shop".into(), ..CacheRoute::default() };
        let page = table("Routes", ROUTES, [route(&empty)]).into_string();
        assert!(page.contains("data-label=\"Hit ratio\">\u{2013}</td>"), "{page}");
        let used = CacheRoute { hit: 1234, hit_ratio: Some(0.5), bytes: 1500, ..empty };
        let page = table("Routes", ROUTES, [route(&used)]).into_string();
        assert!(
            page.contains(">50 %</td>") && page.contains(">1,234</td>") && page.contains(">1.50 kB</td>"),
            "{page}"
        );
    }
}
