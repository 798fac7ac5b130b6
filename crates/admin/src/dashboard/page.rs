//! What is a page? What it is called, what it is asked, and what it shows.

use super::shown::since;
use super::watching::Watch;
use crate::api::Process;
use crate::api::access::Caller;
use crate::api::problem::Problem;
use evenkeel_view::words::ago;
use maud::{Markup, html};
use std::collections::HashMap;
use std::pin::Pin;

/// A page.
pub struct Page {
    /// As routers have it.
    pub path: &'static str,
    /// In the navigation and in the title.
    pub name: &'static str,
    /// What it shows.
    pub content: fn(Asked) -> Content,
    /// Whether it follows what happens, second by second.
    pub is_live: bool,
}

/// What a page shows: it may have to ask workers for it.
pub type Content = Pin<Box<dyn Future<Output = Result<Markup, Problem>> + Send>>;

/// What is asked of a page.
#[derive(Clone)]
pub struct Asked {
    /// The process that is shown.
    pub process: Process,
    /// Who looks.
    pub caller: Caller,
    /// The names within the path.
    pub path: HashMap<String, String>,
    /// The query: of each name, the last value that is not empty.
    pub query: HashMap<String, String>,
    /// Whether it is asked for every second.
    pub follows: bool,
    /// What is remembered from second to second.
    pub watch: Watch,
}

impl Asked {
    /// A value of the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A name within the path.
    pub fn named(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }
}

/// What the process is, on top of a page.
pub fn process(asked: &Asked) -> Markup {
    let status = asked.process.status();
    html! {
        p.process {
            @if status.ready { span.state.up { "ready" } }
            @else { span.state.down { "not ready: " (status.reasons.join(", ")) } }
            " evenkeel " (status.version) ", process " (status.pid) ", up " (ago(status.now_ms.saturating_sub(status.started_ms)))
            ", " (status.workers) " workers, configuration "
            @if let Some(file) = &status.config.file { code { (file) } " " }
            "generation " (status.config.generation)
            @if status.config.draining > 0 { ", " (status.config.draining) " older draining" }
            span.stale { " \u{b7} at " time { (since(status.now_ms)) } }
        }
    }
}
