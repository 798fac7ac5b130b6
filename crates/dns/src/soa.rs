//! SOA records: part of answers about the zone itself, and the caching limit in negative answers (RFC 2308).

use crate::reply::{Owner, Reply, Section};
use crate::zone::Zone;
use domain::base::iana::Rtype;

/// Writes the zone's SOA record. False if it does not fit.
pub(crate) fn push(zone: &Zone, section: Section, ttl: u32, reply: &mut Reply<'_>) -> bool {
    reply.push(section, Owner::End(zone.apex.len()), Rtype::SOA, ttl, |out| out.extend_from_slice(&zone.soa))
}
