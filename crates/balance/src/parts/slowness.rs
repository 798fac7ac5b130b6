//! Endpoints that take clearly longer than others of their weight, and the extra load that this amounts to. Decided by
//! the latencies that endpoints report, so that a slow idle endpoint does not look as good as a fast idle endpoint.
//!
//! A latency means nothing without the load at which it was measured, and how latency grows with load is unknown: in
//! proportion where requests are processed in sequence, not at all where there are cores for all. So two numbers are
//! kept for each endpoint: the time of a request, and that time divided by the requests that share the endpoint. An
//! endpoint is slow only if both numbers are high.

use crate::endpoints::set::Slot;
use crate::measurement::report::LoadReport;
use crate::structures::time::{Instant, SECOND_NS};

/// Reports over which the two numbers are averaged. Several arrive per request and each is a median already, so the
/// average mainly evens out the load at which they were measured.
const WINDOW: f32 = 16.0;

/// Time after which a latency counts as unknown, if it was repeated to the nanosecond or not reported, as it was not
/// measured lately. Otherwise an endpoint that was slow would get no request, and never be found to be fast again.
const BELIEVED_NS: u64 = 5 * SECOND_NS;

/// Largest factor by which an endpoint counts as slower, whatever it reports: when the others are that busy, it gets
/// requests too.
const SLOWER_MAX: f32 = 32.0;

/// Fewest endpoints among which it can be decided which is slow.
const LIKE_MIN: usize = 3;

/// The speed of endpoints, by their reports.
#[derive(Default)]
pub(crate) struct Slowness {
    /// Multiple of the usual time from which an endpoint is slow; 0: none ever is.
    factor: f32,
    /// Reported latencies, by slot.
    takes: Vec<Takes>,
    /// Factor by which a slow endpoint is slower than usual, by slot; 0 for the others.
    slow: Vec<f32>,
    slow_count: usize,
    /// The two numbers of each endpoint in a class. Only used while they are compared.
    latencies: Vec<f32>,
    parts: Vec<f32>,
}

#[derive(Clone, Copy, Default)]
struct Takes {
    /// Average time of a request, nanoseconds; 0 if unknown.
    latency_ns: f32,
    /// Average of that time divided by the requests that share the endpoint.
    part_ns: f32,
    /// Latency of the latest report, the time of that report, and the time since which the latency has been the same.
    reported_ns: u64,
    at: Instant,
    since: Instant,
}

impl Takes {
    fn is_known(&self) -> bool {
        self.latency_ns > 0.0
    }

    /// Factor by which the endpoint is slower than usual; `None` if that is below `bound`.
    fn slower_than(&self, (latency_ns, part_ns): (f32, f32), bound: f32) -> Option<f32> {
        let by_part = self.part_ns / part_ns;
        let surely = by_part.min(self.latency_ns / latency_ns);
        (self.is_known() && surely >= bound).then_some(by_part.min(SLOWER_MAX))
    }
}

impl Slowness {
    pub(crate) fn new(factor: f64) -> Slowness {
        Slowness { factor: factor as f32, ..Slowness::default() }
    }

    /// Switches to a set with `slots` slots. Keeps the state of those that `stay`.
    pub(crate) fn on_set(&mut self, slots: usize, stay: impl Fn(usize) -> bool) {
        self.takes.resize(slots, Takes::default());
        self.slow.resize(slots, 0.0);
        for slot in (0..slots).filter(|&slot| !stay(slot)) {
            self.takes[slot] = Takes::default();
            self.slow[slot] = 0.0;
        }
        self.slow_count = self.slow.iter().filter(|&&slow| slow > 0.0).count();
    }

    /// Forgets all reports and verdicts.
    pub(crate) fn clear(&mut self) {
        self.takes.fill(Takes::default());
        self.slow.fill(0.0);
        self.slow_count = 0;
    }

