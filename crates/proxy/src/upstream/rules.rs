//! Rules of one pool: its section of the plan, read where a key is used, and values made from it.

use super::sticky::Sticky;
use evenkeel_config::plan;
use evenkeel_net::tls::towards::Towards;
use std::sync::Arc;

/// Rules of one pool under one plan, the same for all workers.
#[derive(Clone)]
pub struct PoolRules {
    /// The pool as planned. Endpoints that are in use are those of [`Endpoints`](super::pool::Endpoints): discovery may have
    /// found others than the plan names.
    pub plan: Arc<plan::Pool>,
    /// Values made from the plan.
    pub compiled: Arc<Compiled>,
}

/// Values made from the plan of one pool, once for all workers.
pub struct Compiled {
    /// TLS towards endpoints; `None` = it is not spoken.
    pub tls: Option<Towards>,
    /// Cookies by which clients find their endpoint again; `None` = there are none.
    pub sticky: Option<Sticky>,
}

impl PoolRules {
    /// True if idle connections to endpoints are of no use under `next`: they would be opened in another way.
    pub(super) fn connects_otherwise(&self, next: &PoolRules) -> bool {
        let (plan, new) = (&self.plan, &next.plan);
        plan.protocol != new.protocol || plan.http2 != new.http2 || self.compiled.tls != next.compiled.tls
    }

    /// Time for which an idle connection to an endpoint is kept, nanoseconds.
    pub(super) fn idle_ns(&self) -> u64 {
        self.plan.timeouts.upstream_idle.as_nanos() as u64
    }
}
