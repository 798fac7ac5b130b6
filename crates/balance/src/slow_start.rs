//! How much may an endpoint get that has just come, or come back? A weight that ramps up.

/// The ramp: weight x max(`min_weight`, (age / `window_ns`)^(1 / `aggression`)), as in Envoy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How long the ramp is, nanoseconds.
    pub window_ns: u64,
    /// 1: linear; above: faster at first. Above 0.
    pub aggression: f64,
    /// The share of its weight that an endpoint starts with, above 0 to 1.
    pub min_weight: f64,
}
