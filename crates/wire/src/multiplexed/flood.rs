//! Budgets for useless frames of a peer: a burst, and a rate per second. Beyond them the connection ends with
//! ENHANCE_YOUR_CALM (RFC 9113 section 10.5). Useful frames earn budget back.
//!
//! Resets (CVE-2023-44487, CVE-2025-8671): a connection may carry the requests of many users, such as the requests of a
//! proxy in front or of a browser's tabs. So the budget counts the work that a reset causes beyond what the limit of
//! streams allows anyway. A stream that was open for [`LONG_LIVED_NS`] is free: with 100 concurrent streams there are
//! at most 1000 of these per second, and as many requests could be served. Younger streams are paid for by streams that
//! were served, and by an allowance. For comparison: nghttp2 allows 1000 at once and 33 per second, Envoy counts
//! streams that end within a second and are more than half of 500, HAProxy and NGINX bound only the number of
//! concurrent streams. When a budget for streams is used up, those already accepted are served, as their users did
//! nothing wrong.

/// The kind of frames or streams that a peer sends too many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Streams that the peer resets, or that end by its errors (CVE-2023-44487).
    Resets,
    /// CONTINUATION frames (CVE-2024-27316).
    Continuations,
    /// SETTINGS, each of which needs an answer, and acknowledgements of none.
    Settings,
    /// PING, each of which needs an answer, and answers to none.
    Pings,
    /// PRIORITY, GOAWAY and frames of unknown type.
    Ignored,
    /// DATA frames without data.
    EmptyData,
    /// WINDOW_UPDATE frames, of any stream.
    WindowUpdates,
    /// Heads that are over the size limit.
    LargeHeads,
    /// Frames for streams that have ended, which are read and discarded.
    LateFrames,
}

const COUNT: usize = 9;

/// Age from which the reset of a stream is free, nanoseconds.
pub const LONG_LIVED_NS: u64 = 100_000_000;

/// Cost of a discarded head in late frames: it is decoded, as both sides' tables have to stay in step.
pub const LATE_HEAD: u32 = 16;

/// Late frames that may be on their way when this side resets a stream: a body in small parts, two heads, a reset.
pub const LATE_FOR_RESET: u32 = 64;

impl Flood {
    /// Names for metrics, in the order of the variants.
    pub const NAMES: [&'static str; COUNT] = [
        "resets",
        "continuations",
        "settings",
        "pings",
        "ignored_frames",
        "empty_data",
        "window_updates",
        "large_heads",
        "late_frames",
    ];

    /// Burst, and rate per second. Browsers cancel tens of requests when a page is left; gRPC clients ping once per
    /// round trip while data arrives, and open windows with each read.
    const fn allowed(self) -> (u32, u32) {
        match self {
            Flood::Resets => (1000, 500),
            Flood::Continuations => (200, 50),
            Flood::Settings => (50, 5),
            Flood::Pings => (1000, 200),
            Flood::Ignored => (1000, 100),
            Flood::EmptyData => (200, 50),
            Flood::WindowUpdates => (20_000, 2000),
            Flood::LargeHeads => (20, 2),
            // An endpoint that dies may cost hundreds of uploads at once, each of which continues for a round trip.
            Flood::LateFrames => (64_000, 8000),
        }
    }

    const ALL: [Flood; COUNT] = [
        Flood::Resets,
        Flood::Continuations,
        Flood::Settings,
        Flood::Pings,
        Flood::Ignored,
        Flood::EmptyData,
        Flood::WindowUpdates,
        Flood::LargeHeads,
        Flood::LateFrames,
    ];
}

const SECOND_NS: u64 = 1_000_000_000;

/// Remaining budget of a peer, by kind.
#[derive(Debug)]
pub struct Budgets {
    left: [u32; COUNT],
    /// Time of the latest payment, in nanoseconds. Whole seconds are paid.
    paid_at: u64,
}

impl Budgets {
    /// Returns full budgets for a connection that begins at `now`.
    pub fn new(now: u64) -> Budgets {
        Budgets { left: Flood::ALL.map(|flood| flood.allowed().0), paid_at: now }
    }

    /// Counts `n` of a kind; false if the budget is used up.
    #[inline]
    pub fn spend(&mut self, flood: Flood, n: u32, now: u64) -> bool {
        let left = &mut self.left[flood as usize];
        match left.checked_sub(n) {
            Some(less) => {
                *left = less;
                true
            }
            None => self.spend_late(flood, n, now),
        }
    }

    /// Adds the earnings of the time since the latest payment, and counts.
    #[cold]
    fn spend_late(&mut self, flood: Flood, n: u32, now: u64) -> bool {
        let seconds = u32::try_from(now.saturating_sub(self.paid_at) / SECOND_NS).unwrap_or(u32::MAX);
        self.paid_at += u64::from(seconds) * SECOND_NS;
        for (left, flood) in self.left.iter_mut().zip(Flood::ALL) {
            let (most, a_second) = flood.allowed();
            *left = left.saturating_add(seconds.saturating_mul(a_second)).min(most);
        }
        let left = &mut self.left[flood as usize];
        let is_left = *left >= n;
        *left = left.saturating_sub(n);
        is_left
    }

    /// Gives back `n`, as they turned out to be useful.
    #[inline]
    pub fn earn(&mut self, flood: Flood, n: u32) {
        let left = &mut self.left[flood as usize];
        *left = (*left + n).min(flood.allowed().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_bounded_at_once_and_a_second() {
        for flood in Flood::ALL {
            let (most, a_second) = flood.allowed();
            let mut budgets = Budgets::new(0);
            let sent = (0..2 * most).filter(|_| budgets.spend(flood, 1, 0)).count();
            assert_eq!(sent, most as usize, "{flood:?}");
            assert!(!budgets.spend(flood, 1, SECOND_NS - 1));
            let sent = (0..2 * most).filter(|_| budgets.spend(flood, 1, SECOND_NS)).count();
            assert_eq!(sent, a_second as usize, "{flood:?}");
            budgets.earn(flood, 1);
            assert!(budgets.spend(flood, 1, SECOND_NS) && !budgets.spend(flood, 1, SECOND_NS));
        }
    }
}
