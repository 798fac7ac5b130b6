//! Pages of the dashboard, and requests for them.

use super::shown::since;
use super::watching::Watch;
use crate::api::Process;
use crate::api::access::Caller;
use crate::api::problem::Problem;
use evenkeel_view::words::{ago, compression_memory};
use maud::{Markup, html};
use std::collections::HashMap;
use std::pin::Pin;

/// Page of the dashboard, with its place in the router and in the navigation.
pub struct Page {
    /// Path as the router has it.
    pub path: &'static str,
    /// Name in the navigation and in the title.
    pub name: &'static str,
    /// Renders the content of the page.
    pub content: fn(Asked) -> Content,
    /// True if the page is updated every second.
    pub is_live: bool,
}

/// Content of a page. Workers may have to be asked for it.
pub type Content = Pin<Box<dyn Future<Output = Result<Markup, Problem>> + Send>>;

/// Request for a page, with its process and caller.
#[derive(Clone)]
pub struct Asked {
    pub process: Process,
    pub caller: Caller,
    /// Values of the names within the path.
    pub path: HashMap<String, String>,
    /// Query: of each name, the last value that is not empty.
    pub query: HashMap<String, String>,
    /// True if the page is rendered every second.
    pub follows: bool,
    /// Tap that stays open from second to second.
    pub watch: Watch,
}

impl Asked {
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub fn named(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }
}

/// Line about the process, at the top of a page.
pub fn process(asked: &Asked) -> Markup {
    let status = asked.process.status();
    html! {
        p.process {
            @if status.ready { span.state.up { "ready" } }
            @else { span.state.down { "not ready: " (status.reasons.join(", ")) } }
            span { "up " (ago(status.now_ms.saturating_sub(status.started_ms))) }
            span { "evenkeel " (status.version) }
            span { "process " (status.pid) }
            span { (status.workers) " workers" }
            @if let Some(memory) = &status.compression { span { "compression " (compression_memory(memory)) } }
            span { "configuration " @if let Some(file) = &status.config.file { code { (file) } " " }
                "generation " (status.config.generation)
                @if status.config.draining > 0 { ", " (status.config.draining) " older draining" } }
            span.stale { time { (since(status.now_ms)) } }
        }
    }
}
