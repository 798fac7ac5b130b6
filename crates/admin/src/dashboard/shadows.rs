//! Predictions of other algorithms for each pool, beside what was measured.

use super::page::{Content, Page};
use super::shown::{or_dash, percent};
use evenkeel_draw::share::share;
use evenkeel_view::shadows::{PoolShadows, Shadow};
use maud::{Markup, PreEscaped, html};

/// The page.
pub static PAGE: Page = Page { path: "/ui/shadows", name: "Shadows", content, is_live: true };

fn content(asked: super::page::Asked) -> Content {
    Box::pin(async move {
        let pools = asked.process.shadows(None).await?;
        Ok(html! {
            h1 { "Shadow algorithms" }
            p.dim { "Workers remember their latest requests. The simulator plays them again with another algorithm, and with endpoints as "
                "they were measured. A figure that depends on what was not measured is left out, with the reason." }
            @if pools.is_empty() {
                p { "No pool has shadows. The key " code { "shadow" } " of a pool names some, as " code { "shadow = [\"leastconn\"]" } "." }
            }
            @for pool in &pools {
                h2 { (pool.pool) " " span.dim { "balanced by " (pool.balance) ", by its latest " (pool.requests) " requests" } }
                @match &pool.nothing {
                    Some(nothing) => { p.dim { "Nothing to predict from: " (nothing) "." } }
                    None => { @for shadow in &pool.shadows { (one(pool, shadow)) } }
                }
            }
        })
    })
}

fn one(pool: &PoolShadows, shadow: &Shadow) -> Markup {
    let whole = shadow.endpoints.iter().flat_map(|e| [e.real, e.shadow.unwrap_or(0.0), e.fair]).fold(0.0, f64::max);
    let number = |value: Option<f64>| or_dash(value, |x| format!("{x:.2}"));
    let ms = |value: Option<f64>| or_dash(value, |ns| format!("{:.1} ms", ns / 1e6));
    html! {
        h3 { (shadow.algorithm) " " span.dim {
            @if shadow.algorithm == pool.balance { "measured, as it is the pool's own" } @else if shadow.exact { "its picks, which do not depend on what requests do" } @else { "simulated" }
        } }
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
            thead { tr { th scope="col" { "" } th.number scope="col" { "Now" } th.number scope="col" { "Predicted" } } }
            tbody {
                tr { th scope="row" { "In flight at the endpoint before a pick" } td.number { (number(pool.met)) } td.number { (number(shadow.met)) } }
                tr { th scope="row" { "p99 to the first byte" } td.number { (ms(pool.p99_ns)) } td.number { (ms(shadow.p99_ns)) } }
                tr { th scope="row" { "Most picks of an endpoint for its weight (1 is even)" } td.number { "" } td.number { (number(shadow.peak)) } }
            }
        } }
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
            thead { tr { th scope="col" { "Endpoint" } th scope="col" { "Share now \u{b7} mark: fair" } th scope="col" { "Share predicted" } } }
            tbody { @for e in &shadow.endpoints { tr {
                th scope="row" { (e.endpoint) }
                @for part in [Some(e.real), e.shadow] {
                    td.share { @match part {
                        Some(part) => { (PreEscaped(share(part, e.fair, whole))) span { (percent(part)) } }
                        None => { "\u{2013}" }
                    } }
                }
            } } }
        } }
        @for why in &shadow.withheld { p.dim { "Not known: " (why) "." } }
    }
}
