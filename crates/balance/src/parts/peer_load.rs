//! What does an endpoint have that says nothing of its load? As much as those that do, by its weight.

/// More than any endpoint has in flight: it did not say lately.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// What others have in flight, over all endpoints that said so lately.
#[derive(Default)]
pub(crate) struct PeerLoad {
    in_flight: u64,
    /// The weights of those endpoints.
    weight: u64,
}

impl PeerLoad {
    /// Replaces what one endpoint of this weight said.
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

    /// What an endpoint has that says nothing: as much as the others by its weight. As idle, one that cannot say would
    /// get everything.
    pub(crate) fn usual(&self, weight: u32) -> u32 {
        let usual = (self.in_flight * u64::from(weight) + self.weight / 2).checked_div(self.weight).unwrap_or(0);
        usual.min(u64::from(u32::MAX)) as u32
    }
}
