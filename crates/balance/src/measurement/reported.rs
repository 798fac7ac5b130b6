//! The latest report of each endpoint, after checks of its plausibility. The workers of a process share it, so a report
//! to any worker serves all.
//!
//! Relaxed suffices: each number stands for itself, and no thread reaches other memory through it.

use crate::endpoints::endpoint::EndpointId;
use crate::measurement::report::{LoadReport, Refused};
use crate::structures::atomics::atomic::{AtomicU64, Ordering::Relaxed};
use crate::structures::row::Row;
use crate::structures::time::{Instant, MILLISECOND_NS, SECOND_NS};

/// Time after a report during which the endpoint's clock must rise, and after a failure during which its reports are
/// suspect, nanoseconds. Later the clock may have been set back, and the failure no longer matters.
const SUSPECT_NS: u64 = SECOND_NS;

/// Requests in flight at an endpoint that belong to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// Number of requests, as of the report.
    pub in_flight: u32,
    /// Age of the report, nanoseconds, rounded to milliseconds.
    pub age_ns: u64,
}

/// Bits for the requests in flight, of which a report has at most 2^24. The other 39 hold milliseconds: 17 years.
const IN_FLIGHT_BITS: u32 = 25;

/// Reports of the slots of a row. In each number, 0 means none.
#[derive(Debug)]
pub(crate) struct Reported {
    /// Time of the latest report and the requests of others, in a single number so that both belong to the same report.
    latest: Row<AtomicU64>,
    /// Latest stamp of each endpoint.
    stamps: Row<AtomicU64>,
    /// Time of the latest failed request; 0 if a request has succeeded since.
    failed: Row<AtomicU64>,
    /// Identities of the endpoints that these numbers belong to.
    of: Row<AtomicU64>,
}

impl Reported {
    pub(crate) fn new() -> Reported {
        Reported { latest: Row::new(), stamps: Row::new(), failed: Row::new(), of: Row::new() }
    }

    /// Stores a plausible report of an endpoint at which this process has `here` requests in flight.
    pub(crate) fn accept(&self, at: usize, report: &LoadReport, here: u32, now: Instant) -> Result<(), Refused> {
        let in_flight = report.in_flight.saturating_sub(here);
        let before = self.others(at, now).filter(|others| others.age_ns <= SUSPECT_NS);
        // An endpoint that fails at once has nothing in flight. So until a request succeeds, or the failure is old, a
        // report may only make it look busier. That attracts no requests, and an endpoint that fails because it is
        // overrun is still believed.
        if self.is_failing(at, now) && before.is_none_or(|before| in_flight < before.in_flight) {
            return Err(Refused::Failing);
        }
        if report.stamp != 0 {
            let newer = |latest| (report.stamp > latest || before.is_none()).then_some(report.stamp);
            self.stamps.0[at].fetch_update(Relaxed, Relaxed, newer).map_err(|_| Refused::Replayed)?;
        }
        self.latest.0[at].store(moment(now) << IN_FLIGHT_BITS | u64::from(in_flight), Relaxed);
        Ok(())
    }

    /// Returns the requests of others, by the endpoint's latest report. `None` before the first.
    #[inline]
    pub(crate) fn others(&self, at: usize, now: Instant) -> Option<Others> {
        let word = self.latest.0[at].load(Relaxed);
        let in_flight = (word & ((1 << IN_FLIGHT_BITS) - 1)) as u32;
        (word != 0).then(|| Others { in_flight, age_ns: age_ns(word >> IN_FLIGHT_BITS, now) })
    }

    fn is_failing(&self, at: usize, now: Instant) -> bool {
        let failed = self.failed.0[at].load(Relaxed);
        failed != 0 && age_ns(failed, now) < SUSPECT_NS
    }

    /// Records that a request failed there, or that the first request after a failure succeeded.
    pub(crate) fn on_outcome(&self, at: usize, failed: bool, now: Instant) {
        self.failed.0[at].store(if failed { moment(now) } else { 0 }, Relaxed);
    }

