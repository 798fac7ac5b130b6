//! Points in time of the rules: moments on a clock that never steps, for ages, and dates by the wall clock, as fields
//! have them. They are two types, so that neither can be used for the other.

use std::time::Duration;

/// Point in time in milliseconds, on a clock that never steps.
///
/// Ages are differences of two moments. With the wall clock, a step would make stored responses older or fresh again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// Point in time by the wall clock, in milliseconds since 1970-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub u64);

impl Date {
    /// Returns the date this many seconds after 1970-01-01 00:00:00 UTC.
    pub fn from_seconds(seconds: u64) -> Date {
        Date(seconds.saturating_mul(1000))
    }

    /// Whole seconds since 1970-01-01 00:00:00 UTC.
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Time since an earlier date; zero if `earlier` is later.
    pub fn since(self, earlier: Date) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns the date this many seconds later.
    pub fn plus(self, seconds: u32) -> Date {
        Date(self.0.saturating_add(u64::from(seconds) * 1000))
    }
}

/// Moment at which the machine started: 139 years after the first moment, so that a response that is older than the run
/// of its machine has a moment, too.
const MACHINE_START: u64 = 1 << 42;

impl Moment {
    /// Returns the moment this many milliseconds after the start of the machine.
    pub fn since_boot(ms: u64) -> Moment {
        Moment(MACHINE_START.saturating_add(ms))
    }

    /// Returns the moment this many milliseconds later, or earlier if they are negative.
    pub fn shifted(self, ms: i64) -> Moment {
        Moment(self.0.saturating_add_signed(ms))
    }

    /// Time since an earlier moment; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns the moment this many seconds later.
    pub fn plus(self, seconds: u32) -> Moment {
        Moment(self.0.saturating_add(u64::from(seconds) * 1000))
    }
}

/// Largest number of seconds in an age or a lifetime (RFC 9111 section 1.2.2): 68 years. Larger numbers count as this
/// limit.
pub const SECONDS_MAX: u32 = 1 << 31;

/// Reads seconds as fields write them: digits, and nothing else. Larger values count as [`SECONDS_MAX`].
pub(crate) fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    Some(digits.iter().fold(0, add).min(SECONDS_MAX))
}

/// Returns whole seconds, at most [`SECONDS_MAX`].
pub(crate) fn whole_seconds(duration: Duration) -> u32 {
    duration.as_secs().min(u64::from(SECONDS_MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_digits_and_never_overflow() {
        for (text, seconds) in [("0", Some(0)), ("0060", Some(60)), ("99999999999999999999", Some(SECONDS_MAX))] {
            assert_eq!(delta_seconds(text.as_bytes()), seconds, "{text}");
        }
        for text in ["", "-1", "+1", "1.0", " 1", "1a"] {
            assert_eq!(delta_seconds(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn time_does_not_run_backwards() {
        assert_eq!(Moment(1).since(Moment(2)), Duration::ZERO);
        assert_eq!(Moment(u64::MAX).plus(1), Moment(u64::MAX));
        assert_eq!(Date(1).since(Date(2)), Duration::ZERO);
        assert_eq!((Moment(5).shifted(-7), Moment(5).shifted(7)), (Moment(0), Moment(12)));
    }
}
