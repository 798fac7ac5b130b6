//! Time as a plain number. The caller passes it in: no code in this crate reads a clock.
//!
//! `std::time::Instant` cannot be constructed from a number, so a simulator could not use it.

/// A point in time, in nanoseconds since an origin that the shell chose (its start, or the start of the simulation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is later, as the clocks of two workers may differ by a
    /// batch.
    #[inline]
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the instant `ns` nanoseconds after this instant. Saturates at `u64::MAX`.
    #[inline]
    pub fn after(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }
}

/// A clock. Implemented and called by shells (proxy, simulator), never by the code of this crate.
pub trait Clock {
    /// Returns the current time, which never goes backwards.
    fn now(&self) -> Instant;
}

/// Nanoseconds in a second. Every `_ns` value of this crate is in nanoseconds.
pub const SECOND_NS: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND_NS: u64 = 1_000_000;
