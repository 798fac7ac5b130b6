//! What would other algorithms do with the same requests? The shadows of each pool beside what was picked.

use super::page::{Content, Page};
use super::shown::{or_dash, percent};
use crate::api::types::picks::{Both, Shadow};
use evenkeel_draw::share::share;
use maud::{Markup, PreEscaped, html};

/// The page.
pub static PAGE: Page = Page { path: "/ui/shadows", name: "Shadows", content, is_live: true };

fn content(asked: super::page::Asked) -> Content {
    Box::pin(async move {
        let pools = asked.process.shadows(None).await?;
        Ok(html! {
            h1 { "Shadow algorithms" }
            p.dim { "A shadow sees the starts and ends of the real requests and says where it would have sent them; it moves nothing. "
                "It cannot tell how endpoints would have fared under its own picks: for that there is a simulation, "
                code { "evenkeel sim --list" } "." }
            @if pools.is_empty() {
                p { "No pool has shadows. The key " code { "shadow" } " of a pool names some, as " code { "shadow = [\"leastconn\"]" } "." }
            }
            @for pool in &pools {
                h2 { (pool.pool) " " span.dim { "balanced by " (pool.balance) ", "
                    (percent(pool.sample)) " of the picks compared" } }
                @for shadow in &pool.shadows { (one(shadow)) }
            }
        })
    })
}

fn one(shadow: &Shadow) -> Markup {
    let two = |both: Option<Both>, of: fn(&Both) -> f64| or_dash(both.as_ref().map(of), |x| format!("{x:.2}"));
    let parts: [fn(&Both) -> f64; 2] = [|both| both.real, |both| both.shadow];
    let [real, predicted] = parts;
    let largest = shadow.endpoints.iter().flat_map(|e| [e.share.real, e.share.shadow, e.fair]);
    let whole = largest.fold(0.0, f64::max);
    html! {
        h3 { (shadow.algorithm) }
        @match shadow.agreement {
            None => { p.dim { "No pick was compared yet." } }
            Some(agreement) => {
            div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "" } th.number scope="col" { "Now" } th.number scope="col" { "Predicted" } } }
                tbody {
                    tr { th scope="row" { "Same endpoint picked" } td.number { "" } td.number { (percent(agreement)) " of " (shadow.compared) } }
                    tr { th scope="row" { "In flight at the endpoint before the pick" } td.number { (two(shadow.met, real)) } td.number { (two(shadow.met, predicted)) } }
                    tr { th scope="row" { "Most picks of an endpoint for its weight (1 is even)" } td.number { (two(shadow.peak, real)) } td.number { (two(shadow.peak, predicted)) } }
                    tr { th scope="row" { "Found all endpoints full" } td.number { "" } td.number { (shadow.refused) } }
                }
            } }
            div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "Endpoint" } th scope="col" { "Share now \u{b7} mark: fair" } th scope="col" { "Share predicted" } } }
                tbody { @for e in &shadow.endpoints { tr {
                    th scope="row" { (e.endpoint) }
                    @for part in parts {
                        td.share { (PreEscaped(share(part(&e.share), e.fair, whole))) span { (percent(part(&e.share))) } }
                    }
                } } }
            } }
            p.dim { "It cannot know " (shadow.unknown) "." }
            }
        }
    }
}
