//! Endpoint states as single words, for metrics, logs and pages. Decisions never read them.

use crate::endpoints::endpoint::EndpointId;
use crate::machines::outlier::Cause;
use crate::structures::time::Instant;
use std::fmt;

/// The state of an endpoint, for metrics, logs and pages: the first of these that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Gets no new requests, by configuration.
    Draining,
    /// Gets no requests, as its weight is 0.
    Disabled,
    /// Its name has no address yet.
    Unresolved,
    /// Health checks of the endpoint fail.
    Down,
    /// Waits for its first health check.
    Unchecked,
    /// Too many of its requests failed or were slow.
    Ejected(Cause),
    /// Back from ejection with a single request at a time, until the first outcome.
    Probation,
    /// Up, with part of its weight (slow start).
    Ramping,
    /// Up, with its whole weight.
    Up,
}

impl State {
    /// Name of the state in metrics, a single word.
    pub fn name(self) -> &'static str {
        match self {
            State::Draining => "draining",
            State::Disabled => "disabled",
            State::Unresolved => "unresolved",
            State::Down => "down",
            State::Unchecked => "unchecked",
            State::Ejected(_) => "ejected",
            State::Probation => "probation",
            State::Ramping => "ramping",
            State::Up => "up",
        }
    }

    /// All names, in the order of the variants.
    pub const NAMES: [&'static str; 9] =
        ["draining", "disabled", "unresolved", "down", "unchecked", "ejected", "probation", "ramping", "up"];
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Ejected(cause) => write!(f, "ejected: {cause}"),
            state => f.write_str(state.name()),
        }
    }
}

/// A change of an endpoint's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Identity of the endpoint.
    pub id: EndpointId,
    /// State of the endpoint before the change.
    pub from: State,
    /// State of the endpoint after the change.
    pub to: State,
    /// Time at which the change was noticed.
    pub at: Instant,
}
