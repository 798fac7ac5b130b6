//! What do endpoints report, and is it believed? The latest report of each, shared by the workers of a process: a
//! report to one serves all.
//!
//! Relaxed is enough: each number stands for itself, and no thread reaches other memory through it.

use crate::endpoints::endpoint::EndpointId;
use crate::measurement::report::{LoadReport, Refused};
use crate::structures::atomics::atomic::{AtomicU64, Ordering::Relaxed};
use crate::structures::row::Row;
use crate::structures::time::{Instant, MILLISECOND_NS, SECOND_NS};

/// For so long after a report an endpoint's clock must rise, and for so long after a failure its reports are suspect.
/// Later the clock may have been set back, and the failure no longer matters.
const SUSPECT_NS: u64 = SECOND_NS;

/// What all but this process have in flight at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// Requests, as of the report.
    pub in_flight: u32,
    /// How long ago the report was taken, nanoseconds, in whole milliseconds.
    pub age_ns: u64,
}

/// Bits for the requests in flight, of which no report has more than 2^24. The moment has 39: 17 years of milliseconds.
const IN_FLIGHT_BITS: u32 = 25;

/// What is known of the slots of a chunk. 0 is nothing in each.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The moment of the latest report, and what others had in flight, in one number, so that both belong to one
    /// report.
    latest: Row<AtomicU64>,
    /// The latest stamps.
    stamps: Row<AtomicU64>,
    /// When a request failed, unless one succeeded since.
    failed: Row<AtomicU64>,
    /// The endpoints that these numbers belong to.
    of: Row<AtomicU64>,
}

impl Reported {
    pub(crate) fn new() -> Reported {
        Reported { latest: Row::new(), stamps: Row::new(), failed: Row::new(), of: Row::new() }
    }

    /// Takes a plausible report of an endpoint where this process has `here` in flight.
    pub(crate) fn accept(&self, at: usize, report: &LoadReport, here: u32, now: Instant) -> Result<(), Refused> {
        let in_flight = report.in_flight.saturating_sub(here);
        let before = self.others(at, now).filter(|others| others.age_ns <= SUSPECT_NS);
        // An endpoint that fails at once has nothing in flight. So until a request succeeds, or the failure is old, a
        // report may only make it look busier. That draws no requests to it, and an endpoint that fails because it is
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

    /// What others had in flight in the endpoint's latest report.
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

    /// Notes that a request failed there, or that the first one after a failure succeeded.
    pub(crate) fn on_outcome(&self, at: usize, failed: bool, now: Instant) {
        self.failed.0[at].store(if failed { moment(now) } else { 0 }, Relaxed);
    }

    /// Forgets everything of another endpoint that had the slot. The numbers of an endpoint that comes back are kept,
    /// or what is known of it would depend on when workers look.
    pub(crate) fn now_of(&self, at: usize, id: EndpointId) {
        // Relaxed: no worker picks the slot before it switches to the set that has this endpoint.
        if self.of.0[at].swap(id.0, Relaxed) != id.0 {
            [&self.latest, &self.stamps, &self.failed].iter().for_each(|row| row.0[at].store(0, Relaxed));
        }
    }
}

/// When any endpoint of the pool last reported, to any worker.
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
        // Most of the time another report came in the same millisecond: then this line is only read.
        if self.0.load(Relaxed) != moment(now) {
            self.0.store(moment(now), Relaxed);
        }
    }
}

/// The moment in milliseconds, from 1 on.
fn moment(now: Instant) -> u64 {
    now.0 / MILLISECOND_NS + 1
}

/// The age of a report. Clocks of two workers may differ by a batch: a report from the future has age 0.
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
