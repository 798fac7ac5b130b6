//! A latency estimate per endpoint: a peak-sensitive moving average of unevenly spaced samples.
//!
//! Source: Finagle's PeakEwma and tower's, with a change: reading never writes. In both, reading decays the estimate
//! and moves its time stamp, so that the estimate depends on how often it is read.

use crate::structures::decay::Fade;
use crate::structures::time::{Instant, SECOND_NS};

/// Longest Retry-After that is believed, nanoseconds. A single header must not exclude an endpoint for a day.
pub const RETRY_AFTER_MAX_NS: u64 = 300 * SECOND_NS;

/// Peak EWMA of the latencies of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeakEwma {
    /// Nanoseconds, as of `at`; `None` until measured.
    estimate: Option<f32>,
    at: Instant,
}

impl PeakEwma {
    /// Returns the estimate at `now`, in nanoseconds; `None` until measured: the caller picks a prior. Reads only.
    ///
    /// The estimate decays towards 0 as exp(-age / tau), which is where a sample of 0 would move it, and no sample
    /// could move it lower. So an endpoint that was slow and has had no request since is tried again at some point.
    #[inline]
    pub fn latency_ns(&self, now: Instant, fade: Fade) -> Option<f32> {
        self.estimate.map(|e| e * fade.left(now.since(self.at)))
    }

    /// Returns the estimate as of its last sample, in nanoseconds; `None` until measured.
    #[inline]
    pub fn last_ns(&self) -> Option<f32> {
        self.estimate
    }

    /// True once a latency was observed, or a lower bound of a latency.
    #[inline]
    pub fn is_measured(&self) -> bool {
        self.estimate.is_some()
    }

    /// Adds a measured latency. A slower latency replaces the estimate at once; a faster latency moves it by the share
    /// 1 - exp(-dt / tau), where dt is the time since the last sample.
    #[inline]
    pub fn observe(&mut self, latency_ns: u64, now: Instant, fade: Fade) {
        let sample = latency_ns as f32;
        let estimate = match self.estimate {
            Some(old) if old > sample => sample + (old - sample) * fade.left(now.since(self.at)),
            _ => sample,
        };
        *self = PeakEwma { estimate: Some(estimate), at: now };
    }

    /// Adds a lower bound of a latency (of a request given up after that long, or of a failure that is meant to count
    /// so). Raises the estimate to it, or changes nothing.
    #[inline]
    pub fn raise(&mut self, latency_ns: u64, now: Instant, fade: Fade) {
        let bound = latency_ns as f32;
        if self.latency_ns(now, fade).is_none_or(|e| e < bound) {
            *self = PeakEwma { estimate: Some(bound), at: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tau() -> Fade {
        Fade::over(10 * SECOND_NS)
    }

    fn at(seconds: u64) -> Instant {
        Instant(seconds * SECOND_NS)
    }

    #[test]
    fn a_slower_sample_counts_at_once_and_a_faster_one_by_time() {
        let mut e = PeakEwma::default();
        assert_eq!(e.latency_ns(at(0), tau()), None);
        e.observe(1_000_000, at(0), tau());
        e.observe(9_000_000, at(0), tau());
        assert_eq!(e.latency_ns(at(0), tau()), Some(9e6));
        e.observe(1_000_000, at(10), tau());
        let got = e.latency_ns(at(10), tau()).unwrap();
        assert!((got - (1e6 + 8e6 * (-1.0f32).exp())).abs() < 2e4, "{got}");
    }

    #[test]
    fn reading_changes_nothing() {
        let mut e = PeakEwma::default();
        e.observe(5_000_000, at(0), tau());
        let mut read = e;
        for s in 0..60 {
            let _ = read.latency_ns(at(s), tau());
        }
        e.observe(1_000_000, at(60), tau());
        read.observe(1_000_000, at(60), tau());
        assert_eq!(e.latency_ns(at(61), tau()), read.latency_ns(at(61), tau()));
    }

    #[test]
    fn a_spike_fades_to_a_quarter_percent_in_a_minute() {
        let mut e = PeakEwma::default();
        e.observe(4 * SECOND_NS, at(0), tau());
        let got = e.latency_ns(at(60), tau()).unwrap() / (4 * SECOND_NS) as f32;
        assert!((got - 0.0025).abs() < 0.0001, "{got}");
    }

    #[test]
    fn a_lower_bound_raises_and_never_lowers() {
        let mut e = PeakEwma::default();
        e.observe(5_000_000, at(0), tau());
        e.raise(1_000_000, at(1), tau());
        let mut untouched = PeakEwma::default();
        untouched.observe(5_000_000, at(0), tau());
        assert_eq!(e.latency_ns(at(2), tau()), untouched.latency_ns(at(2), tau()));
        e.raise(8_000_000, at(2), tau());
        assert_eq!(e.latency_ns(at(2), tau()), Some(8e6));
    }
}
