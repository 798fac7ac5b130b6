//! What would other algorithms do with the same requests? The shadows of each pool beside what was picked.

use super::json::{brief, each, number, text};
use super::page::{Content, Page};
use super::shown::{or_dash, percent};
use crate::api::types::Look;
use evenkeel_draw::share::share;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

/// The page.
pub static PAGE: Page = Page { path: "/ui/shadows", name: "Shadows", content, is_live: true };

fn content(asked: super::page::Asked) -> Content {
    Box::pin(async move {
        let pools = asked.process.look(Look::Shadows(None)).await?;
        Ok(html! {
            h1 { "Shadow algorithms" }
            p.dim { "A shadow sees the starts and ends of the real requests and says where it would have sent them; it moves nothing. "
                "It cannot tell how endpoints would have fared under its own picks: for that there is a simulation, "
                code { "evenkeel sim --list" } "." }
            @if pools.as_array().is_none_or(Vec::is_empty) {
                p { "No pool has shadows. The key " code { "shadow" } " of a pool names some, as " code { "shadow = [\"leastconn\"]" } "." }
            }
            @for pool in pools.as_array().into_iter().flatten() {
                h2 { (text(pool, "pool")) " " span.dim { "balanced by " (text(pool, "balance")) ", "
                    (percent(number(pool, "sample").unwrap_or_default())) " of the picks compared" } }
                @for shadow in each(pool, "shadows") { (one(shadow)) }
            }
        })
    })
}

fn one(shadow: &Value) -> Markup {
    let two = |key: &str, of: &str| or_dash(number(&shadow[key], of), |x| format!("{x:.2}"));
    let part = |value: &Value, key: &str| number(value, key).unwrap_or_default();
    let largest = each(shadow, "endpoints")
        .flat_map(|e| [part(&e["share"], "real"), part(&e["share"], "shadow"), part(e, "fair")]);
    let whole = largest.fold(0.0, f64::max);
    html! {
        h3 { (text(shadow, "algorithm")) }
        @if shadow["agreement"].is_null() { p.dim { "No pick was compared yet." } }
        @else {
            div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "" } th.number scope="col" { "Now" } th.number scope="col" { "Predicted" } } }
                tbody {
                    tr { th scope="row" { "Same endpoint picked" } td.number { "" } td.number { (percent(part(shadow, "agreement"))) " of " (brief(&shadow["compared"])) } }
                    tr { th scope="row" { "In flight at the endpoint before the pick" } td.number { (two("met", "real")) } td.number { (two("met", "shadow")) } }
                    tr { th scope="row" { "Most picks of an endpoint for its weight (1 is even)" } td.number { (two("peak", "real")) } td.number { (two("peak", "shadow")) } }
                    tr { th scope="row" { "Found all endpoints full" } td.number { "" } td.number { (brief(&shadow["refused"])) } }
                }
            } }
            div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "Endpoint" } th scope="col" { "Share now \u{b7} mark: fair" } th scope="col" { "Share predicted" } } }
                tbody { @for e in each(shadow, "endpoints") { tr {
                    th scope="row" { (text(e, "endpoint")) }
                    @for key in ["real", "shadow"] {
                        td.share { (PreEscaped(share(part(&e["share"], key), part(e, "fair"), whole))) span { (percent(part(&e["share"], key))) } }
                    }
                } } }
            } }
            p.dim { "It cannot know " (text(shadow, "unknown")) "." }
        }
    }
}
