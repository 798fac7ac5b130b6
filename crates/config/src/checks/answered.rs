//! Which pools are told to resolvers?

use crate::sections::listener::Listener;
use crate::sections::pool::Pool;

/// Whether a pool's endpoints are told to resolvers.
pub(super) fn is_answered(pool: &Pool, listeners: &[Listener]) -> bool {
    let mut zones = listeners.iter().filter_map(|l| l.zone.as_ref());
    zones.any(|zone| zone.records.iter().any(|r| r.pool == pool.name))
}
