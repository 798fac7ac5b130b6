//! Return path of request ends to the balancer. Responses are polled and dropped by any task on any thread, while the
//! balancer belongs to a single task. So the end of a request is written into its node, the node is appended to a list,
//! and the balancer drains the list before its next pick.
//!
//! Lock-free: the list is Vyukov's queue for many producers and a single consumer, linked by node numbers. A producer
//! swaps a number; the consumer only reads, and leaves the last node in place as the head of the list. No allocation
//! per request: nodes are reused, and there is 1 more than the maximum of requests in flight so far.

use crate::clock::Timing;
use evenkeel_balance::{FailureKind, Instant, LoadReport, Outcome};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// Time of the response head, if it came.
    pub(crate) answered: Option<Instant>,
    pub(crate) at: Instant,
    /// Load report in the response, if any.
    pub(crate) report: Option<LoadReport>,
}

/// List of ended requests with its nodes, and the clock.
pub(crate) struct Returns {
    newest: Newest,
    /// Chunks of nodes, each twice as long as the chunk before, so that nodes never move.
    chunks: [OnceLock<Box<[Node]>>; CHUNKS],
    timing: Timing,
}

/// Node at the end of the list. On a separate cache line, as every end of a request writes it.
#[repr(align(128))]
struct Newest(AtomicU32);

/// Node of a request. Written where the request ends, read by the balancer once it is in the list.
#[derive(Default)]
#[repr(align(64))]
struct Node {
    next: AtomicU32,
    outcome: AtomicU32,
    retry_after_ns: AtomicU64,
    answered: AtomicU64,
    at: AtomicU64,
    in_flight: AtomicU32,
    latency_ns: AtomicU64,
    stamp: AtomicU64,
}

/// Head of a new list, which belongs to no request.
pub(crate) const HEAD: u32 = 0;

const CHUNKS: usize = 26;
const FIRST: u32 = 64;
/// Number that ends the list; also stands for an absent report.
const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;

/// Encoded outcomes; larger numbers are kinds of failures.
const CANCELLED: u32 = 0;
const SUCCESS: u32 = 1;

impl Returns {
    pub(crate) fn new(timing: Timing) -> Returns {
        let chunks = [const { OnceLock::new() }; CHUNKS];
        let returns = Returns { newest: Newest(AtomicU32::new(HEAD)), chunks, timing };
        returns.node(HEAD).next.store(NONE, Ordering::Relaxed);
        returns
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.timing.now()
    }

    /// Writes the state of this node's request so far, and marks the node as the last of a list.
    #[inline]
    pub(crate) fn note(&self, number: u32, ended: &Ended) {
        let node = self.node(number);
        node.next.store(NONE, Ordering::Relaxed);
        node.write(ended);
    }

    /// Replaces the outcome written by [`note`](Self::note).
    pub(crate) fn note_outcome(&self, number: u32, outcome: Outcome) {
        self.node(number).write_outcome(outcome);
    }

    /// Replaces the time of the end written by [`note`](Self::note).
    pub(crate) fn note_end(&self, number: u32, at: Instant) {
        self.node(number).at.store(at.0, Ordering::Relaxed);
    }

    /// Appends a node to the list. To be called once per request, after [`note`](Self::note).
    #[inline]
    pub(crate) fn give_back(&self, number: u32) {
        // Release: the next producer's store to `next` of this node comes after the store of `note`. Acquire: so does
        // this producer's store to the previous node.
        let before = self.newest.0.swap(number, Ordering::AcqRel);
        // Release: a consumer that reads this number also sees the values that `note` wrote.
        self.node(before).next.store(number, Ordering::Release);
    }

    /// Calls `each` with every node that was given back since the last call, in order. `head` is the node taken last,
    /// at first [`HEAD`]. The second argument of `each` is the previous head, which is now free.
    #[inline]
    pub(crate) fn take(&self, head: &mut u32, mut each: impl FnMut(u32, u32, Ended)) {
        let mut last = self.node(*head);
        loop {
            let next = last.next.load(Ordering::Acquire);
            if next == NONE {
                return;
            }
            let free = std::mem::replace(head, next);
            last = self.node(next);
            each(next, free, last.read());
        }
    }

    #[inline]
    fn node(&self, number: u32) -> &Node {
        let at = u64::from(number) + u64::from(FIRST);
        let chunk = (at.ilog2() - FIRST.ilog2()) as usize;
        let length = (FIRST as usize) << chunk;
        let nodes = self.chunks[chunk].get_or_init(|| (0..length).map(|_| Node::default()).collect());
        &nodes[at as usize - length]
    }
}

// Relaxed throughout: the release and acquire operations of the list order all fields of a node.
impl Node {
    #[inline]
    fn write(&self, ended: &Ended) {
        self.write_outcome(ended.outcome);
        self.answered.store(ended.answered.map_or(NEVER, |at| at.0), Ordering::Relaxed);
        self.at.store(ended.at.0, Ordering::Relaxed);
        self.in_flight.store(ended.report.map_or(NONE, |report| report.in_flight), Ordering::Relaxed);
        if let Some(report) = ended.report {
            self.latency_ns.store(report.latency_ns, Ordering::Relaxed);
            self.stamp.store(report.stamp, Ordering::Relaxed);
        }
    }

