//! Row of the table of filters, and the input of their builders.

use super::step::Step;
use crate::load::load_report::Reporter;
use crate::load::probe::Prober;
use crate::observe::stats::{ListenerStats, RouteStats};
use crate::peer::admission::Admission;
use crate::resource::{Maker, Resources};
use crate::upstream::target::{Services, Target};
use evenkeel_config::plan;
use evenkeel_tls::Challenges;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

pub struct Row {
    /// Name in explanations and in the reference.
    pub name: &'static str,
    /// Stage at which requests pass the filter.
    pub stage: Stage,
    /// Configuration of the filter.
    pub key: Key,
    /// Summary for the reference, as a sentence.
    pub summary: &'static str,
    /// Parts of messages that it sees, in addition to request heads.
    pub looks_at: LooksAt,
    /// Resources that the filter needs.
    pub resources: &'static [Maker],
    /// Builds the filter; `None` if it is not configured.
    pub build: fn(&Build<'_>) -> Option<Step>,
}

/// Configuration of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// None: the filter is always built.
    Always,
    /// Keys of `[[route]]`, any of which configures the filter: rows of [`FILTER_KEYS`](plan::FILTER_KEYS).
    Route(&'static [&'static str]),
    /// Action of `[[route]]`.
    Action(&'static str),
    /// Another key or table, as the reference names it.
    Other(&'static str),
}

/// Stage at which requests pass a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Every request of the listener, before it is routed, and every response.
    Listener,
    /// Every request of a route, and its response.
    Route,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Always => f.write_str("always there"),
            Key::Route(keys) => write!(f, "`{} of [[route]]`", keys.join(" or ")),
            Key::Action(key) => write!(f, "`{key} of [[route]]`"),
            Key::Other(key) => write!(f, "`{key}`"),
        }
    }
}

/// Parts of messages that a filter sees, in addition to request heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LooksAt {
    /// Heads of final responses.
    pub responses: bool,
    /// Content of bodies, which then pass in parts.
    pub bodies: bool,
    /// Content of request bodies whose length is not stated; others pass as they come.
    pub open_bodies: bool,
    /// Bodies of requests that the filter copies.
    pub copied_bodies: bool,
}

/// Configuration that filters are built from.
pub struct Build<'b> {
    pub listener: &'b plan::Listener,
    /// Routes of the plan by their index, for filters that lead to others.
    pub routes: &'b [plan::Route],
    /// Resources that all workers share.
    pub resources: &'b Resources,
    /// Trusted client addresses, and the limits per other address.
    pub(crate) admission: &'b Arc<Admission>,
    /// Responses to ACME challenges, if HTTP-01 is used.
    pub(crate) challenges: Option<&'b Arc<Challenges>>,
    /// Load reporter of the listener, if it reports.
    pub(crate) reporter: Option<&'b Rc<Reporter>>,
    /// Route, for filters of [`Stage::Route`].
    pub route: Option<Route<'b>>,
}

/// Route that filters are built for.
pub struct Route<'b> {
    pub plan: &'b plan::Route,
    /// Pools of the route, as the worker has them.
    pub(crate) target: &'b Target,
    /// Statistics of the listener.
    pub(crate) stats: &'b Arc<ListenerStats>,
    /// Statistics of the route at the listener.
    pub(crate) route_stats: &'b Arc<RouteStats>,
    /// Random id of this process, for loop detection.
    pub(crate) instance: u64,
    /// Pools to which filters of the route send their own requests, if there are any.
    pub(crate) services: Option<&'b Services>,
    /// Sender of load probes of the listener's worker.
    pub(crate) prober: &'b Rc<Prober>,
    /// Number of workers, to divide budgets of the process by.
    pub(crate) workers: usize,
}
