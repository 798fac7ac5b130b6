//! Explored requests, summed by the member that they were drawn to.

/// Sums over the explored requests of a member. The weight of a request is the number of members that it was drawn
/// from: the inverse of the probability of its member.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drawn {
    pub count: f64,
    /// Sum of the weights, and of their squares.
    pub weight: f64,
    pub squares: f64,
    /// Weighted sum of the latencies in nanoseconds, and of first tries that failed.
    pub latency_ns: f64,
    pub failed: f64,
}

impl Drawn {
    /// Adds a request that was drawn from so many members.
    pub fn add(&mut self, from: u32, latency_ns: u64, failed: bool) {
        let weight = f64::from(from);
        self.count += 1.0;
        self.weight += weight;
        self.squares += weight * weight;
        self.latency_ns += weight * latency_ns as f64;
        self.failed += weight * f64::from(u8::from(failed));
    }
}
