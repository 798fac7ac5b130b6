//! Minimum rate at which a client has to send a body. Each byte earns a little patience, up to the patience with a
//! silent client, so a byte now and then cannot hold a request open for ever.
//!
//! The idea comes from Apache's `mod_reqtimeout` (`body=20,MinRate=500`) and Kestrel's `MinRequestBodyDataRate` (240
//! bytes a second after 5 s). Only time spent waiting for the client counts, not the time that an endpoint takes to
//! read.

use std::time::Duration;

/// Minimum rate in the long run, the rate of a slow modem. A client may stay below it until its patience is used up.
const BYTES_PER_SECOND: u64 = 240;

/// Patience that is left with a client while it sends a body.
#[derive(Debug)]
pub struct MinRate {
    left: Duration,
    most: Duration,
    /// True if any piece restores all of the patience, however small it is.
    has_no_rate: bool,
}

impl MinRate {
    /// Starts with patience for a silence of `silence_max`.
    pub fn new(silence_max: Duration) -> MinRate {
        MinRate { left: silence_max, most: silence_max, has_no_rate: false }
    }

    /// Starts without a minimum rate: only silences are limited, each to `silence_max`. For gRPC calls, whose messages
    /// come when there is something to send.
    pub fn of_call(silence_max: Duration) -> MinRate {
        MinRate { has_no_rate: true, ..MinRate::new(silence_max) }
    }

    /// Longest wait for the next bytes.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Accounts for `bytes` that arrived after a wait of `waited`. Returns true if they were in time.
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
