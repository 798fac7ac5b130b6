//! What is an endpoint? An identity that all instances agree on, and its configuration.

use crate::structures::rng::mix;

/// The hash of an endpoint's name or address: equal in every process and on every machine, so that all instances
/// order endpoints alike and counts survive a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u64);

impl EndpointId {
    /// The identity of the endpoint called `name` (its configured name, or its address as written).
    pub fn of(name: &str) -> EndpointId {
        EndpointId(stable_hash(name.as_bytes()))
    }
}

/// A 64-bit hash that is the same everywhere: FNV-1a, then a bijective mix, as FNV alone leaves its high bits poor on
/// short keys. Not for keys an attacker chooses to collide in a hash table; for spreading keys over endpoints.
#[inline]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    mix(fnv)
}

/// What an operator says of an endpoint, whatever its checks and requests say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// It is well.
    Up,
    /// It is not to be used.
    Down,
}

/// One endpoint as configured or discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    /// Its identity.
    pub id: EndpointId,
    /// Its share of the load relative to others; 0 gets nothing.
    pub weight: u32,
    /// Priority tier: the lowest with eligible endpoints is used, the next when that has none left for a request.
    pub priority: u8,
    /// Whether it gets no new requests; running ones go on.
    pub drain: bool,
    /// Whether requests of its sessions still go to it while it drains.
    pub keeps_sessions: bool,
    /// What an operator says of it, if that counts.
    pub forced: Option<Forced>,
    /// Its name has no address yet: it gets nothing until then.
    pub unresolved: bool,
    /// Most requests in flight at once over all workers of this process; 0 for no limit.
    pub in_flight_max: u32,
    /// The hash of its zone's name ([`stable_hash`]); `None` if it has none.
    pub zone: Option<u64>,
}

impl EndpointSpec {
    /// An endpoint of weight 1 in tier 0 without a limit and a zone.
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

    /// With this weight.
    pub fn weight(self, weight: u32) -> EndpointSpec {
        EndpointSpec { weight, ..self }
    }

    /// In this priority tier.
    pub fn priority(self, priority: u8) -> EndpointSpec {
        EndpointSpec { priority, ..self }
    }

    /// Draining or not.
    pub fn drain(self, drain: bool) -> EndpointSpec {
        EndpointSpec { drain, ..self }
    }

    /// Whether its sessions stay while it drains.
    pub fn keeps_sessions(self, keeps_sessions: bool) -> EndpointSpec {
        EndpointSpec { keeps_sessions, ..self }
    }

    /// Up or down by an operator's word, or by its checks and requests.
    pub fn forced(self, forced: Option<Forced>) -> EndpointSpec {
        EndpointSpec { forced, ..self }
    }

    /// Without an address so far, or with one.
    pub fn unresolved(self, unresolved: bool) -> EndpointSpec {
        EndpointSpec { unresolved, ..self }
    }

    /// Whether the configuration wants it used, and says where it is.
    pub fn counts(&self) -> bool {
        self.weight > 0 && !self.drain && !self.unresolved
    }

    /// In the zone of this name.
    pub fn zone(self, name: &str) -> EndpointSpec {
        EndpointSpec { zone: Some(stable_hash(name.as_bytes())), ..self }
    }

    /// With at most this many requests in flight; 0 for no limit.
    pub fn in_flight_max(self, in_flight_max: u32) -> EndpointSpec {
        EndpointSpec { in_flight_max, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_fixed_for_all_time() {
        // A changed hash would reshuffle every consistent-hash pool at an upgrade.
        assert_eq!(EndpointId::of("10.0.0.1:80").0, stable_hash(b"10.0.0.1:80"));
        assert_eq!(stable_hash(b""), mix(0xcbf2_9ce4_8422_2325));
        assert_eq!(stable_hash(b"a"), mix(0xaf63_dc4c_8601_ec8c));
        assert_eq!(stable_hash(b"foobar"), mix(0x8594_4171_f739_67e8));
    }
}
