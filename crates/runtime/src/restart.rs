//! Keys that change only by a restart.

use evenkeel_config::Plan;

/// Restores what cannot change while the process runs; returns the names of the keys.
pub fn keep_until_restart(now: &Plan, next: &mut Plan) -> Vec<&'static str> {
    let mut kept = Vec::new();
    let mut keep = |key, differs: bool| kept.extend(differs.then_some(key));
    // Counts are sharded by worker, and histograms keep the buckets that they have.
    keep("runtime.workers", next.runtime.workers != now.runtime.workers);
    keep("telemetry.metrics.buckets", next.telemetry.metrics.buckets != now.telemetry.metrics.buckets);
    // The journal starts with its balancer: what that has learned before could not be recorded.
    keep("telemetry.journal", next.telemetry.journal != now.telemetry.journal);
    // These belong to the process around the planes, which sets them up once.
    keep("telemetry.metrics.path", next.telemetry.metrics.path != now.telemetry.metrics.path);
    keep("runtime.log", next.runtime.log != now.runtime.log);
    keep("admin", next.admin != now.admin);
    next.runtime.workers = now.runtime.workers;
    next.runtime.log = now.runtime.log;
    next.telemetry.metrics.buckets.clone_from(&now.telemetry.metrics.buckets);
    next.telemetry.metrics.path.clone_from(&now.telemetry.metrics.path);
    next.telemetry.journal.clone_from(&now.telemetry.journal);
    next.admin.clone_from(&now.admin);
    kept
}
