//! What has happened to a pool and its endpoints? Checks, changes of state and panic, for metrics and the log.

use evenkeel_balance::state::{Change, State};
use evenkeel_balance::{EndpointId, EndpointSet};
use evenkeel_config::plan::{self, Address};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What has happened to one pool.
#[derive(Debug, Default)]
pub struct History {
    name: Arc<str>,
    endpoints: HashMap<EndpointId, EndpointHistory>,
    in_panic: bool,
}

/// What has happened to one endpoint.
#[derive(Debug)]
pub struct EndpointHistory {
    /// Its name in the plan.
    pub name: Arc<str>,
    /// Its address, as configured.
    pub addr: Address,
    /// How often each thing happened.
    pub counts: Counts,
    /// Why the latest check failed, if it did.
    pub failure: Option<String>,
}

/// How often each thing happened to an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
    /// How long all of them took together.
    pub checking: Duration,
    /// Changes of its state.
    pub changes: u64,
    /// How often it was ejected.
    pub ejections: u64,
}

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// Whether it passed, or why not.
    pub result: Result<(), String>,
    /// How long it took.
    pub took: Duration,
}

impl History {
    /// Switches to the endpoints of a plan. Those that stay keep their numbers.
    pub fn apply(&mut self, plan: &plan::Pool) {
        self.name = plan.name.clone();
        let mut before = std::mem::take(&mut self.endpoints);
        let endpoints = plan.endpoints.iter().map(|e| {
            let id = EndpointId::of(&e.name);
            let seen = before.remove(&id);
            let (counts, failure) = seen.map(|seen| (seen.counts, seen.failure)).unwrap_or_default();
            (id, EndpointHistory { name: e.name.clone(), addr: e.addr.clone(), counts, failure })
        });
        self.endpoints = endpoints.collect();
    }

    /// Each endpoint, in no order.
    pub fn endpoints(&self) -> impl Iterator<Item = &EndpointHistory> {
        self.endpoints.values()
    }

    /// One endpoint.
    pub fn endpoint(&self, id: EndpointId) -> Option<&EndpointHistory> {
        self.endpoints.get(&id)
    }

    /// Whether so few endpoints are healthy that health is ignored.
    pub fn in_panic(&self) -> bool {
        self.in_panic
    }

    /// Counts a check.
    pub fn on_check(&mut self, id: EndpointId, checked: &Checked) {
        let Some(endpoint) = self.endpoints.get_mut(&id) else { return };
        match &checked.result {
            Ok(()) => endpoint.counts.passed += 1,
            Err(_) => endpoint.counts.failed += 1,
        }
        endpoint.counts.checking += checked.took;
        endpoint.failure = checked.result.clone().err();
    }

    /// Counts changes, and logs them.
    pub fn record(&mut self, changes: &[Change], set: &EndpointSet) {
        let pool = &*self.name;
        for change in changes {
            let Some(endpoint) = self.endpoints.get_mut(&change.id) else { continue };
            endpoint.counts.changes += 1;
            let (name, from, to) = (&*endpoint.name, change.from, change.to);
            match to {
                State::Down => {
                    let why = endpoint.failure.as_deref().unwrap_or("never passed a check");
                    tracing::warn!(pool, endpoint = name, why, "endpoint is down: its health check fails");
                }
                State::Ejected(cause) => {
                    endpoint.counts.ejections += 1;
                    tracing::warn!(pool, endpoint = name, %cause, "endpoint is ejected");
                }
                _ => tracing::info!(pool, endpoint = name, %from, %to, "endpoint has changed"),
            }
        }
        let in_panic = set.in_panic();
        if std::mem::replace(&mut self.in_panic, in_panic) != in_panic {
            match in_panic {
                true => {
                    tracing::error!(pool, "panic: too few endpoints are healthy; see panic.mode for what happens now")
                }
                false => tracing::warn!(pool, "panic is over: enough endpoints are healthy"),
            }
        }
    }
}
