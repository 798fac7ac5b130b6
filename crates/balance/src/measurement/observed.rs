//! Observations of each endpoint from its requests, written by all workers as requests end and read by control code:
//! failures in a row, the verdict of a trial, and, where the settings ask for them, sums over time.
//!
//! Relaxed suffices for all of them: each is a single atomic number that stands for itself, and no thread reaches other
//! memory through it. The changes of a number have a single order, so streaks are exact over all workers. A new trial
//! reaches workers with the set, whose publication orders memory.

use crate::machines::outlier::{self, Cause};
use crate::measurement::request::{FailureKind, Outcome};
use crate::structures::row::Row;
use crate::structures::tally::Tally;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The observations that workers make; all off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    /// True if anything is recorded about each request.
    pub(crate) on: bool,
    /// Streak lengths at which the control side is notified at once; 0 for never.
    pub(crate) thresholds: Streaks,
    /// True if a server error counts as a fault of the endpoint. False if server errors eject nothing.
    pub(crate) server_errors: bool,
    /// True if outcomes and latencies are summed.
    pub(crate) tallies: bool,
    /// True if the most requests in flight at once are recorded.
    pub(crate) peaks: bool,
}

impl Watch {
    /// Returns the outcome as it counts for everything but streaks of server errors.
    #[inline]
    pub(crate) fn judged(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Failure { kind: FailureKind::Server, retry_after_ns } if self.server_errors => {
                Outcome::Failure { kind: FailureKind::Gateway, retry_after_ns }
            }
            _ => outcome,
        }
    }
}

/// Lengths of the current streaks of failures, by kind. Packed into 64 bits, so that each change is a single atomic
/// operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streaks {
    connect: u32,
    gateway: u32,
    server: u32,
}

/// Longest streak that is counted.
const STREAK_MAX: u32 = (1 << 21) - 1;

impl Streaks {
    pub(crate) fn thresholds(settings: &outlier::Settings) -> Streaks {
        Streaks {
            connect: settings.consecutive_connect.min(STREAK_MAX),
            gateway: settings.consecutive_gateway.min(STREAK_MAX),
            server: settings.consecutive_5xx.min(STREAK_MAX),
        }
    }

    fn unpack(word: u64) -> Streaks {
        let part = |at: u32| (word >> at) as u32 & STREAK_MAX;
        Streaks { connect: part(0), gateway: part(21), server: part(42) }
    }

    fn pack(self) -> u64 {
        u64::from(self.connect) | u64::from(self.gateway) << 21 | u64::from(self.server) << 42
    }

    /// Returns the streaks after another failure. A refused connection shows nothing about responses, while any
    /// response shows that a connection was opened.
    fn and(self, kind: FailureKind) -> Streaks {
        let more = |n: u32| (n + 1).min(STREAK_MAX);
        match kind {
            FailureKind::Connect => Streaks { connect: more(self.connect), ..self },
            FailureKind::Gateway => Streaks { connect: 0, gateway: more(self.gateway), server: more(self.server) },
            FailureKind::Server => Streaks { connect: 0, gateway: 0, server: more(self.server) },
            FailureKind::Busy => Streaks::default(),
        }
    }

    /// Returns the cause whose streak has reached its threshold, if any.
    pub(crate) fn reached(self, thresholds: Streaks) -> Option<Cause> {
        let long = |n: u32, threshold: u32| threshold > 0 && n >= threshold;
        match () {
            () if long(self.connect, thresholds.connect) => Some(Cause::Connect),
            () if long(self.gateway, thresholds.gateway) => Some(Cause::Gateway),
            () if long(self.server, thresholds.server) => Some(Cause::Server),
            () => None,
        }
    }

    /// True if a streak has just reached its threshold, so that exactly a single worker reports it.
    fn crossed(self, before: Streaks, thresholds: Streaks) -> bool {
        let crossed = |n: u32, before: u32, threshold: u32| n != before && n == threshold;
        crossed(self.connect, before.connect, thresholds.connect)
            || crossed(self.gateway, before.gateway, thresholds.gateway)
            || crossed(self.server, before.server, thresholds.server)
    }
}

/// Observations of the slots of a row.
#[derive(Debug)]
pub(crate) struct Observed {
    streaks: Row<AtomicU64>,
    /// Number of the trial, with its verdict in the two lowest bits.
    trials: Row<AtomicU64>,
    /// Most requests at once that counted towards the limit.
    peaks: Row<AtomicU32>,
    /// Sums by shard, as for the counts.
    tallies: Box<[Row<Sums>]>,
}

