//! What may a peer ask for that is of no use? So much at once and so much a second; then its connection ends with
//! ENHANCE_YOUR_CALM (RFC 9113 section 10.5). Frames that belong to use earn what they may cost.

/// What a peer sends too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Streams that it resets, or that end by its errors (CVE-2023-44487).
    Resets,
    /// Frames that continue a head (CVE-2024-27316).
    Continuations,
    /// SETTINGS, each of which is answered, and answers to none.
    Settings,
    /// PING, each of which is answered, and answers to none.
    Pings,
    /// PRIORITY, GOAWAY, and kinds of frames that are not known.
    Ignored,
    /// DATA without data.
    EmptyData,
    /// WINDOW_UPDATE.
    WindowUpdates,
    /// Heads over the limit.
    LargeHeads,
}

const COUNT: usize = 8;

impl Flood {
    /// One word each for metrics, in the order of the kinds.
    pub const NAMES: [&'static str; COUNT] = [
        "resets",
        "continuations",
        "settings",
        "pings",
        "ignored_frames",
        "empty_data",
        "window_updates",
        "large_heads",
    ];

    /// At once, and a second. Browsers cancel tens of requests when a page is left, clients of gRPC ping once a round trip while
    /// data comes, and open windows with each read.
    const fn allowed(self) -> (u32, u32) {
        match self {
            Flood::Resets => (200, 50),
            Flood::Continuations => (200, 50),
            Flood::Settings => (50, 5),
            Flood::Pings => (1000, 200),
            Flood::Ignored => (1000, 100),
            Flood::EmptyData => (200, 50),
            Flood::WindowUpdates => (20_000, 2000),
            Flood::LargeHeads => (20, 2),
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
    ];
}

const SECOND_NS: u64 = 1_000_000_000;

/// What a peer may still send, by kind.
#[derive(Debug)]
pub struct Budgets {
    left: [u32; COUNT],
    /// Nanoseconds: when whole seconds were last paid out.
    paid_at: u64,
}

impl Budgets {
    /// All of them full.
    pub fn new(now: u64) -> Budgets {
        Budgets { left: Flood::ALL.map(|flood| flood.allowed().0), paid_at: now }
    }

    /// Counts one; `false` if it is one too many.
    #[inline]
    pub fn spend(&mut self, flood: Flood, now: u64) -> bool {
        let left = &mut self.left[flood as usize];
        match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                true
            }
            None => self.spend_late(flood, now),
        }
    }

    /// Pays what the time since has earned, and counts one.
    #[cold]
    fn spend_late(&mut self, flood: Flood, now: u64) -> bool {
        let seconds = u32::try_from(now.saturating_sub(self.paid_at) / SECOND_NS).unwrap_or(u32::MAX);
        self.paid_at += u64::from(seconds) * SECOND_NS;
        for (left, flood) in self.left.iter_mut().zip(Flood::ALL) {
            let (most, a_second) = flood.allowed();
            *left = left.saturating_add(seconds.saturating_mul(a_second)).min(most);
        }
        let left = &mut self.left[flood as usize];
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }

    /// Gives one back: it was of use.
    #[inline]
    pub fn earn(&mut self, flood: Flood) {
        let left = &mut self.left[flood as usize];
        *left = (*left + 1).min(flood.allowed().0);
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
            let sent = (0..2 * most).filter(|_| budgets.spend(flood, 0)).count();
            assert_eq!(sent, most as usize, "{flood:?}");
            assert!(!budgets.spend(flood, SECOND_NS - 1));
            let sent = (0..2 * most).filter(|_| budgets.spend(flood, SECOND_NS)).count();
            assert_eq!(sent, a_second as usize, "{flood:?}");
            budgets.earn(flood);
            assert!(budgets.spend(flood, SECOND_NS) && !budgets.spend(flood, SECOND_NS));
        }
    }
}
