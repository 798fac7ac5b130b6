//! Why did a request go there? Those whose picks are kept, and one of them in full.

use super::json::{brief, each, nanoseconds, number, text};
use super::page::{Asked, Content, Page};
use super::shown::{ago, escaped, since};
use crate::api::types::Look;
use maud::{Markup, html};
use serde_json::Value;

/// All that are kept.
pub static PAGE: Page = Page { path: "/ui/explain", name: "Explain", content: kept, is_live: true };

/// One of them.
pub static ONE: Page = Page { path: "/ui/explain/{id}", name: "Explain", content: one, is_live: false };

/// How many are listed.
const LISTED: usize = 100;

fn kept(asked: Asked) -> Content {
    Box::pin(async move {
        let all = asked.process.look(Look::Explanations { pool: None, limit: LISTED }).await?;
        let status = asked.process.status();
        Ok(html! {
            h1 { "Explain" }
            p.dim { "Picks of requests that were sampled (" code { "telemetry.explain.sample" } "), asked for by their token, or by the buttons." }
            @if asked.caller.may_change {
                p.buttons { @for pool in status.pools.iter().take(20) {
                    button type="button" data-method="POST" data-path={ "/v1/explanations/next/" (escaped(&pool.name)) } {
                        "Explain the next of " (pool.name)
                    }
                } }
            }
            @if all.as_array().is_none_or(Vec::is_empty) { p { "None is kept." } }
            @else { div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "Request" } th scope="col" { "When" } th scope="col" { "Asked by" } th scope="col" { "What" }
                    th scope="col" { "Pool" } th scope="col" { "Endpoint" } th.number scope="col" { "Tries" } th.number scope="col" { "Status" }
                    th.number scope="col" { "Took" } } }
                tbody { @for one in all.as_array().into_iter().flatten() { tr {
                    th scope="row" { a href={ "/ui/explain/" (escaped(text(one, "request_id"))) } { (text(one, "request_id")) } }
                    td { (when(one)) }
                    td { (text(one, "asked")) }
                    td { (text(one, "method")) " " (text(one, "host")) (text(one, "path")) }
                    td { (text(one, "pool")) }
                    td { (each(one, "tries").last().map_or("\u{2013}", |last| text(last, "endpoint"))) }
                    td.number { (each(one, "tries").count()) }
                    td.number { (one["status"]) }
                    td.number { (nanoseconds(one, "total_ns")) }
                } } }
            } } }
        })
    })
}

fn when(one: &Value) -> String {
    one["at_ms"].as_u64().map_or_else(String::new, since)
}

fn one(asked: Asked) -> Content {
    Box::pin(async move {
        let one = asked.process.look(Look::Explanation(asked.named("id").to_owned())).await?;
        Ok(html! {
            h1 { "Request " (text(&one, "request_id")) }
            p { (text(&one, "method")) " " (text(&one, "host")) (text(&one, "path")) " at " (when(&one)) ", answered with " (one["status"])
                " after " (nanoseconds(&one, "total_ns")) }
            p { "Listener " (text(&one, "listener")) " \u{2192} route " (text(&one, "route")) " \u{2192} pool " (text(&one, "pool"))
                "; worker " (one["worker"]) "; " (nanoseconds(&one, "queue_ns")) " of it in the queue; ended by " (text(&one, "end"))
                " in " (text(&one, "phase")) "." }
            @for (at, try_) in each(&one, "tries").enumerate() {
                h2 { "Try " (at + 1) ": " (text(try_, "endpoint")) " " span.dim { (text(try_, "how")) ", after " (nanoseconds(try_, "at_ns")) } }
                @if let Some(why) = try_["failed"].as_str() { p.bad { "Failed: " (why) } }
                @if !try_["pick"].is_null() { (pick(&try_["pick"])) }
            }
        })
    })
}

/// One pick: what was compared, what was left out, and what decided.
pub fn pick(pick: &Value) -> Markup {
    let picked = text(pick, "picked");
    // Columns that no candidate has are left out.
    let columns = [("load", "Counted as"), ("score", "Score"), ("place", "Place"), ("tier", "Tier"), ("zone", "Zone")];
    let columns: Vec<_> =
        columns.into_iter().filter(|(key, _)| each(pick, "candidates").any(|one| !one[key].is_null())).collect();
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    html! {
        @if let Some(why) = pick["refused"].as_str() { p.bad { "None: " (why) } }
        p { "Rule: " (text(pick, "rule")) }
        p { "Decided by " (text(pick, "decides")) "; " (pick["in_flight"]) " in flight in the pool"
            @if let Some(key) = pick["key"].as_str() { "; key " code { (key) } } "." }
        @if number(pick, "level").is_some_and(|level| level > 0.0) {
            p { "From overflow " (pick["level"]) ": all before it were tried or full." }
        }
        @if pick["in_panic"] == true { p.bad { "In panic: so few endpoints are healthy that health is ignored." } }
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
            thead { tr { th scope="col" { "Compared" } th.number scope="col" { "In flight" } th.number scope="col" { "Weight" }
                @for (_, label) in &columns { th.number scope="col" { (label) } }
                th.number scope="col" { "Ahead" } th.number scope="col" { "Answered in" } } }
            tbody { @for one in each(pick, "candidates") { tr.picked[text(one, "endpoint") == picked] {
                th scope="row" { @if text(one, "endpoint") == picked { "\u{2714} " } (text(one, "endpoint")) }
                td.number { (one["in_flight"]) }
                td.number { (one["weight"]) }
                @for (key, _) in &columns { td.number { (brief(&one[key])) } }
                td.number { (brief(&one["ahead"])) }
                td.number { @if !one["latency_ns"].is_null() { (nanoseconds(one, "latency_ns")) } }
            } } }
        } }
        @if number(pick, "unlisted").is_some_and(|more| more > 0.0) { p.dim { "And " (pick["unlisted"]) " behind them." } }
        @if each(pick, "excluded").next().is_some() {
            p { "Not compared:" }
            ul { @for one in each(pick, "excluded") {
                li { (text(one, "endpoint")) ": " (text(one, "reason"))
                    @if let Some(since) = one["since_ms"].as_u64() { ", for " (ago(now.saturating_sub(since))) } }
            } }
            @if number(pick, "excluded_more").is_some_and(|more| more > 0.0) { p.dim { "And " (pick["excluded_more"]) " more." } }
        }
    }
}
