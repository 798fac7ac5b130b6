//! The endpoint's side of a [`LoadReport`](crate::LoadReport): estimates how long a request would take at the present
//! load, from recent requests at about that load.
//!
//! Source: Wydrowski et al., Load is not what you should balance: Introducing Prequal (NSDI 2024), section 4: the
//! median of recent latencies of requests that arrived at about the present number in flight. If no recent request
//! arrived at about that number, requests of the nearest level are scaled to it. Without that, an endpoint that was
//! overrun would report the slow latencies of that time for as long as no balancer sends it requests, and for that
//! reason none would: it would stay idle forever.

use crate::structures::time::{Instant, SECOND_NS};

/// Requests remembered at each level of load. The median of 16 exponential times has a standard deviation of 36 %.
const SAMPLES: usize = 16;

/// Recent requests that suffice for an estimate. With fewer, requests of neighbouring levels are included.
const ENOUGH: usize = 8;

/// Age above which requests are not recent, nanoseconds: the endpoint may have changed since.
const AGE_MAX_NS: u64 = 5 * SECOND_NS;

/// Latencies of recent requests, by the number in flight when they arrived. The endpoint has an estimate per worker.
/// Takes at most 64 kB, and 24 kB at loads in the thousands.
#[derive(Clone, Debug, Default)]
pub struct LoadEstimate {
    /// Levels of load up to the highest seen; at most 124.
    levels: Vec<Level>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// Index of the next sample, which replaces the oldest once the ring is full.
    next: u8,
    count: u8,
    /// Latencies of the samples in ascending order, so that their median is read at once.
    sorted: [u64; SAMPLES],
    /// Ring buffer, in the order of arrival.
    samples: [Sample; SAMPLES],
}

impl Level {
    #[inline]
    fn note(&mut self, sample: Sample) {
        let next = usize::from(self.next) % SAMPLES;
        let (old, mut count) = (self.samples[next].latency_ns, usize::from(self.count));
        if count == SAMPLES {
            let at = rank(&self.sorted, old);
            self.sorted.copy_within(at + 1.., at);
            count -= 1;
        }
        let at = rank(&self.sorted[..count], sample.latency_ns);
        self.sorted.copy_within(at..count, at + 1);
        self.sorted[at] = sample.latency_ns;
        self.samples[next] = sample;
        self.next = (next as u8 + 1) % SAMPLES as u8;
        self.count = count as u8 + 1;
    }

    /// Median latency; `None` unless there are enough samples and all are recent.
    #[inline]
    fn median(&self, now: Instant) -> Option<u64> {
        let count = usize::from(self.count);
        let oldest = if count == SAMPLES { usize::from(self.next) } else { 0 };
        (count >= ENOUGH && self.samples[oldest].is_recent(now)).then(|| self.sorted[count / 2])
    }
}

/// Number of elements that are smaller than `value`.
#[inline]
fn rank(of: &[u64], value: u64) -> usize {
    of.iter().map(|&v| usize::from(v < value)).sum()
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Requests in flight when this request arrived, including itself; 0 marks an empty entry.
    in_flight: u32,
    latency_ns: u64,
    at: Instant,
}

impl Sample {
    #[inline]
    fn is_recent(&self, now: Instant) -> bool {
        now.since(self.at) <= AGE_MAX_NS
    }
}

/// Level of a number of other requests in flight: a level per number up to 7, above that a level per quarter of an
/// octave.
fn level(in_flight: u32) -> usize {
    match in_flight.checked_ilog2() {
        Some(octave @ 3..) => (4 * octave + (in_flight >> (octave - 2)) % 4 - 4) as usize,
        _ => in_flight as usize,
    }
}

impl LoadEstimate {
    /// Records a request that ended well after `latency_ns` and that found `in_flight` others when it arrived.
    #[inline]
    pub fn ended(&mut self, in_flight: u32, latency_ns: u64, now: Instant) {
        let level = level(in_flight);
        if level >= self.levels.len() {
            self.levels.resize(level + 1, Level::default());
        }
        self.levels[level].note(Sample { in_flight: in_flight.saturating_add(1), latency_ns, at: now });
    }

    /// Estimates how long a request would take that finds `in_flight` others, in nanoseconds; 0 if unknown.
    #[inline]
    pub fn latency_ns(&self, in_flight: u32, now: Instant) -> u64 {
        let median = self.levels.get(level(in_flight)).and_then(|level| level.median(now));
        median.unwrap_or_else(|| self.of_few(in_flight, now))
    }