    /// Assigns the slot to an endpoint, and clears the numbers if another endpoint had it. Numbers of an endpoint that
    /// returns are kept, or the knowledge of it would depend on when workers look.
    pub(crate) fn now_of(&self, at: usize, id: EndpointId) {
        // Relaxed: no worker picks the slot before it switches to the set that has this endpoint.
        if self.of.0[at].swap(id.0, Relaxed) != id.0 {
            [&self.latest, &self.stamps, &self.failed].iter().for_each(|row| row.0[at].store(0, Relaxed));
        }
    }
}

/// Time of the latest report of any endpoint of the pool, to any worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Heard(AtomicU64);

impl Heard {
    #[inline]
    pub(crate) fn age_ns(&self, now: Instant) -> Option<u64> {
        let at = self.0.load(Relaxed);
        (at != 0).then(|| age_ns(at, now))
    }

    pub(crate) fn note(&self, now: Instant) {
        // Usually another report arrived in the same millisecond; then this line is only read.
        if self.0.load(Relaxed) != moment(now) {
            self.0.store(moment(now), Relaxed);
        }
    }
}

/// Milliseconds plus 1, so that 0 can mean none.
fn moment(now: Instant) -> u64 {
    now.0 / MILLISECOND_NS + 1
}

/// Age of a report. Clocks of two workers may differ by a batch: a report from the future has age 0.
fn age_ns(at: u64, now: Instant) -> u64 {
    moment(now).saturating_sub(at) * MILLISECOND_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(in_flight: u32, stamp: u64) -> LoadReport {
        LoadReport { stamp, ..LoadReport::new(in_flight, 0) }
    }

    fn at(ms: u64) -> Instant {
        Instant(ms * MILLISECOND_NS)
    }

    #[test]
    fn what_this_process_has_in_flight_is_not_the_others() {
        let reported = Reported::new();
        assert_eq!(reported.others(0, at(0)), None);
        reported.accept(0, &LoadReport::new(12, 0), 5, at(3)).unwrap();
        assert_eq!(reported.others(0, at(10)), Some(Others { in_flight: 7, age_ns: 7 * MILLISECOND_NS }));
        reported.accept(0, &LoadReport::new(2, 0), 5, at(4)).unwrap();
        assert_eq!(reported.others(0, at(1)), Some(Others { in_flight: 0, age_ns: 0 }), "a clock that is behind");
        assert_eq!(reported.others(1, at(10)), None);
        reported.accept(0, &LoadReport::new(1 << 24, 0), 0, at(1 << 38)).unwrap();
        assert_eq!(reported.others(0, at(1 << 38)), Some(Others { in_flight: 1 << 24, age_ns: 0 }));
    }

    #[test]
    fn a_stamp_must_rise_unless_nothing_was_taken_for_a_second() {
        let reported = Reported::new();
        let accept = |stamp, ms| reported.accept(0, &stamped(1, stamp), 0, at(ms));
        assert_eq!(
            [accept(7, 0), accept(7, 1), accept(6, 2)],
            [Ok(()), Err(Refused::Replayed), Err(Refused::Replayed)]
        );
        assert_eq!([accept(8, 900), accept(3, 1800)], [Ok(()), Err(Refused::Replayed)]);
        assert_eq!([accept(3, 1901), accept(2, 1902), accept(4, 1902)], [Ok(()), Err(Refused::Replayed), Ok(())]);
        assert_eq!([accept(0, 1903), accept(0, 1903)], [Ok(()); 2], "it has no clock");
    }

    #[test]
    fn an_endpoint_that_fails_may_only_look_busier() {
        let reported = Reported::new();
        let accept = |in_flight, ms| reported.accept(0, &LoadReport::new(in_flight, 0), 0, at(ms));
        reported.on_outcome(0, true, at(0));
        assert_eq!(accept(9, 0), Err(Refused::Failing), "nothing is known that it could be compared with");
        assert_eq!(accept(9, 1000), Ok(()));
        reported.on_outcome(0, true, at(1001));
        assert_eq!(
            [accept(8, 1002), accept(20, 1003), accept(9, 1004)],
            [Err(Refused::Failing), Ok(()), Err(Refused::Failing)]
        );
        reported.on_outcome(0, false, at(1005));
        assert_eq!(accept(0, 1006), Ok(()));
    }
}
