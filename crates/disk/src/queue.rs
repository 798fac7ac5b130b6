//! Work for the writer, bounded in bytes, and tickets that wait for its end.

use crate::failure::Failure;
use evenkeel_cache::record::{Dropped, PurgeRecord};
use evenkeel_cache::store::Item;
use evenkeel_cache::stored::Stored;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most purges and dropped responses that wait. A further entry purges everything.
const ORDERS_MAX: usize = 1 << 16;

/// Work of the writer. Written in order, so that a purge lies behind the responses that it covers.
#[derive(Debug)]
pub enum Work {
    /// A response, and its turn in its shard of the index.
    Response(Box<Item<Stored>>, u64),
    /// A purge, its number in the list of purges, and the ticket that waits for it.
    Purge(PurgeRecord, Option<u64>, Option<Arc<Ticket>>),
    Dropped(Dropped),
}

/// Waits until a purge is on the disk for good.
#[derive(Debug, Default)]
pub struct Ticket {
    result: Mutex<Option<Result<(), Failure>>>,
    ended: Condvar,
}

impl Ticket {
    pub(crate) fn end(&self, result: Result<(), Failure>) {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(result);
        self.ended.notify_all();
    }

    /// Waits for the result, at most this long; `None` if there is none yet. Not for a thread that serves requests.
    pub fn wait(&self, longest: Duration) -> Option<Result<(), Failure>> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(result, longest, |result| result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// Result of giving a purge or a dropped response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    Taken,
    /// Too many of them wait already.
    Full,
    /// The writer has ended, and writes nothing more.
    Ended,
}

/// Work that waits for the writer, in its order.
#[derive(Debug)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    /// Number of purges of this process so far: a purge may cover a response that was evicted before it. Changed under
    /// the lock.
    point: AtomicU64,
    changed: Condvar,
    bytes_max: u64,
}

/// State of the queue, behind its lock.
#[derive(Debug, Default)]
pub struct Waiting {
    work: VecDeque<Work>,
    /// Bytes of responses in it.
    bytes: u64,
    /// Purges and dropped responses in it.
    orders: usize,
    /// True while the writer executes work that it has taken.
    is_busy: bool,
    /// True if the queue takes no more responses, and the writer is to end when all are written.
    is_closed: bool,
    /// True if nothing is written any more.
    has_ended: bool,
}

impl Queue {
    /// Creates a queue. `point`: higher than the points of the queue that it replaces.
    pub fn new(bytes_max: u64, point: u64) -> Queue {
        Queue { waiting: Mutex::default(), point: AtomicU64::new(point), changed: Condvar::new(), bytes_max }
    }

    /// Present point in the order of purges.
    pub fn point(&self) -> u64 {
        self.point.load(Ordering::SeqCst)
    }

    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a response. Returns false if a purge came since `point`, if the queue is full, or if it is closed.
    pub fn push(&self, item: Item<Stored>, turn: u64, point: u64) -> bool {
        let mut waiting = self.state();
        let bytes = item.object.weight();
        if waiting.is_closed || self.point() != point || waiting.bytes + bytes > self.bytes_max {
            return false;
        }
        waiting.bytes += bytes;
        waiting.work.push_back(Work::Response(item.into(), turn));
        drop(waiting);
        self.changed.notify_all();
        true
    }

    /// Adds a purge or a dropped response.
    pub fn order(&self, work: Work) -> Ordered {
        let mut waiting = self.state();
        self.point.fetch_add(u64::from(matches!(work, Work::Purge(..))), Ordering::SeqCst);
        if waiting.has_ended || waiting.orders >= ORDERS_MAX {
            return if waiting.has_ended { Ordered::Ended } else { Ordered::Full };
        }
        waiting.orders += 1;
        waiting.work.push_back(work);
        drop(waiting);
        self.changed.notify_all();
        Ordered::Taken
    }

    /// Replaces all waiting work with a purge of everything. Returns false if the writer has ended.
    pub fn purge_all(&self, purge: PurgeRecord, ticket: Option<Arc<Ticket>>) -> bool {
        let mut waiting = self.state();
        if waiting.has_ended {
            return false;
        }
        let work = std::mem::take(&mut waiting.work);
        let tickets = work.into_iter().filter_map(|work| match work {
            Work::Purge(_, _, ticket) => ticket,
            _ => None,
        });
        // Each of their tickets gets a purge of everything: they end together.
        let tickets: Vec<Work> = tickets.map(|ticket| Work::Purge(purge.clone(), None, Some(ticket))).collect();
        (waiting.bytes, waiting.orders) = (0, tickets.len() + 1);
        waiting.work.extend(tickets);
        waiting.work.push_back(Work::Purge(purge, None, ticket));
        self.point.fetch_add(1, Ordering::SeqCst);
        drop(waiting);
        self.changed.notify_all();
        true
    }

    /// Waits for work and takes all of it. `None` once the queue is closed and empty.
    pub fn take(&self) -> Option<Vec<Work>> {
        let mut waiting = self.state();
        waiting.is_busy = false;
        while waiting.work.is_empty() {
            if waiting.is_closed {
                waiting.has_ended = true;
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        (waiting.orders, waiting.is_busy) = (0, true);
        Some(std::mem::take(&mut waiting.work).into())
    }

    /// Notes that responses of this many bytes are written.
    pub fn written(&self, bytes: u64) {
        let mut waiting = self.state();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        drop(waiting);
        self.changed.notify_all();
    }

    /// True if nothing waits, and all work that was taken is written.
    pub fn is_empty(&self) -> bool {
        let waiting = self.state();
        waiting.work.is_empty() && !waiting.is_busy
    }

    /// True if the queue takes no more responses.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Waits until the queue is closed; false if the time is over before.
    pub fn wait_for_close(&self, longest: Duration) -> bool {
        let waiting = self.state();
        let waited = self.changed.wait_timeout_while(waiting, longest, |waiting| !waiting.is_closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Takes no more responses, and lets the writer end.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until there is room, or time is over. Not for a thread that serves requests.
    pub fn wait_for_room(&self, until: Instant) -> bool {
        let mut waiting = self.state();
        while waiting.bytes > self.bytes_max / 2 {
            let left = until.saturating_duration_since(Instant::now());
            if waiting.is_closed || left.is_zero() {
                return false;
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        !waiting.is_closed
    }
}