    /// Estimates the same where the level has few samples or old samples.
    fn of_few(&self, in_flight: u32, now: Instant) -> u64 {
        let at = level(in_flight);
        let mut found = [0; ENOUGH - 1 + 2 * SAMPLES];
        let mut count = self.recent(Some(at), None, now, &mut found);
        // Levels within an octave predict this level about equally well. Levels further away are merely better than
        // nothing.
        let mut apart = 1;
        while count < ENOUGH && (count == 0 || apart < 4) && apart < at.max(self.levels.len()) + 1 {
            let (below, above) = (at.checked_sub(apart), Some(at + apart));
            for level in [below, above] {
                count += self.recent(level, Some(in_flight), now, &mut found[count..]);
            }
            apart += 1;
        }
        if count == 0 { 0 } else { *found[..count].select_nth_unstable(count / 2).1 }
    }

    /// Collects the recent latencies of a level into `out`, and returns their number. `scaled_to`: the number of others
    /// to scale them to, for a level other than its own.
    fn recent(&self, level: Option<usize>, scaled_to: Option<u32>, now: Instant, out: &mut [u64]) -> usize {
        let Some(level) = level.and_then(|l| self.levels.get(l)) else { return 0 };
        let recent = |s: &&Sample| s.in_flight != 0 && s.is_recent(now);
        let scale = |s: &Sample| match scaled_to {
            Some(others) => (s.latency_ns as f64 * (f64::from(others) + 1.0) / f64::from(s.in_flight)) as u64,
            None => s.latency_ns,
        };
        let mut count = 0;
        for (out, sample) in out.iter_mut().zip(level.samples.iter().filter(recent)) {
            *out = scale(sample);
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;
    use crate::structures::time::MILLISECOND_NS as MS;

    fn at(ms: u64) -> Instant {
        Instant(ms * MS)
    }

    #[test]
    fn levels_follow_each_other_without_gap() {
        let mut last = level(0);
        for n in 1..100_000 {
            let l = level(n);
            assert!(l == last || l == last + 1, "{n} is in level {l}, {} in {last}", n - 1);
            last = l;
        }
        assert_eq!([0, 7, 8, 9, 10, 15, 16, 19, 20].map(level), [0, 7, 8, 8, 9, 11, 12, 12, 13]);
    }

    #[test]
    fn reports_the_latency_of_requests_at_that_load() {
        let mut e = LoadEstimate::default();
        assert_eq!(e.latency_ns(0, at(0)), 0);
        // Four run at once without waiting; beyond that, each waits for a quarter of those ahead.
        let takes = |others: u32| 10 * MS * u64::from(others.max(3) + 1) / 4;
        let mut rng = Rng::new(1);
        for i in 0..2000 {
            let others = rng.below(12);
            e.ended(others, takes(others) * u64::from(90 + rng.below(20)) / 100, at(i));
        }
        for others in 0..12 {
            let (got, want) = (e.latency_ns(others, at(2000)) as f64, takes(others) as f64);
            // Levels above 7 cover two numbers: 6 % of 8 or 9. The median of 16 samples of +-10 % is within half of
            // that.
            assert!((got / want - 1.0).abs() < 0.12, "{others}: {got} for {want}");
        }
        assert_eq!(e.latency_ns(3, at(8000)), 0, "long ago");
    }

    #[test]
    fn the_median_that_is_kept_is_that_of_the_samples() {
        let (mut e, mut rng, mut kept) = (LoadEstimate::default(), Rng::new(3), 0);
        for i in 0..5000u64 {
            // Few distinct latencies, so that many are equal; pauses after which some or all samples are old.
            let now = at(10 * i + 3000 * (i / 37));
            e.ended(rng.below(3), u64::from(rng.below(9)), now);
            for others in 0..4 {
                assert_eq!(e.latency_ns(others, now), e.of_few(others, now), "{i}, {others}");
                kept += usize::from(e.levels.get(others as usize).is_some_and(|level| level.median(now).is_some()));
            }
        }
        assert!((5000..15_000).contains(&kept), "{kept}: both ways are compared");
    }

    /// An endpoint that used old requests, or requests at other loads as if they had arrived at this load, would report
    /// a past rush for as long as no request comes, and for that reason none would come.
    #[test]
    fn an_endpoint_that_was_overrun_and_is_idle_does_not_look_slow() {
        let mut e = LoadEstimate::default();
        (0..100).for_each(|i| e.ended(99, 1000 * MS, at(i)));
        let idle = e.latency_ns(0, at(200));
        assert!((9 * MS..=11 * MS).contains(&idle), "{idle}");
        assert_eq!(e.latency_ns(0, at(60_000)), 0, "no request came for a minute: not known is not slow");
    }

    #[test]
    fn a_few_of_this_load_come_before_many_of_another() {
        let mut e = LoadEstimate::default();
        (0..16).for_each(|i| e.ended(40, 400 * MS, at(i)));
        e.ended(1, 30 * MS, at(20));
        assert_eq!(e.latency_ns(1, at(20)), 30 * MS);
        assert_eq!(e.latency_ns(u32::MAX, at(20)) / (1 << 32), 400 * MS / 41);
    }
}
