//! Modes of metrics: listeners and pools have only the metrics that their mode can count.

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

/// Clients' connections are counted in the same way, whatever they say. DNS counts its own.
pub(super) fn is_proxied_tcp(mode: Mode) -> bool {
    is_http(mode) || is_tcp(mode)
}

/// Something is under way at an endpoint. DNS names endpoints, and never hears of an end.
pub(super) fn forwards(mode: Mode) -> bool {
    mode != Mode::Dns
}

impl Shown<'_> {
    /// Each listener that is meant, with its index.
    pub(super) fn speaking(&self, speaks: Speaks) -> impl Iterator<Item = (usize, &Arc<Listener>)> {
        self.plan.listeners.iter().enumerate().filter(move |(_, listener)| speaks(listener.mode))
    }

    /// Each pool that a listener which is meant leads to, with its index. One that none leads to is for any.
    pub(super) fn pools_of(&self, speaks: Speaks) -> impl Iterator<Item = (usize, &Arc<Pool>)> {
        let is_meant = move |p: usize| self.modes[p].is_empty() || self.modes[p].iter().any(|mode| speaks(*mode));
        self.plan.pools.iter().enumerate().filter(move |(p, _)| is_meant(*p))
    }
}
