//! Is a client that sends slowly still sending? Its patience is earned: each byte buys a little time, up to what a silent
//! client gets, so that a byte now and then cannot hold a request for ever.
//!
//! The idea is that of Apache's `mod_reqtimeout` (`body=20,MinRate=500`) and Kestrel's `MinRequestBodyDataRate` (240 bytes
//! a second after 5 s). Only waiting for the client costs it time; what an endpoint takes to read does not.

use std::time::Duration;

/// The rate that a client may fall below for no longer than its patience: what the slowest modem did.
const BYTES_PER_SECOND: u64 = 240;

/// A client's patience while it sends a body.
#[derive(Debug)]
pub struct MinRate {
    left: Duration,
    most: Duration,
    /// True if any piece restores all of the patience.
    has_no_rate: bool,
}

impl MinRate {
    /// A client that may be silent for so long.
    pub fn new(silence_max: Duration) -> MinRate {
        MinRate { left: silence_max, most: silence_max, has_no_rate: false }
    }

    /// Patience with a client that may be silent for so long between any two pieces: messages of a call come when there is
    /// something to send.
    pub fn of_call(silence_max: Duration) -> MinRate {
        MinRate { has_no_rate: true, ..MinRate::new(silence_max) }
    }

    /// How long the next bytes may take.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// So many bytes came, after so long a wait: whether that was in time.
    pub fn came(&mut self, bytes: usize, waited: Duration) -> bool {
        let in_time = waited <= self.left;
        if self.has_no_rate {
            return in_time;
        }
        let earned = Duration::from_nanos(bytes as u64 * (1_000_000_000 / BYTES_PER_SECOND));
        self.left = (self.left.saturating_sub(waited) + earned).min(self.most);
        in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_byte_now_and_then_uses_patience_up() {
        let mut pace = MinRate::new(30 * SECOND);
        let mut waited = Duration::ZERO;
        while pace.came(1, SECOND) {
            waited += SECOND;
        }
        assert!(waited < 31 * SECOND, "{waited:?}");
    }

    #[test]
    fn a_call_may_be_silent_between_any_two_messages() {
        let mut pace = MinRate::of_call(30 * SECOND);
        assert!((0..1000).all(|_| pace.came(1, 30 * SECOND)));
        assert!(!pace.came(1, 31 * SECOND));
    }

    #[test]
    fn a_client_that_keeps_the_rate_may_go_on_for_ever_and_may_pause() {
        let mut pace = MinRate::new(30 * SECOND);
        for _ in 0..100_000 {
            assert!(pace.came(250, SECOND));
        }
        assert_eq!(pace.left(), 30 * SECOND);
        assert!(pace.came(32 * 1024, 29 * SECOND));
        assert_eq!(pace.left(), 30 * SECOND, "what was sent before the pause does not count twice");
    }
}
