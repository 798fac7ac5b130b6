//! Rules of a pool: its section of the plan, for keys that are read where they are used, and values compiled from it.

use super::hosts::Hosts;
use super::sticky::Sticky;
use evenkeel_config::plan;
use evenkeel_net::tls::towards::Towards;
use std::sync::Arc;

/// Rules of a pool under a plan, shared by all workers.
#[derive(Clone)]
pub struct PoolRules {
    /// The pool as planned. The endpoints in use are in [`Endpoints`](super::pool::Endpoints): discovery may have found
    /// others.
    pub plan: Arc<plan::Pool>,
    /// Values compiled from the plan.
    pub compiled: Arc<Compiled>,
}

/// Values compiled from the plan of a pool, once for all workers.
pub struct Compiled {
    /// TLS towards endpoints; `None` = plain.
    pub tls: Option<Towards>,
    /// Cookies of sticky sessions; `None` = off.
    pub sticky: Option<Sticky>,
    /// Hosts of endpoints as configured.
    pub hosts: Hosts,
}

impl PoolRules {
    /// True if `next` opens connections to endpoints differently, so that idle connections cannot be reused.
    pub(super) fn connects_otherwise(&self, next: &PoolRules) -> bool {
        let (plan, new) = (&self.plan, &next.plan);
        plan.protocol != new.protocol || plan.http2 != new.http2 || self.compiled.tls != next.compiled.tls
    }

    /// Longest time for which a connection to an endpoint is kept idle, in nanoseconds.
    pub(super) fn idle_ns(&self) -> u64 {
        self.plan.timeouts.upstream_idle.as_nanos() as u64
    }
}
