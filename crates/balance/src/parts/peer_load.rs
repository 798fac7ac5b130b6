//! Load from other balancers at endpoints that do not report it: the average of those that do, by weight.

/// Marks an endpoint that has not reported lately. Larger than any number of requests in flight.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Requests of other balancers, summed over all endpoints that reported lately.
#[derive(Default)]
pub(crate) struct PeerLoad {
    in_flight: u64,
    /// Sum of the weights of those endpoints.
    weight: u64,
}

impl PeerLoad {
    /// Replaces the report of an endpoint of this weight.
    pub(crate) fn replace(&mut self, before: u32, now: u32, weight: u32) {
        if before != UNKNOWN {
            self.in_flight -= u64::from(before);
            self.weight -= u64::from(weight);
        }
        if now != UNKNOWN {
            self.in_flight += u64::from(now);
            self.weight += u64::from(weight);
        }
    }

    /// Returns the load of an endpoint of this weight that does not report: as much as the others have per weight. If
    /// it counted as idle, an endpoint that cannot report would get everything.
    pub(crate) fn usual(&self, weight: u32) -> u32 {
        let usual = (self.in_flight * u64::from(weight) + self.weight / 2).checked_div(self.weight).unwrap_or(0);
        usual.min(u64::from(u32::MAX)) as u32
    }
}
