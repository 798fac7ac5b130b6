//! Who answers for the zone, and for how long may it be believed that a name is not there? Its SOA record says so, in answers
//! and beside those that say no (RFC 2308).

use crate::reply::{Owner, Reply, Section};
use crate::zone::Zone;
use domain::base::iana::Rtype;

/// Writes the SOA record of the zone. Whether it fits.
pub(crate) fn push(zone: &Zone, section: Section, ttl: u32, reply: &mut Reply<'_>) -> bool {
    reply.push(section, Owner::End(zone.apex.len()), Rtype::SOA, ttl, |out| out.extend_from_slice(&zone.soa))
}
