//! Purges by prefix, by tag and of everything: a log that entries are checked against when they are next looked at.

use super::object::Head;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Point in the order of purges. A fetch takes it before its request is sent, see [`super::Store::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub(super) u64);

/// Objects that a purge is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Objects whose URL begins with these bytes.
    Prefix(Box<[u8]>),
    /// Objects that have this tag among theirs.
    Tag(Box<[u8]>),
    All,
}

impl Target {
    pub(super) fn is_for<H: Head>(&self, url: &[u8], head: &H) -> bool {
        match self {
            Target::Prefix(prefix) => url.starts_with(prefix),
            Target::Tag(tag) => head.has_tag(tag),
            Target::All => true,
        }
    }
}

/// Fate of objects that a purge is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Gone, and freed when they are next looked at.
    Removed,
    /// Kept, and returned with [`super::Hit::stale_from`].
    Stale,
}

/// Counts of a purge, as far as it was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Objects that it was for, of those looked at so far.
    pub objects: u64,
    /// Bytes of memory of these objects.
    pub bytes: u64,
    /// True if all entries were looked at. No answer is stale before that, either: this is only about the counts.
    pub is_complete: bool,
}

/// A purge that not every entry was checked against.
#[derive(Debug)]
pub(super) struct Purge {
    pub sequence: u64,
    pub target: Target,
    pub fate: Fate,
    /// Milliseconds, as [`crate::moment::Moment`].
    pub at: u64,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Purge {
    pub fn count(&self, bytes: u64) {
        // Only summed up, and read under a lock of the log.
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn purged(&self, is_complete: bool) -> Purged {
        let [objects, bytes] = [&self.objects, &self.bytes].map(|count| count.load(Ordering::Relaxed));
        Purged { objects, bytes, is_complete }
    }
}

/// Finished purges whose counts are remembered.
const FINISHED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Log {
    /// Pending purges, the oldest first; while they are held, finished purges too.
    purges: VecDeque<Purge>,
    /// Newest purge that every entry was checked against.
    swept: u64,
    /// Number of [`super::Held`].
    pub holds: usize,
    /// Newest purge that was forgotten: no entry is left that it was for. A fetch that began before it might have been
    /// meant, so its response is refused.
    pub forgotten: u64,
    finished: VecDeque<(u64, Purged)>,
}

impl Log {
    /// Purges after `checked`, up to `newest`.
    pub fn between(&self, checked: u64, newest: u64) -> impl Iterator<Item = &Purge> {
        let start = self.purges.partition_point(|purge| purge.sequence <= checked);
        self.purges.range(start..).take_while(move |purge| purge.sequence <= newest)
    }

    /// Forgets purges that every entry was checked against.
    pub fn forget_swept(&mut self) {
        while self.purges.front().is_some_and(|purge| purge.sequence <= self.swept) {
            let Some(purge) = self.purges.pop_front() else { return };
            if self.finished.len() == FINISHED_MAX {
                self.finished.pop_front();
            }
            self.finished.push_back((purge.sequence, purge.purged(true)));
            self.forgotten = purge.sequence;
        }
    }
}

/// The log of purges, and the order of all purges.
#[derive(Debug)]
pub(super) struct Purges {
    /// Sequence number of the newest purge of any kind.
    last: AtomicU64,
    /// Sequence number of the newest purge of the log.
    newest: AtomicU64,
    log: Arc<RwLock<Log>>,
    purges_max: usize,
}

/// Purges from a point on, which are not forgotten as long as this is held: an object is then refused only for a purge
/// that covers it, however long ago it began to arrive. [`super::Options::purges_max`] holds nevertheless.
#[derive(Debug)]
pub struct Held {
    log: Arc<RwLock<Log>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut log = self.log.write().unwrap_or_else(PoisonError::into_inner);
        log.holds -= 1;
        if log.holds == 0 {
            log.forget_swept();
        }
    }
}

impl Purges {
    pub fn new(purges_max: usize) -> Purges {
        Purges { last: AtomicU64::new(0), newest: AtomicU64::new(0), log: Arc::default(), purges_max }
    }

    /// Holds purges from now on.
    pub fn hold(&self) -> Held {
        self.write().holds += 1;
        Held { log: self.log.clone() }
    }

    /// Newest purge of any kind: fetches that begin now are not meant by it.
    pub fn now(&self) -> Sequence {
        Sequence(self.last.load(Ordering::SeqCst))
    }

    /// Sequence number for a purge that does not go by the log.
    pub fn draw(&self) -> u64 {
        self.last.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn newest(&self) -> u64 {
        // Pairs with the store in `push`: a thread that sees the number finds the purge in the log.
        self.newest.load(Ordering::SeqCst)
    }

    pub fn read(&self) -> RwLockReadGuard<'_, Log> {
        self.log.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, Log> {
        self.log.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a purge. Gives it back if the log is full.
    pub fn push(&self, target: Target, fate: Fate, at: u64) -> Result<Sequence, Target> {
        let mut log = self.write();
        if log.purges.len() >= self.purges_max {
            // Held or not: the log stays bounded. Insertions for fetches that began before are refused.
            log.forget_swept();
        }
        if log.purges.len() >= self.purges_max {
            return Err(target);
        }
        let sequence = self.draw();
        let (objects, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        log.purges.push_back(Purge { sequence, target, fate, at, objects, bytes });
        self.newest.store(sequence, Ordering::SeqCst);
        Ok(Sequence(sequence))
    }

    /// Notes that every entry was checked against purges up to this number, and forgets them unless they are held.
    pub fn forget(&self, checked: u64) {
        let mut log = self.write();
        log.swept = log.swept.max(checked);
        if log.holds == 0 {
            log.forget_swept();
        }
    }

    /// True if there are purges that some entry may not have been checked against.
    pub fn is_pending(&self) -> bool {
        let log = self.read();
        log.purges.back().is_some_and(|purge| purge.sequence > log.swept)
    }

    pub fn purged(&self, sequence: Sequence) -> Option<Purged> {
        let log = self.read();
        let pending = log.purges.iter().find(|purge| purge.sequence == sequence.0);
        let finished = || log.finished.iter().find(|(known, _)| *known == sequence.0).map(|(_, purged)| *purged);
        pending.map(|purge| purge.purged(purge.sequence <= log.swept)).or_else(finished)
    }

    /// True if a response whose fetch began at `began` was purged by the log since then. Looks at purges up to `newest`.
    pub fn is_purged<H: Head>(&self, began: Sequence, newest: u64, url: &[u8], head: &H) -> bool {
        if began.0 >= newest {
            return false;
        }
        let log = self.read();
        began.0 < log.forgotten || log.between(began.0, newest).any(|purge| purge.target.is_for(url, head))
    }
}
