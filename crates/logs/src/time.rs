//! Times and durations in nanoseconds, with the resolution that the log wrote them in.

/// Nanoseconds in a second.
pub const SECOND_NS: u32 = 1_000_000_000;

/// Nanoseconds in a millisecond.
pub const MILLISECOND_NS: u32 = 1_000_000;

/// Nanoseconds in a microsecond.
pub const MICROSECOND_NS: u32 = 1_000;

/// Moment. Logs without a time zone are read as UTC, so only differences between their times are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Nanoseconds since 1970.
    pub ns: u64,
    /// Unit of the last digit, 1 to 1,000,000,000 ns. A sum has the coarser resolution of its parts.
    pub resolution_ns: u32,
}

/// Duration, with its resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Length in nanoseconds.
    pub ns: u64,
    /// Unit of the last digit, 1 to 1,000,000,000 ns. A sum has the coarser resolution of its parts.
    pub resolution_ns: u32,
}

impl Time {
    /// Moment `span` later; the latest possible moment if there is none.
    pub fn after(self, span: Span) -> Time {
        let resolution_ns = self.resolution_ns.max(span.resolution_ns);
        Time { ns: self.ns.saturating_add(span.ns), resolution_ns }
    }

    /// Moment `span` earlier, not before 1970.
    pub fn before(self, span: Span) -> Time {
        let resolution_ns = self.resolution_ns.max(span.resolution_ns);
        Time { ns: self.ns.saturating_sub(span.ns), resolution_ns }
    }

    /// Duration since `earlier`; 0 if that is later.
    pub fn since(self, earlier: Time) -> Span {
        let resolution_ns = self.resolution_ns.max(earlier.resolution_ns);
        Span { ns: self.ns.saturating_sub(earlier.ns), resolution_ns }
    }
}

impl Span {
    /// Duration of 0 with a resolution of 1 ns.
    pub const ZERO: Span = Span { ns: 0, resolution_ns: 1 };

    /// Sum, at most `u64::MAX` nanoseconds.
    pub fn plus(self, other: Span) -> Span {
        let resolution_ns = self.resolution_ns.max(other.resolution_ns);
        Span { ns: self.ns.saturating_add(other.ns), resolution_ns }
    }

    /// Difference, at least 0.
    pub fn minus(self, other: Span) -> Span {
        let resolution_ns = self.resolution_ns.max(other.resolution_ns);
        Span { ns: self.ns.saturating_sub(other.ns), resolution_ns }
    }
}
