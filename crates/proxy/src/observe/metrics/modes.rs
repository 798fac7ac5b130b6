//! Selection of metrics by mode: listeners and pools have only those that their mode can count.

use super::Shown;
use evenkeel_config::plan::{Listener, Mode, Pool};
use std::sync::Arc;

pub(super) type Speaks = fn(Mode) -> bool;

pub(super) fn is_http(mode: Mode) -> bool {
    mode == Mode::Http
}

pub(super) fn is_tcp(mode: Mode) -> bool {
    mode == Mode::Tcp
}

pub(super) fn is_udp(mode: Mode) -> bool {
    mode == Mode::Udp
}

/// Modes whose client connections are counted here. DNS counts its own.
pub(super) fn is_proxied_tcp(mode: Mode) -> bool {
    is_http(mode) || is_tcp(mode)
}

/// Modes whose bytes are relayed unread, in sessions or flows.
pub(super) fn has_sessions(mode: Mode) -> bool {
    is_tcp(mode) || is_udp(mode)
}

/// Modes that have requests in flight at endpoints. DNS only names endpoints and does not see requests end.
pub(super) fn forwards(mode: Mode) -> bool {
    mode.is_proxied()
}

impl Shown<'_> {
    /// Listeners whose mode matches, with their indices.
    pub(super) fn speaking(&self, speaks: Speaks) -> impl Iterator<Item = (usize, &Arc<Listener>)> {
        self.plan.listeners.iter().enumerate().filter(move |(_, listener)| speaks(listener.mode))
    }

    /// Pools that are shown and used by a listener whose mode matches, with their indices. A pool that no listener uses matches any mode.
    pub(super) fn pools_of(&self, speaks: Speaks) -> impl Iterator<Item = (usize, &Arc<Pool>)> {
        let is_meant = move |p: usize| self.modes[p].is_empty() || self.modes[p].iter().any(|mode| speaks(*mode));
        self.plan.pools.iter().enumerate().filter(move |(p, _)| self.used[*p] && is_meant(*p))
    }
}