#[derive(Debug, Default)]
struct Sums {
    answered: AtomicU32,
    failed: AtomicU32,
    timed: AtomicU32,
    latency_ns: AtomicU64,
}

const PASSED: u64 = 1;
const FAILED: u64 = 2;

/// The writing worker: its shard, and true if no other worker writes to that.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) shard: usize,
    pub(crate) sole: bool,
}

impl Observed {
    pub(crate) fn new(shards: usize) -> Observed {
        let tallies = (0..shards).map(|_| Row::new()).collect();
        Observed { streaks: Row::new(), trials: Row::new(), peaks: Row::new(), tallies }
    }

    /// Records the end of a request. Returns true if the control side has something to decide.
    #[inline]
    pub(crate) fn on_end(
        &self,
        at: usize,
        trial: u16,
        outcome: Outcome,
        latency_ns: u64,
        watch: &Watch,
        writer: Writer,
    ) -> bool {
        if watch.tallies {
            self.tally(at, outcome, latency_ns, writer);
        }
        // Nearly always there is no streak to break; then this cache line is only read.
        let quiet = outcome == Outcome::Success && self.streaks.0[at].load(Relaxed) == 0;
        if quiet && trial == 0 { false } else { self.on_news(at, trial, outcome, watch) }
    }

    #[cold]
    fn on_news(&self, at: usize, trial: u16, outcome: Outcome, watch: &Watch) -> bool {
        let crossed = match outcome {
            Outcome::Cancelled => return false,
            Outcome::Success => {
                self.streaks.0[at].store(0, Relaxed);
                false
            }
            Outcome::Failure { kind, .. } => {
                let with_it = |word| Some(Streaks::unpack(word).and(kind).pack());
                let before = self.streaks.0[at].fetch_update(Relaxed, Relaxed, with_it);
                let before = Streaks::unpack(before.unwrap_or_else(|word| word));
                before.and(kind).crossed(before, watch.thresholds)
            }
        };
        crossed | self.decide(at, trial, outcome, watch)
    }

    /// Makes the first outcome of a trial its verdict. Outcomes of earlier trials are ignored. Returns true for a
    /// verdict.
    fn decide(&self, at: usize, trial: u16, outcome: Outcome, watch: &Watch) -> bool {
        let undecided = u64::from(trial) << 2;
        let verdict = if watch.judged(outcome).is_failure() { FAILED } else { PASSED };
        let word = &self.trials.0[at];
        trial != 0 && word.compare_exchange(undecided, undecided | verdict, Relaxed, Relaxed).is_ok()
    }

    #[inline]
    fn tally(&self, at: usize, outcome: Outcome, latency_ns: u64, writer: Writer) {
        let sums = &self.tallies[writer.shard].0[at];
        let one_more = |count: &AtomicU32| {
            if writer.sole {
                count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
            } else {
                count.fetch_add(1, Relaxed);
            }
        };
        match outcome {
            Outcome::Cancelled => {}
            Outcome::Failure { kind: FailureKind::Busy, .. } => one_more(&sums.answered),
            Outcome::Failure { .. } => one_more(&sums.failed),
            Outcome::Success => {
                one_more(&sums.answered);
                one_more(&sums.timed);
                if writer.sole {
                    sums.latency_ns.store(sums.latency_ns.load(Relaxed).wrapping_add(latency_ns), Relaxed);
                } else {
                    sums.latency_ns.fetch_add(latency_ns, Relaxed);
                }
            }
        }
    }

    /// Records a new number of requests that count towards the limit.
    #[inline]
    pub(crate) fn on_hold(&self, at: usize, held: u32) {
        // Usually it is not a new peak, and nothing is written.
        if held > self.peaks.0[at].load(Relaxed) {
            self.peaks.0[at].fetch_max(held, Relaxed);
        }
    }

    /// Returns the current streaks of failures.
    pub(crate) fn streaks(&self, at: usize) -> Streaks {
        Streaks::unpack(self.streaks.0[at].load(Relaxed))
    }

    /// Resets all streaks to 0.
    pub(crate) fn clear_streaks(&self, at: usize) {
        self.streaks.0[at].store(0, Relaxed);
    }

    /// Begins a trial: from now on its first outcome is the verdict.
    pub(crate) fn begin_trial(&self, at: usize, number: u16) {
        self.trials.0[at].store(u64::from(number) << 2, Relaxed);
    }

    /// Number of the latest trial; 0 before the first.
    pub(crate) fn latest_trial(&self, at: usize) -> u16 {
        (self.trials.0[at].load(Relaxed) >> 2) as u16
    }

