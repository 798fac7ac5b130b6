//! Limits of an HTTP/2 endpoint beyond its SETTINGS, learned from its behaviour: streams that it refuses, the number of
//! streams after which it ends a connection, and how often it accepts pings.

use evenkeel_balance::Instant;
use evenkeel_wire::h2::ErrorCode;
use std::cell::Cell;
use std::time::Duration;

/// Time after a refused stream before a connection tries more streams than the endpoint took. Probing once a second
/// costs a single refusal.
const REFUSED_NS: u64 = 1_000_000_000;

/// First pause after the endpoint refused the only stream of a connection, in nanoseconds. Each further pause is twice
/// as long.
const PAUSE_NS: u64 = 5_000_000;

/// Longest pause, in nanoseconds.
const PAUSE_MAX_NS: u64 = 1_000_000_000;

/// Maximum number of doublings of the silence before a ping.
const CALM_MAX: u32 = 6;

/// Maximum number of pings while the endpoint sends nothing of a response. gRPC servers end the connection
/// (`too_many_pings`) after two early pings (gRPC proposals A8 and A9).
pub const PINGS_MAX: u32 = 2;

/// Learned limits of an endpoint that hold for all of its connections.
#[derive(Debug)]
pub struct Allowance {
    /// Number of streams after which the endpoint ends a connection; `u32::MAX` if it is unknown.
    lifetime: Cell<u32>,
    /// Number of ENHANCE_YOUR_CALM that the endpoint has sent, up to [`CALM_MAX`].
    calm: Cell<u32>,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { lifetime: Cell::new(u32::MAX), calm: Cell::new(0) }
    }
}

impl Allowance {
    /// Number of streams after which the endpoint ends a connection; `u32::MAX` if it is unknown.
    pub fn lifetime(&self) -> u32 {
        self.lifetime.get()
    }

    /// Notes that the endpoint ended a connection after `taken` streams, and left later streams unprocessed.
    pub fn ended_after(&self, taken: u32) {
        self.lifetime.set(taken.max(1));
    }

    /// Notes that a connection has finished `taken` streams. If that exceeds the limit, the limit was wrong and is
    /// raised.
    pub fn outlived(&self, taken: u32) {
        if taken > self.lifetime.get() {
            self.lifetime.set(taken.saturating_mul(2));
        }
    }

    /// Notes the error code of the endpoint's GOAWAY.
    pub fn ended_with(&self, code: u32) {
        if code == ErrorCode::EnhanceYourCalm as u32 {
            self.calm.set((self.calm.get() + 1).min(CALM_MAX));
        }
    }

    /// Silence before a ping: as configured, doubled for each ENHANCE_YOUR_CALM.
    pub fn ping_after(&self, configured: Duration) -> Duration {
        configured.saturating_mul(1 << self.calm.get())
    }
}

/// Number of streams that a connection takes at a time, learned from those that its endpoint refused (REFUSED_STREAM).
#[derive(Debug)]
pub struct Concurrency {
    most: Cell<u32>,
    /// Refused streams that their requests still hold.
    refused: Cell<u32>,
    refused_at: Cell<Instant>,
    pause_ns: Cell<u64>,
}

impl Default for Concurrency {
    fn default() -> Concurrency {
        Concurrency {
            most: Cell::new(u32::MAX),
            refused: Cell::new(0),
            refused_at: Cell::new(Instant(0)),
            pause_ns: Cell::new(0),
        }
    }
}

impl Concurrency {
    /// Maximum number of open streams; 0 during a pause.
    pub fn most(&self, now: Instant) -> u32 {
        if self.pause_left_ns(now) > 0 { 0 } else { self.most.get() }
    }

    /// Notes that the endpoint has refused a stream, out of `streams` open streams.
    pub fn refuse(&self, streams: u32, now: Instant) {
        self.refused.set(self.refused.get() + 1);
        let taken = streams.saturating_sub(self.refused.get());
        self.most.set(taken.max(1));
        self.refused_at.set(now);
        // The end of another stream makes room. Without other streams, only time can.
        self.pause_ns.set(match (taken, self.pause_ns.get()) {
            (1.., _) => 0,
            (0, 0) => PAUSE_NS,
            (0, pause_ns) => (2 * pause_ns).min(PAUSE_MAX_NS),
        });
    }

