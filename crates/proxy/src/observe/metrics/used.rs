//! Pools, endpoints and routes that have had something to count. Others are not shown, unless `unused` of the metrics is on.

use super::Shown;
use crate::observe::stats::{Counter, EndpointStats, Histogram, PoolStats};

impl Shown<'_> {
    /// Pools that are shown, in the order of the plan.
    pub(super) fn used_pools(&self) -> Vec<bool> {
        (0..self.plan.pools.len()).map(|pool| self.shows_all() || self.is_used(pool)).collect()
    }

    /// True if an endpoint of a pool is shown.
    pub(super) fn shows_endpoint(&self, pool: usize, endpoint: usize) -> bool {
        self.shows_all() || self.members[pool].stats(endpoint).any(has_counted)
    }

    pub(super) fn shows_all(&self) -> bool {
        self.plan.telemetry.metrics.unused
    }

    fn is_used(&self, pool: usize) -> bool {
        let members = &self.members[pool];
        self.workers.iter().any(|worker| has_counted_for(&worker.pools[pool]))
            || (0..members.endpoints.len()).any(|endpoint| members.stats(endpoint).any(has_counted))
    }
}

/// True if something happened at an endpoint, or it has reported its load.
fn has_counted(stats: &EndpointStats) -> bool {
    let single = [&stats.active, &stats.idle, &stats.connects, &stats.unreached, &stats.reported.at_ns];
    any(single) || any(&stats.requests) || any(&stats.errors)
}

/// True if something happened in a pool, whichever endpoint it was at.
fn has_counted_for(stats: &PoolStats) -> bool {
    let mirrors = &stats.mirrors;
    any(&stats.no_pick)
        || any(&stats.queue_rejected)
        || any(&stats.reports)
        || any(&stats.reports_dropped)
        || any(&stats.probes)
        || any(&mirrors.dropped)
        || any([&mirrors.sent, &mirrors.failed, &stats.retries])
        || has_observed(&stats.duration)
        || has_observed(&stats.queue_wait)
}

fn has_observed(histogram: &Histogram) -> bool {
    any(&*histogram.buckets)
}

fn any<'c>(counters: impl IntoIterator<Item = &'c Counter>) -> bool {
    counters.into_iter().any(|counter| counter.get() > 0)
}