    pub(crate) fn on_report(&mut self, slot: Slot, report: &LoadReport, now: Instant) {
        let Some(takes) = self.takes.get_mut(slot.index()).filter(|_| self.factor > 0.0) else { return };
        if report.latency_ns != takes.reported_ns {
            takes.since = now;
            takes.reported_ns = report.latency_ns;
        }
        takes.at = now;
        if report.latency_ns == 0 || now.since(takes.since) > BELIEVED_NS {
            takes.latency_ns = 0.0;
            return;
        }
        let latency_ns = report.latency_ns as f32;
        let part_ns = latency_ns / (report.in_flight as f32 + 1.0);
        if takes.is_known() {
            takes.latency_ns += (latency_ns - takes.latency_ns) / WINDOW;
            takes.part_ns += (part_ns - takes.part_ns) / WINDOW;
        } else {
            (takes.latency_ns, takes.part_ns) = (latency_ns, part_ns);
        }
    }

    /// Finds slow endpoints among alike endpoints, and adds to `changed` those that are or were slow. O(n).
    pub(crate) fn look(&mut self, alike: impl Iterator<Item = Slot> + Clone, now: Instant, changed: &mut Vec<Slot>) {
        self.latencies.clear();
        self.parts.clear();
        for slot in alike.clone() {
            let takes = &mut self.takes[slot.index()];
            if now.since(takes.at) > BELIEVED_NS {
                *takes = Takes::default();
            }
            if takes.is_known() {
                self.latencies.push(takes.latency_ns);
                self.parts.push(takes.part_ns);
            }
        }
        let usual = self.usual();
        for slot in alike {
            let i = slot.index();
            let before = self.slow[i];
            // Slow until half way back to usual, so that noise does not flip the verdict.
            let bound = if before > 0.0 { (1.0 + self.factor) / 2.0 } else { self.factor };
            let slower = usual.and_then(|usual| self.takes[i].slower_than(usual, bound)).unwrap_or(0.0);
            self.slow[i] = slower;
            self.slow_count += usize::from(slower > 0.0);
            self.slow_count -= usize::from(before > 0.0);
            if slower > 0.0 || before > 0.0 {
                changed.push(slot);
            }
        }
    }

    /// Medians of the two numbers. As long as fewer than half of the endpoints report false numbers, those move the
    /// medians little. With an even number, the faster of the middle two, so that half of the endpoints may be slow.
    fn usual(&mut self) -> Option<(f32, f32)> {
        let known = self.latencies.len();
        let median = |numbers: &mut [f32]| *numbers.select_nth_unstable_by((known - 1) / 2, f32::total_cmp).1;
        (known >= LIKE_MIN).then(|| (median(&mut self.latencies), median(&mut self.parts)))
    }

