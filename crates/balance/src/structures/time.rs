//! What time is it? The caller passes it in: no code in this crate reads a clock.
//!
//! `std::time::Instant` cannot be made at will, so a simulator could not use it; ours is a plain number.

/// Nanoseconds since a start that the shell chose (its own start, or the simulation's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Nanoseconds from `earlier` to `self`; 0 when `earlier` is later (clocks of two workers may differ by a batch).
    #[inline]
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `ns` nanoseconds after this one.
    #[inline]
    pub fn after(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }
}

/// Reads a clock. Implemented and called by shells (proxy, simulator), never by the code of this crate.
pub trait Clock {
    /// The current moment. Never goes back.
    fn now(&self) -> Instant;
}

/// One second in nanoseconds, the unit of every `_ns` value here.
pub const SECOND_NS: u64 = 1_000_000_000;
/// One millisecond in nanoseconds.
pub const MILLISECOND_NS: u64 = 1_000_000;
