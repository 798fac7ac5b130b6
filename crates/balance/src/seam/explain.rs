//! Why this pick? An [`Explanation`] is filled only when the caller asks for it; otherwise it costs one branch.

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Exclusion, Member, Slot};
use crate::measurement::loads::Loads;
use std::fmt;

/// Why one request went where it went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The endpoints that were compared, in the order in which they were looked at.
    pub candidates: Vec<Candidate>,
    /// The endpoints that could not be picked.
    pub excluded: Vec<(Slot, EndpointId, Exclusion)>,
    /// What decided among the candidates.
    pub rule: &'static str,
    /// The outcome.
    pub picked: Option<Slot>,
}

/// One endpoint that was compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its slot.
    pub slot: Slot,
    /// Its identity.
    pub id: EndpointId,
    /// Requests in flight there.
    pub in_flight: u32,
    /// Its weight in the set: while endpoints ramp or zones spill, all are scaled by a common factor.
    pub weight: u32,
    /// What the algorithm compared, lower is better; `None` where that is just the requests in flight per weight.
    pub score: Option<f64>,
}

impl Explanation {
    pub(crate) fn begin(&mut self, set: &EndpointSet, loads: &Loads, tried: &[Slot]) {
        *self = Explanation { excluded: set.excluded().to_vec(), ..Explanation::default() };
        self.exclude(set, loads, tried);
    }

    /// Goes on to `set`, as the set before had nothing left for the request.
    pub(crate) fn go_on(&mut self, set: &EndpointSet, loads: &Loads, tried: &[Slot]) {
        self.excluded.retain(|(slot, ..)| set.get(*slot).is_none());
        self.exclude(set, loads, tried);
    }

    fn exclude(&mut self, set: &EndpointSet, loads: &Loads, tried: &[Slot]) {
        for m in set.members() {
            if tried.contains(&m.slot) {
                self.excluded.push((m.slot, m.id, Exclusion::Tried));
            } else if loads.is_full(m) {
                self.excluded.push((m.slot, m.id, Exclusion::Full));
            }
        }
    }

    /// Adds a candidate; pickers call it.
    pub fn candidate(&mut self, member: &Member, loads: &Loads, score: Option<f64>) {
        let Member { slot, id, weight, .. } = *member;
        self.candidates.push(Candidate { slot, id, in_flight: loads.in_flight(slot), weight, score });
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Exclusion::WeightZero => "weight 0",
            Exclusion::Draining => "draining",
            Exclusion::Unresolved => "without an address: the name does not resolve",
            Exclusion::Unhealthy => "unhealthy",
            Exclusion::Unchecked => "not checked yet",
            Exclusion::Ejected => "ejected",
            Exclusion::LowerPriority => "a tier of higher priority is up",
            Exclusion::OtherZone => "in another zone",
            Exclusion::Panic => "held back as too few are healthy",
            Exclusion::Tried => "tried already",
            Exclusion::Full => "at its limit",
        })
    }
}