    /// True if any endpoint is slow.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.slow_count > 0
    }

    /// Load that `in_flight` requests at an endpoint amount to. A slow idle endpoint counts as a usual endpoint that is
    /// busy enough to take as long for the next request; further requests add only 1 each. Multiplying each request
    /// would be right where requests wait for each other, but an endpoint that merely stalled, and so is wrongly taken
    /// for slow, would then lose most where much is in flight (simulated in `mytime`: 2 to 3 % of the throughput and 7
    /// % higher peaks; neither with this rule).
    #[inline]
    pub(crate) fn load(&self, slot: Slot, in_flight: u32) -> u32 {
        if self.is_any() { self.load_of_any(slot, in_flight) } else { in_flight }
    }

    fn load_of_any(&self, slot: Slot, in_flight: u32) -> u32 {
        let slower = self.slow.get(slot.index()).copied().unwrap_or(0.0);
        // Adds `slower` - 1, rounded, or nothing if `slower` is 0.
        in_flight.saturating_add((slower - 0.5) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::time::MILLISECOND_NS as MS;

    /// Returns the state for a set of `slots` endpoints.
    fn slowness(slots: usize) -> Slowness {
        let mut slowness = Slowness::new(2.0);
        slowness.on_set(slots, |_| false);
        slowness
    }

    /// Reports the requests in flight and the latency, in milliseconds, of each endpoint at `ms`, and finds the slow
    /// ones.
    fn report_all(slowness: &mut Slowness, said: &[(u32, u64)], ms: u64) {
        let now = Instant(ms * MS);
        for (slot, &(in_flight, latency_ms)) in (0..).map(Slot).zip(said) {
            // Never the same latency twice, as in real measurements.
            slowness.on_report(slot, &LoadReport::new(in_flight, latency_ms * MS + ms), now);
        }
        slowness.look((0..said.len() as u32).map(Slot), now, &mut Vec::new());
    }

    fn loads(slowness: &Slowness, in_flight: u32) -> Vec<u32> {
        (0..slowness.takes.len() as u32).map(|slot| slowness.load(Slot(slot), in_flight)).collect()
    }

    #[test]
    fn one_that_takes_four_times_as_long_counts_as_if_three_more_were_there() {
        let mut slowness = slowness(4);
        report_all(&mut slowness, &[(0, 10), (0, 40), (0, 11), (0, 9)], 0);
        assert_eq!((loads(&slowness, 0), loads(&slowness, 1)), (vec![0, 3, 0, 0], vec![1, 4, 1, 1]));
        assert_eq!(slowness.load(Slot(1), u32::MAX), u32::MAX);
    }

    #[test]
    fn an_endpoint_that_is_only_busier_or_only_idle_is_not_slow() {
        // The first four as in a queue, the other four with cores for all requests.
        for said in [[(0, 10), (1, 20), (4, 50), (9, 100)], [(0, 10), (1, 10), (7, 10), (15, 11)]] {
            let mut slowness = slowness(4);
            report_all(&mut slowness, &said, 0);
            assert_eq!(loads(&slowness, 3), [3; 4], "{said:?}");
        }
    }

    #[test]
    fn noise_moves_no_endpoint_to_and_fro() {
        let mut slowness = slowness(3);
        let mut seen = Vec::new();
        for (i, latency_ms) in [19, 21, 16, 16, 14].into_iter().enumerate() {
            // Long enough for the average to settle.
            (0..100).for_each(|j| report_all(&mut slowness, &[(0, 10), (0, 10), (0, latency_ms)], i as u64 * 100 + j));
            seen.push(slowness.is_any());
        }
        assert_eq!(seen, [false, true, true, true, false]);
    }

    #[test]
    fn a_latency_that_was_not_measured_of_late_is_forgotten() {
        let mut slowness = slowness(3);
        let mut said = |slow_ns: u64, ms: u64| {
            report_all(&mut slowness, &[(0, 10), (0, 10)], ms);
            if slow_ns > 0 {
                slowness.on_report(Slot(2), &LoadReport::new(0, slow_ns), Instant(ms * MS));
            }
            slowness.look((0..3).map(Slot), Instant(ms * MS), &mut Vec::new());
            slowness.is_any()
        };
        // The same latency for five seconds, then another.
        assert_eq!([0, 4000, 5000, 5001, 6000].map(|ms| said(40 * MS, ms)), [true, true, true, false, false]);
        assert!(said(40 * MS + 1, 6001), "it was measured again");
        // No report for five seconds.
        assert_eq!([11_001, 11_002].map(|ms| said(0, ms)), [true, false]);
    }

    #[test]
    fn an_endpoint_that_reports_no_latency_is_as_usual() {
        let mut slowness = slowness(3);
        report_all(&mut slowness, &[(0, 10), (0, 10), (0, 40)], 0);
        slowness.on_report(Slot(2), &LoadReport::new(0, 0), Instant(MS));
        slowness.look((0..3).map(Slot), Instant(MS), &mut Vec::new());
        assert!(!slowness.is_any());
    }

    #[test]
    fn false_reports_draw_no_requests_and_starve_no_endpoint() {
        let mut fast = slowness(3);
        report_all(&mut fast, &[(0, 0), (0, 10), (0, 10)], 1);
        assert_eq!(loads(&fast, 5), [5; 3], "a claim of a nanosecond");
        let mut two = slowness(2);
        report_all(&mut two, &[(0, 0), (0, 10)], 1);
        assert_eq!(loads(&two, 5), [5; 2], "of two it is not known which is slow");
        let mut slow = slowness(3);
        report_all(&mut slow, &[(0, 10), (0, 10), (0, 1 << 40)], 0);
        assert_eq!(loads(&slow, 0), [0, 0, 31], "a claim of years");
    }

    #[test]
    fn nothing_is_known_of_another_endpoint_in_the_slot() {
        let mut slowness = slowness(3);
        report_all(&mut slowness, &[(0, 10), (0, 10), (0, 40)], 0);
        slowness.on_set(3, |slot| slot != 0);
        assert!(slowness.is_any());
        slowness.on_set(3, |slot| slot != 2);
        assert!(!slowness.is_any());
    }
}