    #[inline]
    fn write_outcome(&self, outcome: Outcome) {
        let code = match outcome {
            Outcome::Cancelled => CANCELLED,
            Outcome::Success => SUCCESS,
            Outcome::Failure { kind, retry_after_ns } => {
                self.retry_after_ns.store(retry_after_ns.unwrap_or(NEVER), Ordering::Relaxed);
                match kind {
                    FailureKind::Connect => 2,
                    FailureKind::Gateway => 3,
                    FailureKind::Server => 4,
                    FailureKind::Busy => 5,
                }
            }
        };
        self.outcome.store(code, Ordering::Relaxed);
    }

    #[inline]
    fn read(&self) -> Ended {
        let outcome = match self.outcome.load(Ordering::Relaxed) {
            SUCCESS => Outcome::Success,
            CANCELLED => Outcome::Cancelled,
            failure => self.read_failure(failure),
        };
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let report = (in_flight != NONE).then(|| LoadReport {
            in_flight,
            latency_ns: self.latency_ns.load(Ordering::Relaxed),
            stamp: self.stamp.load(Ordering::Relaxed),
        });
        let answered = some(self.answered.load(Ordering::Relaxed)).map(Instant);
        Ended { outcome, answered, at: Instant(self.at.load(Ordering::Relaxed)), report }
    }

    #[cold]
    fn read_failure(&self, code: u32) -> Outcome {
        let kind = match code {
            2 => FailureKind::Connect,
            3 => FailureKind::Gateway,
            4 => FailureKind::Server,
            _ => FailureKind::Busy,
        };
        Outcome::Failure { kind, retry_after_ns: some(self.retry_after_ns.load(Ordering::Relaxed)) }
    }
}

#[inline]
fn some(ns: u64) -> Option<u64> {
    (ns != NEVER).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn ended(outcome: Outcome, at: u64) -> Ended {
        Ended { outcome, answered: None, at: Instant(at), report: None }
    }

    fn give_back(returns: &Returns, number: u32, ended: &Ended) {
        returns.note(number, ended);
        returns.give_back(number);
    }

    /// Ends taken, by node, and the nodes that became free.
    fn taken(returns: &Returns, head: &mut u32) -> (BTreeMap<u32, Ended>, Vec<u32>) {
        let (mut all, mut free) = (BTreeMap::new(), Vec::new());
        returns.take(head, |number, freed, ended| {
            assert_eq!(all.insert(number, ended), None, "{number} was taken twice");
            free.push(freed);
        });
        (all, free)
    }

    #[test]
    fn what_is_given_back_is_what_is_taken() {
        let (returns, mut head, mut free) = (Returns::new(Timing::Untimed), HEAD, Vec::from_iter(1..8));
        let report = LoadReport { in_flight: 3, latency_ns: 4, stamp: 5 };
        let busy = Outcome::Failure { kind: FailureKind::Busy, retry_after_ns: Some(9) };
        let kinds = [FailureKind::Connect, FailureKind::Gateway, FailureKind::Server, FailureKind::Busy];
        let mut all: Vec<Ended> = kinds.iter().map(|&kind| ended(Outcome::failed(kind), 1)).collect();
        all.extend([ended(Outcome::Cancelled, 2), ended(Outcome::Success, 3)]);
        all.push(Ended { outcome: busy, answered: Some(Instant(7)), at: Instant(8), report: Some(report) });
        // Each node is used several times with different content, to find remains of an earlier use.
        for _ in 0..5 {
            let given: BTreeMap<u32, Ended> = free.iter().copied().zip(all.iter().copied()).collect();
            free.iter().for_each(|number| give_back(&returns, *number, &given[number]));
            let (got, freed) = taken(&returns, &mut head);
            assert_eq!(got, given);
            free = freed;
        }
        assert!(taken(&returns, &mut head).0.is_empty());
    }

    #[test]
    fn nodes_of_all_chunks_are_distinct() {
        let (returns, mut head) = (Returns::new(Timing::Untimed), HEAD);
        (1..1000).for_each(|number| give_back(&returns, number, &ended(Outcome::Success, u64::from(number))));
        let (got, free) = taken(&returns, &mut head);
        assert!(got.iter().all(|(&number, ended)| ended.at.0 == u64::from(number)));
        assert_eq!((got.len(), head, free), (999, 999, (0..999).collect()));
    }

    #[test]
    fn threads_that_give_back_at_once_lose_nothing() {
        const EACH: u32 = 20_000;
        let (returns, mut head) = (Returns::new(Timing::Untimed), HEAD);
        let mut seen = vec![0u32; 3 * EACH as usize];
        std::thread::scope(|scope| {
            let give = |thread: u32| {
                let returns = &returns;
                scope.spawn(move || {
                    for number in thread * EACH + 1..=(thread + 1) * EACH {
                        give_back(returns, number, &ended(Outcome::Success, u64::from(number)));
                    }
                })
            };
            let threads: Vec<_> = (0..3).map(give).collect();
            let mut check = |number: u32, _: u32, ended: Ended| {
                assert_eq!(ended.at.0, u64::from(number));
                seen[number as usize - 1] += 1;
            };
            while threads.iter().any(|thread| !thread.is_finished()) {
                returns.take(&mut head, &mut check);
            }
            returns.take(&mut head, &mut check);
        });
        assert!(seen.iter().all(|&times| times == 1));
    }
}
