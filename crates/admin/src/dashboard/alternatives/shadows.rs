//! Predictions of other algorithms for each pool, beside the measurement.

use crate::dashboard::page::{Content, Page};
use crate::dashboard::shown::{or_dash, percent, percentile};
use crate::dashboard::table::{Column, Row, compact};
use evenkeel_draw::share::share;
use evenkeel_view::shadows::{PoolShadows, Shadow};
use evenkeel_view::words::grouped;
use maud::{Markup, PreEscaped, html};

pub static PAGE: Page = Page { path: "/ui/shadows", name: "Shadows", content, is_live: true };

fn content(asked: crate::dashboard::page::Asked) -> Content {
    Box::pin(async move {
        let pools = asked.process.shadows(None).await?;
        Ok(html! {
            h1 { "Shadow algorithms" }
            p.dim { "Workers remember their latest requests. The simulator plays them again with another algorithm and with endpoints as "
                "they were measured. A figure that cannot be predicted from that is left out, with the reason." }
            @if pools.is_empty() {
                p.nothing { "No pool has shadows. The key " code { "shadow" } " of a pool names some, as " code { "shadow = [\"leastconn\"]" } "." }
            }
            @for pool in &pools {
                h2 { (pool.pool) " " span.dim { "balanced by " (pool.balance) ", from its latest " (grouped(pool.requests)) " requests" } }
                @match &pool.nothing {
                    Some(nothing) => { p.dim { "Nothing to predict from: " (nothing) "." } }
                    None => { @for shadow in &pool.shadows { (one(pool, shadow)) } }
                }
            }
        })
    })
}

const FIGURES: &[Column] = &[Column::text("Figure"), Column::number("Now"), Column::number("Predicted")];

const SHARES: &[Column] =
    &[Column::text("Endpoint"), Column::text("Share now, mark: fair"), Column::text("Share predicted")];

fn one(pool: &PoolShadows, shadow: &Shadow) -> Markup {
    let whole = shadow.endpoints.iter().flat_map(|e| [e.real, e.shadow.unwrap_or(0.0), e.fair]).fold(0.0, f64::max);
    let number = |value: Option<f64>| or_dash(value, |x| format!("{x:.2}"));
    let ms = |value: Option<f64>| or_dash(value, |ns| percentile(ns / 1e6));
    html! {
        h3 { (shadow.algorithm) " " span.dim {
            @if shadow.algorithm == pool.balance { "measured: it is the algorithm of the pool" } @else if shadow.exact { "exact: its picks do not depend on the requests before" } @else { "simulated" }
        } }
        (compact(&format!("Predictions for {} with {}", pool.pool, shadow.algorithm), FIGURES, [
            Row::from(vec![html! { "In flight at the endpoint before a pick" }, html! { (number(pool.met)) }, html! { (number(shadow.met)) }]),
            Row::from(vec![html! { "p99 to the first byte" }, html! { (ms(pool.p99_ns)) }, html! { (ms(shadow.p99_ns)) }]),
            Row::from(vec![html! { "Most picks of an endpoint for its weight (1 is even)" }, html! {}, html! { (number(shadow.peak)) }]),
        ]))
        (compact(&format!("Shares in {} with {}", pool.pool, shadow.algorithm), SHARES, shadow.endpoints.iter().map(|endpoint| {
            let drawn = |part: Option<f64>| html! { @match part {
                Some(part) => { span.share { (PreEscaped(share(part, endpoint.fair, whole))) span { (percent(part)) } } }
                None => { "\u{2013}" }
            } };
            Row::from(vec![html! { (endpoint.endpoint) }, drawn(Some(endpoint.real)), drawn(endpoint.shadow)])
        })))
        @for why in &shadow.withheld { p.dim { "Not known: " (why) "." } }
    }
}
