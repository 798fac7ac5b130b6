//! Requests as they end: the latest that fit a filter, with their phases and tries on a common scale of time.

use super::page::{Asked, Content, Page};
use super::shown::{milliseconds, page_of, since};
use super::table::{Column, Row, table};
use crate::api::problem::Problem;
use evenkeel_draw::phases::{Phase, phases};
use evenkeel_view::Status;
use evenkeel_view::tap::{Filter, Tapped};
use evenkeel_view::words::{escaped, grouped};
use maud::{Markup, PreEscaped, html};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::sleep;

pub static PAGE: Page = Page { path: "/ui/tap", name: "Tap", content, is_live: true };

/// Wait for requests of a caller that does not follow the page.
const WAIT: Duration = Duration::from_millis(300);

/// Names and colours of phases.
const QUEUE: (&str, usize) = ("queue", 4);
const CONNECT: (&str, usize) = ("connect", 3);
const FIRST_BYTE: (&str, usize) = ("first byte", 0);
const BODY: (&str, usize) = ("body", 2);

/// Colours of tries: a failed try, and a try that was answered.
const TRIED: [usize; 2] = [1, 6];

fn content(asked: Asked) -> Content {
    Box::pin(async move {
        let filter = filter(&asked)?;
        let first = asked.watch.look(&asked.process, &filter).await?;
        let seen = match asked.follows {
            true => first,
            false => {
                sleep(WAIT).await;
                asked.watch.look(&asked.process, &filter).await?
            }
        };
        let longest = seen.latest.iter().map(|one| one.total_ms).fold(0.0, f64::max);
        let columns = [
            Column::text("Request"),
            Column::text("Ended"),
            Column::number("Status"),
            Column::text("Endpoint"),
            Column::number("Took"),
            Column::text("Phases, and tries below"),
            Column::text("Remarks"),
        ];
        Ok(html! {
            h1 { "Tap" }
            p.dim { "Requests as they end, the latest first, on a scale from 0 to " (milliseconds(longest)) ". Phases: "
                @for (name, colour) in [QUEUE, CONNECT, FIRST_BYTE, BODY] { span class={ "key k" (colour) } {} (name) }
                ". Tries: " span.key.k6 {} "answered" span.key.k1 {} "failed" "." }
            (form(&asked, &asked.process.status()))
            @if seen.dropped > 0 {
                p.warn { (grouped(seen.dropped)) " requests came too fast to be shown. A part below 1 shows fewer of them." }
            }
            @if seen.latest.is_empty() { p.nothing { "No request that fits has ended yet." } }
            @else { (table("Requests", &columns, seen.latest.iter().map(|one| row(one, longest)))) }
        })
    })
}

fn row(one: &Tapped, longest: f64) -> Row {
    Row::from(vec![
        html! { span title={ "request " (one.request_id) " of " (one.client) } { (one.method) " " (one.host) (one.path) } },
        html! { (since(one.at_ms + one.total_ms as u64)) },
        html! { span.bad[one.status >= 500 || one.status == 0] { @if one.status == 0 { "\u{2013}" } @else { (one.status) } } },
        html! { @match one.tries.last() {
            Some(last) => { a href=(page_of(&one.pool, &last.endpoint)) { (one.pool) "/" (last.endpoint) } }
            None => { @if one.pool.is_empty() { "\u{2013}" } @else { (one.pool) } }
        } },
        html! { (milliseconds(one.total_ms)) },
        html! { (PreEscaped(bars(one, longest))) },
        html! { (remarks(one)) },
    ])
}

/// Draws the phases of a request and its tries.
fn bars(one: &Tapped, longest: f64) -> String {
    let queue = one.queue_ms;
    let connect = queue + one.connect_ms.unwrap_or(0.0);
    let first = one.ttfb_ms.unwrap_or(one.total_ms).max(connect);
    let spans =
        [(QUEUE, 0.0, queue), (CONNECT, queue, connect), (FIRST_BYTE, connect, first), (BODY, first, one.total_ms)];
    let spans = spans.into_iter().filter(|(_, from, to)| to > from);
    let shown: Vec<_> = spans.map(|((name, colour), from, to)| Phase { name, span: (from, to), colour }).collect();
    let tries = one.tries.iter().map(|tried| Phase {
        name: &tried.endpoint,
        span: (tried.at_ms, tried.at_ms + tried.took_ms),
        colour: TRIED[usize::from(tried.end == "answered")],
    });
    let label = shown.iter().map(|one| format!("{} {}", one.name, milliseconds(one.span.1 - one.span.0)));
    phases(&shown, &tries.collect::<Vec<_>>(), longest, &label.collect::<Vec<_>>().join(", "))
}

/// Tries of a request that had several, and the reason why a try did not end normally.
fn remarks(one: &Tapped) -> String {
    let mut remarks = Vec::new();
    if one.tries.len() > 1 {
        let tries = one.tries.iter().map(|tried| format!("{}: {}", tried.endpoint, tried.end));
        remarks.push(tries.collect::<Vec<_>>().join(", "));
    }
    if one.end != "normal" {
        remarks.push(format!("ended by {} in {}", one.end, one.phase));
    }
    remarks.extend(one.reason.clone());
    remarks.join("; ")
}

fn filter(asked: &Asked) -> Result<Filter, Problem> {
    let text = |name: &str| asked.value(name).map(str::to_owned);
    let number = |name: &str| match asked.value(name).map(f64::from_str) {
        Some(Err(_)) => Err(Problem::malformed(format!("{name} must be a number"))),
        Some(Ok(number)) => Ok(Some(number)),
        None => Ok(None),
    };
    Ok(Filter {
        sample: number("sample")?,
        pool: text("pool"),
        endpoint: text("endpoint"),
        method: text("method"),
        host: text("host"),
        path: text("path"),
        status: text("status"),
        min_ms: number("min_ms")?,
        ..Filter::default()
    })
}

fn form(asked: &Asked, status: &Status) -> Markup {
    let value = |name: &str| asked.value(name).unwrap_or_default();
    html! { form.filter method="get" action="/ui/tap" role="search" {
        label { "Pool " select name="pool" {
            option value="" { "all" }
            @for pool in &status.pools { option value=(pool.name) selected[value("pool") == pool.name] { (pool.name) } }
        } }
        label { "Endpoint " input name="endpoint" size="10" value=(value("endpoint")); }
        label { "Status " input name="status" size="5" placeholder="5xx" value=(value("status")); }
        label { "Method " input name="method" size="6" value=(value("method")); }
        label { "Path begins with " input name="path" size="14" placeholder="/" value=(value("path")); }
        label { "At least, ms " input name="min_ms" size="5" value=(value("min_ms")); }
        label { "Part shown " input name="sample" size="5" placeholder="1" value=(value("sample")); }
        button { "Show" }
        @if let Some(pool) = asked.value("pool") { a href={ "/ui/pools#" (escaped(pool)) } { "The pool" } }
    } }
}
