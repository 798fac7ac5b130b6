//! What is answered to resolvers?

use super::page::{Asked, Page};
use maud::{Markup, html};

/// The page.
pub static PAGE: Page =
    Page { path: "/ui/dns", name: "DNS", content: |asked| Box::pin(async move { Ok(content(&asked)) }), is_live: true };

fn content(asked: &Asked) -> Markup {
    let zones = asked.process.zones();
    html! {
        h1 { "DNS" }
        @if zones.is_empty() { p { "No listener answers for a zone: " code { "mode = \"dns\"" } " of a listener does." } }
        @for zone in &zones {
            h2 { (zone.name) " " span.dim { "listener " (zone.listener) } }
            p { (zone.queries) " queries" @for answered in &zone.responses { ", " (answered.responses) " " (answered.code) } }
            div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Pool" } } }
                tbody { @for record in &zone.records { tr {
                    th scope="row" { (record.name) }
                    td { a href={ "/ui/pools?q=" (record.pool) } { (record.pool) } }
                } } }
            } }
        }
    }
}
