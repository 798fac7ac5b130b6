//! Endpoints as configured, with an identity that all instances agree on.

use crate::structures::rng::mix;

/// Identity of an endpoint: the hash of its name or address. Equal in every process and on every machine, so that all
/// instances order endpoints alike and counts survive a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u64);

impl EndpointId {
    /// Returns the identity of the endpoint called `name` (its configured name, or its address as written).
    pub fn of(name: &str) -> EndpointId {
        EndpointId(stable_hash(name.as_bytes()))
    }
}

/// Hashes to 64 bits, the same everywhere: FNV-1a, then a bijective mix, as FNV alone leaves the high bits of short
/// keys poor. Suited to spread keys over endpoints; not to hash tables with keys an attacker chooses.
#[inline]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    mix(fnv)
}

/// An operator's override of the results of an endpoint's checks and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// The endpoint counts as healthy.
    Up,
    /// The endpoint is not used.
    Down,
}

/// An endpoint as configured or discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    /// Identity that survives reloads and is the same in all instances.
    pub id: EndpointId,
    /// Share of the load, relative to other endpoints; 0 gets nothing.
    pub weight: u32,
    /// Priority tier. The lowest with eligible endpoints is used, and the next tier when none of them is left for a
    /// request.
    pub priority: u8,
    /// True if the endpoint gets no new requests. Those in flight continue.
    pub drain: bool,
    /// True if requests of its sessions still go to it while it drains.
    pub keeps_sessions: bool,
    /// Override by an operator; `None` if checks and requests decide.
    pub forced: Option<Forced>,
    /// True while its name has no address; it gets no requests until then.
    pub unresolved: bool,
    /// Most requests in flight at once over all workers of this process; 0 for no limit.
    pub in_flight_max: u32,
    /// Hash of its zone's name ([`stable_hash`]); `None` if it has no zone.
    pub zone: Option<u64>,
}

impl EndpointSpec {
    /// Returns an endpoint of weight 1 in tier 0, without a limit or a zone.
    pub fn new(name: &str) -> EndpointSpec {
        EndpointSpec {
            id: EndpointId::of(name),
            weight: 1,
            priority: 0,
            drain: false,
            keeps_sessions: true,
            forced: None,
            unresolved: false,
            in_flight_max: 0,
            zone: None,
        }
    }

    /// Sets the share of the load, relative to others.
    pub fn weight(self, weight: u32) -> EndpointSpec {
        EndpointSpec { weight, ..self }
    }

    /// Sets the priority tier; the lowest is used first.
    pub fn priority(self, priority: u8) -> EndpointSpec {
        EndpointSpec { priority, ..self }
    }

    /// Sets whether the endpoint drains.
    pub fn drain(self, drain: bool) -> EndpointSpec {
        EndpointSpec { drain, ..self }
    }

    /// Sets whether its sessions stay while it drains.
    pub fn keeps_sessions(self, keeps_sessions: bool) -> EndpointSpec {
        EndpointSpec { keeps_sessions, ..self }
    }

    /// Sets or clears the override by an operator.
    pub fn forced(self, forced: Option<Forced>) -> EndpointSpec {
        EndpointSpec { forced, ..self }
    }

    /// Sets whether its name has no address yet.
    pub fn unresolved(self, unresolved: bool) -> EndpointSpec {
        EndpointSpec { unresolved, ..self }
    }

    /// True if the configuration wants the endpoint used and its address is known.
    pub fn counts(&self) -> bool {
        self.weight > 0 && !self.drain && !self.unresolved
    }

    /// Puts the endpoint into the zone of this name.
    pub fn zone(self, name: &str) -> EndpointSpec {
        EndpointSpec { zone: Some(stable_hash(name.as_bytes())), ..self }
    }

    /// Limits the requests in flight; 0 for no limit.
    pub fn in_flight_max(self, in_flight_max: u32) -> EndpointSpec {
        EndpointSpec { in_flight_max, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_fixed_for_all_time() {
        // A different hash would reshuffle every consistent-hash pool at an upgrade.
        assert_eq!(EndpointId::of("10.0.0.1:80").0, stable_hash(b"10.0.0.1:80"));
        assert_eq!(stable_hash(b""), mix(0xcbf2_9ce4_8422_2325));
        assert_eq!(stable_hash(b"a"), mix(0xaf63_dc4c_8601_ec8c));
        assert_eq!(stable_hash(b"foobar"), mix(0x8594_4171_f739_67e8));
    }
}
