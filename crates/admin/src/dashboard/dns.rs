//! Zones that are answered for: rates of queries, responses by code, and the pools that names stand for.

use super::page::{Asked, Page};
use super::shown::{percent, rate};
use super::table::{Column, Row, compact};
use evenkeel_view::served::{Record, Zone};
use evenkeel_view::words::grouped;
use evenkeel_view::{Pool, Status};
use maud::{Markup, html};

pub static PAGE: Page =
    Page { path: "/ui/dns", name: "DNS", content: |asked| Box::pin(async move { Ok(content(&asked)) }), is_live: true };

const CODES: &[Column] = &[Column::text("Response"), Column::number("So far"), Column::number("Part")];

const RECORDS: &[Column] = &[Column::text("Name"), Column::text("Pool"), Column::text("Endpoints")];

fn content(asked: &Asked) -> Markup {
    let (zones, status) = (asked.process.zones(), asked.process.status());
    html! {
        h1 { "DNS" }
        @if zones.is_empty() {
            p.nothing { "No listener answers for a zone. A listener with " code { "mode = \"dns\"" } " does." }
        }
        @for zone in &zones {
            h2 { (zone.name) " " span.dim { "listener " (zone.listener) } }
            dl.figures {
                div { dt { "queries" } dd { (rate(zone.rate)) } }
                div { dt { "SERVFAIL" } dd.bad[zone.error_rate > 0.0] { (rate(zone.error_rate)) } }
                div { dt { "queries so far" } dd { (grouped(zone.queries)) } }
            }
            @if zone.responses.is_empty() { p.nothing { "No queries yet." } }
            @else { (codes(zone)) }
            (compact("Names of the zone", RECORDS, zone.records.iter().map(|one| record(one, &status))))
        }
    }
}

fn codes(zone: &Zone) -> Markup {
    let all: u64 = zone.responses.iter().map(|answered| answered.responses).sum();
    let rows = zone.responses.iter().map(|answered| {
        let part = answered.responses as f64 / all.max(1) as f64;
        Row::from(vec![
            html! { span.bad[answered.code == "SERVFAIL"] { (answered.code) } },
            html! { (grouped(answered.responses)) },
            html! { (percent(part)) },
        ])
    });
    compact("Responses by code", CODES, rows)
}

fn record(record: &Record, status: &Status) -> Row {
    let pool: Option<&Pool> = status.pools.iter().find(|pool| pool.name == record.pool);
    let up = pool.map(|pool| (pool.endpoints.iter().filter(|one| one.state == "up").count(), pool.endpoints.len()));
    Row::from(vec![
        html! { (record.name) },
        html! { a href={ "/ui/pools?q=" (record.pool) } { (record.pool) } },
        html! { @if let Some((up, all)) = up { span.bad[up == 0] { (up) " of " (all) " up" } } },
    ])
}
