//! The configuration that runs, and those before it. A text is checked, with every error in its place, and applied; an
//! earlier configuration is rolled back to.

use super::page::{Asked, Content, Page};
use super::shown::since;
use super::table::{Column, Row, table};
use crate::api::config::tag;
use crate::api::problem::Problem;
use evenkeel_view::config::{Config, Revision, Running};
use evenkeel_view::words::ago;
use maud::{Markup, PreEscaped, html};

/// The page does not follow events, or text that was typed would be lost.
pub static PAGE: Page =
    Page { path: "/ui/config", name: "Config", content: |asked| ready(all(&asked)), is_live: false };

/// Page of an earlier configuration.
pub static ONE: Page = Page {
    path: "/ui/config/{generation}",
    name: "Configuration",
    content: |asked| ready(one(&asked)),
    is_live: false,
};

fn ready(page: Result<Markup, Problem>) -> Content {
    Box::pin(std::future::ready(page))
}

fn all(asked: &Asked) -> Result<Markup, Problem> {
    let Config { running, text, source } = asked.process.config(asked.caller.may_change);
    let now_ms = asked.process.status().now_ms;
    let may = asked.caller.may_change;
    Ok(html! {
        h1 { "Configuration" }
        p { (what(&running, now_ms)) }
        @if running.differs { (differs(&running, may)) }
        h2 { "Change it" }
        @if may {
            p.dim { "A change applies as a whole or not at all, and loses no request. The file stays as it is until the configuration is saved to it." }
        } @else {
            p.dim { "Sign in to change it. Asterisks stand for secrets." }
        }
        form.config data-config data-match=(tag(running.generation)) {
            label for="text" { "TOML" }
            div.editor {
                pre.lines aria-hidden="true" {}
                textarea #text name="text" rows="24" wrap="off" spellcheck="false" autocapitalize="off" readonly[!may]
                    { (PreEscaped("\n")) (source.as_deref().unwrap_or(&text)) }
            }
            p {
                button type="button" data-wish="check" disabled[!may] { "Check" } " "
                button type="button" data-wish="apply" data-asks="apply it?" disabled[!may] { "Apply" }
            }
            div #outcome role="status" {}
        }
        @if source.as_deref().is_some_and(|source| source != text) {
            details { summary { "The whole configuration, with included files and without defaults" } pre.text { (text) } }
        }
        h2 { "History" }
        (history(&asked.process.revisions(), &running, now_ms, may))
    })
}

/// Generation that runs, and the origin of it.
fn what(running: &Running, now_ms: u64) -> Markup {
    html! {
        "Generation " strong #generation { (running.generation) } " runs since " time { (since(running.since_ms)) } ", for "
        (ago(now_ms.saturating_sub(running.since_ms))) ": " (running.how) " by " (running.by)
        @if let Some(file) = &running.file { ", file " code { (file) } }
        @if running.draining > 0 { "; " (running.draining) " older ones still have requests" }
        "."
    }
}

fn differs(running: &Running, may: bool) -> Markup {
    html! {
        p.warn #differs {
            @match &running.file {
                Some(file) => {
                    "It differs from " code { (file) } ": a reload or a restart goes back to the file. "
                    @if may {
                        button data-method="POST" data-path="/v1/config/save" data-match=(tag(running.generation)) data-asks="overwrite the file?"
                            data-again="" { "Save it to the file" }
                    }
                }
                None => { "It is not in a file, so a restart forgets it." }
            }
        }
    }
}

const COLUMNS: &[Column] = &[
    Column::text("Generation"),
    Column::text("Since"),
    Column::text("How"),
    Column::text("By"),
    Column::text("Differences to the one before"),
    Column::text("Again"),
];

fn history(revisions: &[Revision], running: &Running, now_ms: u64, may: bool) -> Markup {
    let row = |one: &Revision| {
        Row::from(vec![
            html! { a href={ "/ui/config/" (one.generation) } { (one.generation) } },
            html! { (ago(now_ms.saturating_sub(one.since_ms))) " ago" },
            html! { (one.how) },
            html! { (one.by) },
            html! { @if !one.changes.is_empty() { div.changes {
                @for change in one.changes.iter().take(CHANGES) { (change) br; }
                @if one.changes.len() > CHANGES { "and " (one.changes.len() - CHANGES) " more" }
            } } },
            html! { @if one.generation == running.generation { "runs now" } @else if may {
                button data-method="POST" data-path="/v1/config/rollback" data-body=(format!("{{\"generation\":{}}}", one.generation))
                    data-match=(tag(running.generation)) data-asks=(format!("go back to {}?", one.generation)) data-again=""
                    { "Roll back to " (one.generation) }
            } },
        ])
    };
    table("Configurations", COLUMNS, revisions.iter().map(row))
}

/// Differences that are listed of a revision.
const CHANGES: usize = 8;

fn one(asked: &Asked) -> Result<Markup, Problem> {
    let generation = asked.named("generation");
    let config =
        generation.parse().ok().and_then(|generation| asked.process.revision(generation, asked.caller.may_change));
    let config = config.ok_or_else(|| Problem::not_found(format!("no generation {generation} is kept")))?;
    let now_ms = asked.process.status().now_ms;
    Ok(html! {
        h1 { "Configuration " (config.running.generation) }
        p { a href="/ui/config" { "The configuration that runs, and all others" } }
        p { "Since " time { (since(config.running.since_ms)) } ", " (ago(now_ms.saturating_sub(config.running.since_ms))) " ago: "
            (config.running.how) " by " (config.running.by) "." }
        pre.text tabindex="0" { (config.source.as_deref().unwrap_or(&config.text)) }
    })
}
