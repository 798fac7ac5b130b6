//! History of a pool and its endpoints: checks, state changes and panic, for metrics and the log.

use crate::events::Events;
use evenkeel_balance::EndpointId;
use evenkeel_balance::eligible::PanicMode;
use evenkeel_balance::state::{Change, State};
use evenkeel_config::plan::{Address, Endpoint, Own};
use evenkeel_view::Check;
use evenkeel_view::events::Kind;
use evenkeel_view::words::unix_ms;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[derive(Debug, Default)]
pub struct History {
    name: Arc<str>,
    endpoints: HashMap<EndpointId, EndpointHistory>,
    in_panic: bool,
}

#[derive(Debug)]
pub struct EndpointHistory {
    pub name: Arc<str>,
    pub addr: Address,
    /// Host and name in TLS that only this endpoint has.
    pub own: Own,
    /// Counts of each kind of event.
    pub counts: Counts,
    /// Latest check; `None` before the first.
    pub checked: Option<Check>,
    /// Start of the current state, in milliseconds since 1970.
    pub since_ms: u64,
}

impl EndpointHistory {
    /// Reason why the latest check failed; `None` if it passed.
    pub fn failure(&self) -> Option<&str> {
        self.checked.as_ref()?.failure.as_deref()
    }
}

/// Counts of each kind of event at an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of checks that passed.
    pub passed: u64,
    /// Number of checks that failed.
    pub failed: u64,
    /// Total duration of all checks.
    pub checking: Duration,
    pub changes: u64,
    pub ejections: u64,
}

#[derive(Debug)]
pub struct Checked {
    /// Success, or the reason of the failure.
    pub result: Result<(), String>,
    pub took: Duration,
}

impl History {
    /// Switches to other endpoints. Those that stay keep their counts.
    pub fn apply(&mut self, pool: &Arc<str>, endpoints: &[Endpoint]) {
        self.name = pool.clone();
        let mut before = std::mem::take(&mut self.endpoints);
        let endpoints = endpoints.iter().map(|e| {
            let id = EndpointId::of(&e.name);
            let seen = before.remove(&id);
            let (name, addr, own) = (e.name.clone(), e.addr.clone(), e.own.clone());
            let new = || EndpointHistory {
                name: name.clone(),
                addr: addr.clone(),
                own: own.clone(),
                counts: Counts::default(),
                checked: None,
                since_ms: unix_ms(SystemTime::now()),
            };
            let seen = seen.unwrap_or_else(new);
            (id, EndpointHistory { name, addr, own, ..seen })
        });
        self.endpoints = endpoints.collect();
    }

    /// Returns the endpoints, in no order.
    pub fn endpoints(&self) -> impl Iterator<Item = &EndpointHistory> {
        self.endpoints.values()
    }

    pub fn endpoint(&self, id: EndpointId) -> Option<&EndpointHistory> {
        self.endpoints.get(&id)
    }

    /// Returns true if so few endpoints are healthy that `panic.mode` applies.
    pub fn in_panic(&self) -> bool {
        self.in_panic
    }

    /// Counts a check, and records it as the latest.
    pub fn on_check(&mut self, id: EndpointId, checked: &Checked) {
        let Some(endpoint) = self.endpoints.get_mut(&id) else { return };
        match &checked.result {
            Ok(()) => endpoint.counts.passed += 1,
            Err(_) => endpoint.counts.failed += 1,
        }
        endpoint.counts.checking += checked.took;
        endpoint.checked = Some(Check {
            at_ms: unix_ms(SystemTime::now()),
            took_ms: checked.took.as_secs_f64() * 1e3,
            failure: checked.result.clone().err(),
        });
    }

    /// Counts state changes, logs them and adds them to the events. `states`: of all endpoints, after the changes;
    /// `mode`: behaviour of the pool in a panic.
    pub fn record(
        &mut self,
        changes: &[Change],
        in_panic: bool,
        states: impl Iterator<Item = State>,
        mode: PanicMode,
        events: &Events,
    ) {
        let pool = &*self.name;
        for change in changes {
            let Some(endpoint) = self.endpoints.get_mut(&change.id) else { continue };
            endpoint.counts.changes += 1;
            endpoint.since_ms = unix_ms(SystemTime::now());
            let (name, from, to) = (&*endpoint.name, change.from, change.to);
            let why = match to {
                State::Down => format!(": {}", endpoint.failure().unwrap_or("never passed a check")),
                _ => String::new(),
            };
            let about = (Some(&self.name), Some(&endpoint.name));
            events.tell(Kind::Endpoint, about, format!("{} -> {to}{why}", from.name()), None);
            match to {
                State::Down => {
                    let why = endpoint.failure().unwrap_or("never passed a check");
                    tracing::warn!(pool, endpoint = name, why, "endpoint down: health check failed");
                }
                State::Ejected(cause) => {
                    endpoint.counts.ejections += 1;
                    tracing::warn!(pool, endpoint = name, %cause, "endpoint ejected");
                }
                _ => tracing::info!(pool, endpoint = name, %from, %to, "endpoint changed state"),
            }
        }
        if std::mem::replace(&mut self.in_panic, in_panic) != in_panic {
            let text = panic_text(pool, states, in_panic.then_some(mode));
            events.tell(Kind::Pool, (Some(&self.name), None), text.clone(), None);
            match in_panic {
                true => tracing::error!(pool, "{text}"),
                false => tracing::warn!(pool, "{text}"),
            }
        }
    }
}

/// Returns the log line for the begin (`mode` is set) or end of a panic.
fn panic_text(pool: &str, states: impl Iterator<Item = State>, mode: Option<PanicMode>) -> String {
    let (mut healthy, mut all) = (0, 0);
    // Endpoints that are configured out of use do not count as unhealthy.
    for state in states.filter(|s| !matches!(s, State::Draining | State::Disabled | State::Unresolved)) {
        all += 1;
        healthy += usize::from(matches!(state, State::Up | State::Ramping));
    }
    let what = match mode {
        None => "panic ended",
        Some(PanicMode::UseAll) => "using all of them (panic.mode = \"use-all\")",
        Some(PanicMode::Refuse) => "refusing its requests (panic.mode = \"refuse\")",
    };
    format!("pool \"{pool}\": {healthy} of {all} endpoints healthy; {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_the_pool_its_numbers_and_what_happens_now() {
        use State::{Down, Draining, Ramping, Unresolved, Up};
        let text = |states: &[State], mode| panic_text("shop", states.iter().copied(), mode);
        assert_eq!(
            text(&[Down, Down, Draining, Down], Some(PanicMode::UseAll)),
            "pool \"shop\": 0 of 3 endpoints healthy; using all of them (panic.mode = \"use-all\")"
        );
        assert_eq!(
            text(&[Up, Down, Unresolved, Down], Some(PanicMode::Refuse)),
            "pool \"shop\": 1 of 3 endpoints healthy; refusing its requests (panic.mode = \"refuse\")"
        );
        assert_eq!(text(&[Up, Ramping, Down], None), "pool \"shop\": 2 of 3 endpoints healthy; panic ended");
    }
}
