//! A row of the table of filters, and what filters are built from.

use super::filter::Filter;
use crate::load::load_report::Reporter;
use crate::peer::admission::Admission;
use crate::upstream::pool::WorkerPool;
use evenkeel_config::plan;
use evenkeel_tls::Challenges;
use std::rc::Rc;
use std::sync::Arc;

pub struct Row {
    /// Name in explanations and in the reference.
    pub name: &'static str,
    /// Stage at which requests pass it.
    pub stage: Stage,
    /// The key that configures it; empty if it always is there.
    pub key: &'static str,
    /// Summary for the reference, as a sentence.
    pub summary: &'static str,
    /// Parts of messages that it sees, in addition to request heads.
    pub looks_at: LooksAt,
    /// Builds it; `None` where it is not configured.
    pub build: fn(&Build<'_>) -> Option<Box<dyn Filter>>,
}

/// The requests that pass a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Each request of the listener, before its route is looked for; and each response.
    Listener,
    /// Each request of a route; and its response.
    Route,
}

/// Parts of messages that a filter sees, in addition to request heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LooksAt {
    /// Heads of final responses.
    pub responses: bool,
    /// The content of bodies: they pass in parts then.
    pub bodies: bool,
}

/// Configuration that filters are built from.
pub struct Build<'b> {
    pub listener: &'b plan::Listener,
    /// The client addresses that are trusted, and the limits of each other one.
    pub(crate) admission: &'b Arc<Admission>,
    /// Answers for authorities that issue certificates.
    pub(crate) challenges: Option<&'b Arc<Challenges>>,
    /// The load of the listener, where that is reported.
    pub(crate) reporter: Option<&'b Rc<Reporter>>,
    /// The route, for filters of one.
    pub route: Option<Route<'b>>,
}

/// The route that filters are built for.
pub struct Route<'b> {
    pub plan: &'b plan::Route,
    /// Pool of the route, as the worker has it.
    pub(crate) pool: &'b WorkerPool,
    /// Random id of this process, for loop detection.
    pub(crate) instance: u64,
}
