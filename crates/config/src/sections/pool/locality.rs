//! `locality` of a pool: preference for endpoints in the balancer's own zone.

use super::endpoint::Endpoint;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::nearest::suggest;
use crate::table::{Absent, Key, Kind, Section, table};
use evenkeel_balance::eligible::Locality;
use evenkeel_balance::endpoint::stable_hash;
use std::sync::Arc;

table! {
    pub(crate) static LOCALITY = "locality of [pool.NAME]",
        "Prefers endpoints in the zone of this balancer.";

    /// `locality` of a pool, with the zone by name.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct OwnZone {
        /// Zone of this balancer, as endpoints name theirs.
        zone: Arc<str> = Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Required("\"${ZONE}\""),
            help: "Zone of this balancer, as in the `zone` of its endpoints.",
            why: "",
        };
        /// See [`Locality::spill_at`].
        spill_at: f64 = Key {
            name: "spill_at",
            kind: Kind::Number { min: 0.01, max: 1.0 },
            absent: Absent::Default("0.8"),
            help: "Share of the local zone's weight that must be healthy for the zone to get all requests. Below this \
                share, the rest spills over to the other zones in proportion to their weight.",
            why: "With four of five endpoints, the zone can usually carry its load; with fewer, it may not.",
        };
    }
}

impl OwnZone {
    /// The form that pickers use: the zone as a hash.
    pub(super) fn hashed(&self) -> Locality {
        Locality { zone: stable_hash(self.zone.as_bytes()), spill_at: self.spill_at }
    }
}

/// Reports a zone that none of the endpoints is in.
pub(super) fn check(pool: &Section, endpoints: &[Endpoint], findings: &mut Findings) {
    let locality = pool.section("locality");
    // Endpoints that are discovered later may be in the zone.
    let Some(zone) = locality.text("zone").filter(|_| !pool.has("discover")) else { return };
    let mut zones: Vec<&str> = endpoints.iter().filter_map(|e| e.zone.as_deref()).collect();
    if !zones.contains(&zone.as_str()) {
        zones.sort_unstable();
        zones.dedup();
        let help = match zones.is_empty() {
            true => format!("give endpoints of it zone = \"{zone}\", or leave \"locality\" out"),
            false => suggest(&zone, &zones),
        };
        let message = format!("no endpoint is in the zone \"{zone}\": all requests go to other zones");
        findings.add(Code::UnknownZone, locality.span_of("zone"), message).help(help);
    }
}
