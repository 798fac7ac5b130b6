//! Who is eligible at a moment? Weight, drain, health, ejection, slow start, zone, tier and panic, folded into one set.

/// What happens when few endpoints of a pool are healthy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Panic {
    /// The share of healthy endpoints below which the pool panics, 0 to 1; 0 = never.
    pub healthy_below: f64,
    /// What it does then.
    pub mode: PanicMode,
}

/// What a pool in panic does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicMode {
    /// It uses all endpoints, healthy or not: a few that are left would go down under the load of all.
    UseAll,
    /// It refuses requests with 503.
    Refuse,
}

impl Default for Panic {
    /// Envoy's threshold.
    fn default() -> Panic {
        Panic { healthy_below: 0.5, mode: PanicMode::UseAll }
    }
}

/// Endpoints of the own zone first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locality {
    /// The hash of the own zone's name ([`crate::endpoint::stable_hash`]).
    pub zone: u64,
    /// The share of the own zone's weight that must be healthy for it to get everything, above 0 to 1; below it the rest
    /// of the load spills over to the other zones in proportion.
    pub spill_at: f64,
}