    /// Notes that a request has dropped its refused stream.
    pub fn give_back(&self) {
        self.refused.set(self.refused.get().saturating_sub(1));
    }

    /// Notes the end of a stream that the endpoint took. A second after the last refusal, each such end raises the
    /// limit by 1.
    pub fn took(&self, now: Instant) {
        self.pause_ns.set(0);
        if self.most.get() != u32::MAX && now.since(self.refused_at.get()) >= REFUSED_NS {
            self.most.set(self.most.get().saturating_add(1));
        }
    }

    /// Forgets the limit, as the endpoint has sent new SETTINGS.
    pub fn restate(&self) {
        self.most.set(u32::MAX);
        self.pause_ns.set(0);
    }

    /// Number of refused streams that their requests still hold.
    pub fn refused(&self) -> u32 {
        self.refused.get()
    }

    /// Rest of the pause, in nanoseconds.
    pub fn pause_left_ns(&self, now: Instant) -> u64 {
        self.pause_ns.get().saturating_sub(now.since(self.refused_at.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_connection_keeps_to_what_it_took_and_probes_for_more_after_a_second() {
        let concurrency = Concurrency::default();
        // 84 of 100 streams are refused at once.
        (0..84).for_each(|_| concurrency.refuse(100, Instant(0)));
        assert_eq!((concurrency.most(Instant(0)), concurrency.pause_left_ns(Instant(0))), (16, 0));
        (0..84).for_each(|_| concurrency.give_back());
        concurrency.took(Instant(SECOND - 1));
        assert_eq!(concurrency.most(Instant(SECOND)), 16);
        concurrency.took(Instant(SECOND));
        assert_eq!(concurrency.most(Instant(SECOND)), 17);
        concurrency.restate();
        assert_eq!(concurrency.most(Instant(SECOND)), u32::MAX);
    }

    #[test]
    fn a_stream_that_is_refused_alone_makes_the_connection_pause_for_longer_and_longer() {
        let concurrency = Concurrency::default();
        let mut now = 0;
        for pause_ns in [5_000_000, 10_000_000, 20_000_000] {
            concurrency.refuse(1, Instant(now));
            concurrency.give_back();
            assert_eq!((concurrency.most(Instant(now)), concurrency.pause_left_ns(Instant(now))), (0, pause_ns));
            now += pause_ns;
            assert_eq!(concurrency.most(Instant(now)), 1);
        }
        (0..20).for_each(|_| {
            concurrency.refuse(1, Instant(now));
            concurrency.give_back();
        });
        assert_eq!(concurrency.pause_left_ns(Instant(now)), PAUSE_MAX_NS);
        concurrency.took(Instant(now));
        assert_eq!(concurrency.most(Instant(now)), 1);
    }

    #[test]
    fn the_streams_of_a_connection_in_all_are_learned_and_forgotten() {
        let allowance = Allowance::default();
        allowance.ended_after(0);
        assert_eq!(allowance.lifetime(), 1);
        allowance.ended_after(1000);
        allowance.outlived(1000);
        assert_eq!(allowance.lifetime(), 1000);
        allowance.outlived(1001);
        assert_eq!(allowance.lifetime(), 2002);
    }

    #[test]
    fn an_endpoint_that_asks_for_calm_gets_fewer_pings() {
        let (allowance, configured) = (Allowance::default(), Duration::from_secs(300));
        allowance.ended_with(ErrorCode::NoError as u32);
        assert_eq!(allowance.ping_after(configured), configured);
        allowance.ended_with(ErrorCode::EnhanceYourCalm as u32);
        assert_eq!(allowance.ping_after(configured), 2 * configured);
        (0..100).for_each(|_| allowance.ended_with(ErrorCode::EnhanceYourCalm as u32));
        assert_eq!(allowance.ping_after(configured), 64 * configured);
    }
}
