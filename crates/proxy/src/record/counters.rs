//! Counters as an observer of a request: adds it to those of its listener, route and pool at its end.

use crate::observe::summary::Summary;
use crate::record::progress::Progress;

/// Counts a finished request.
#[inline]
pub fn ended(progress: &Progress<'_>, summary: &Summary) {
    let Summary { status, call_status, bytes_in, bytes_out, timing, cause, .. } = *summary;
    progress.stats.bytes_in.add(bytes_in);
    progress.stats.bytes_out.add(bytes_out);
    progress.stats.ends[cause as usize].add(1);
    progress.rules.stats(progress.route).count(progress.method, status, timing.total_ns, progress.is_sent);
    if let (Some(pool), Some(_)) = (progress.facts.pool, &progress.facts.endpoint) {
        pool.stats.record(&timing);
        if let Some(status) = call_status {
            pool.stats.grpc[usize::from(status.code())].add(1);
        }
    }
}