    /// Returns true if the trial of this number was passed, false if it failed, `None` while it is undecided.
    pub(crate) fn verdict(&self, at: usize, number: u16) -> Option<bool> {
        let word = self.trials.0[at].load(Relaxed);
        (word >> 2 == u64::from(number) && word & 3 != 0).then_some(word & 3 == PASSED)
    }

    /// Returns the most requests that counted towards the limit since the last call.
    pub(crate) fn take_peak(&self, at: usize) -> u32 {
        self.peaks.0[at].swap(0, Relaxed)
    }

    /// Returns the sums of all workers. A request that ends meanwhile may be in some of them only: an error of 1 in
    /// many.
    pub(crate) fn tallied(&self, at: usize) -> Tally {
        self.tallies.iter().map(|row| &row.0[at]).fold(Tally::default(), |sum, s| Tally {
            answered: sum.answered.wrapping_add(s.answered.load(Relaxed)),
            failed: sum.failed.wrapping_add(s.failed.load(Relaxed)),
            latency_ns: sum.latency_ns.wrapping_add(s.latency_ns.load(Relaxed)),
            timed: sum.timed.wrapping_add(s.timed.load(Relaxed)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: Watch = Watch {
        on: true,
        thresholds: Streaks { connect: 3, gateway: 2, server: 4 },
        server_errors: true,
        tallies: true,
        peaks: true,
    };
    const WRITER: Writer = Writer { shard: 0, sole: true };

    fn end(observed: &Observed, outcome: Outcome) -> bool {
        observed.on_end(5, 0, outcome, 10, &WATCH, WRITER)
    }

    #[test]
    fn each_row_is_broken_by_what_shows_that_the_fault_is_gone() {
        use FailureKind::{Busy, Connect, Gateway, Server};
        let observed = Observed::new(1);
        let mut tells = |kind| end(&observed, Outcome::failed(kind));
        assert_eq!([Connect, Connect, Gateway, Connect, Connect].map(&mut tells), [false; 5]);
        assert_eq!(observed.streaks(5), Streaks { connect: 2, gateway: 1, server: 1 });
        assert!(tells(Connect), "the third in a row");
        assert!(!tells(Connect), "the fourth tells nothing new");
        assert_eq!(observed.streaks(5).reached(WATCH.thresholds), Some(Cause::Connect));
        assert_eq!([Server, Gateway, Gateway].map(&mut tells), [false, false, true]);
        assert!(!tells(Busy));
        assert_eq!(observed.streaks(5), Streaks::default());
        assert_eq!([Server, Server, Server, Server].map(&mut tells), [false, false, false, true]);
        assert!(!end(&observed, Outcome::Cancelled) && observed.streaks(5).server == 4);
        assert!(!end(&observed, Outcome::Success) && observed.streaks(5).server == 0);
    }

    #[test]
    fn only_the_first_outcome_of_the_trial_at_hand_decides() {
        let observed = Observed::new(1);
        let end = |trial, outcome| observed.on_end(7, trial, outcome, 0, &WATCH, WRITER);
        observed.begin_trial(7, 3);
        assert!(!end(2, Outcome::Success), "of an earlier trial");
        assert!(!end(3, Outcome::Cancelled) && observed.verdict(7, 3).is_none());
        assert!(end(3, Outcome::failed(FailureKind::Server)));
        assert!(!end(3, Outcome::Success), "the second outcome");
        assert_eq!((observed.verdict(7, 3), observed.verdict(7, 4)), (Some(false), None));
    }

    #[test]
    fn streaks_and_sums_are_exact_over_threads() {
        let observed = Observed::new(2);
        let watch = Watch { thresholds: Streaks { server: 8000, ..Streaks::default() }, ..WATCH };
        let told: usize = std::thread::scope(|scope| {
            let work = |thread: usize| {
                let (observed, writer) = (&observed, Writer { shard: thread % 2, sole: false });
                let fail =
                    move |_: &i32| observed.on_end(0, 0, Outcome::failed(FailureKind::Server), 0, &watch, writer);
                scope.spawn(move || (0..2000).filter(fail).count())
            };
            (0..4).map(work).collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!((told, observed.streaks(0).server, observed.tallied(0).failed), (1, 8000, 8000));
    }

    #[test]
    fn sums_keep_latencies_of_successes_alone() {
        let observed = Observed::new(1);
        let before = observed.tallied(5);
        end(&observed, Outcome::Success);
        end(&observed, Outcome::failed(FailureKind::Busy));
        end(&observed, Outcome::failed(FailureKind::Gateway));
        end(&observed, Outcome::Cancelled);
        let want = Tally { answered: 2, failed: 1, latency_ns: 10, timed: 1 };
        assert_eq!(observed.tallied(5).since(before), want);
    }
}
