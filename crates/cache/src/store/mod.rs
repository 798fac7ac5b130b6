//! Objects of a cache in memory, bounded in bytes and shared by all workers.
//!
//! A [`Store`] knows nothing of HTTP: under a key there are variants, and the caller chooses among them. Parts: `shard`
//! (tables behind a lock, purges of a URL), `eviction` (which entries stay), `purge` (a log of other purges), `browse`
//! (visits everything in steps), `counts`.
//!
//! The hash of the URL chooses the shard, so all keys of a URL share a lock. A lock is held for a single lookup or
//! insertion, for up to 256 entries of a walk or a sweep, or for the keys of a URL that are marked as stale. The log of
//! purges is read under it, if there are purges that an entry was not checked against.
//!
//! A thread has to call [`Store::sweep`] now and then after [`Store::purge`]: nothing stale is returned before that, but
//! purged entries take memory, and the log grows to its limit.

// Order: browse, restore, shard & eviction, sketch, slots, item, entry, keys, counts, purge, results,
// object & forms, options
mod browse;
mod counts;
mod entry;
mod eviction;
mod forms;
mod item;
mod keys;
mod object;
mod options;
mod purge;
mod restore;
mod results;
mod shard;
mod sketch;
mod slots;
#[cfg(test)]
mod tests;

pub use browse::{By, Cursor, TOP_MAX, Top};
pub use counts::{AGES, Counts};
pub use forms::{Coding, Forms};
pub use item::Item;
pub use keys::KeyRef;
pub use object::{Head, Object};
pub use options::Options;
pub use purge::{Fate, Held, Purged, Sequence, Target};
pub use results::{Found, Hit, Inserted, Matched, Refusal, Restored};

use crate::moment::Moment;
use bytes::Bytes;
use keys::Hashing;
use options::Limits;
use purge::Purges;
use shard::{Shard, UrlPurge};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// Places that are visited under the same lock.
const STEP: usize = 256;

/// Destination of evicted objects, as a second tier of a cache.
pub trait Evictions<H>: Send + Sync {
    /// Present point in the order of purges of that tier. Taken before objects are evicted, and so before purges that
    /// have not met them.
    fn point(&self) -> u64;

    /// Takes an object. Called without a lock of the store, by the thread whose insertion evicts it.
    fn evicted(&self, item: Item<H>, point: u64);
}

/// Objects in memory. Shared by reference between threads.
pub struct Store<H> {
    hashing: Hashing,
    shards: Box<[Line<Mutex<Shard<H>>>]>,
    purges: Purges,
    sweep: Mutex<Sweep>,
    /// Walk of [`Store::drop_over`].
    over: Mutex<Cursor>,
    evictions: Option<Box<dyn Evictions<H>>>,
}

/// A value that shares no cache line with its neighbour.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

/// Walk of [`Store::sweep`].
#[derive(Debug, Default)]
struct Sweep {
    at: Option<Cursor>,
    /// Newest purge when the walk began.
    up_to: u64,
}

impl<H: Head> Store<H> {
    /// Makes an empty store. It takes memory as it fills.
    pub fn new(options: &Options) -> Store<H> {
        Store::with_evictions(options, None)
    }

    /// Creates an empty store that passes its evicted objects on.
    pub fn with_evictions(options: &Options, evictions: Option<Box<dyn Evictions<H>>>) -> Store<H> {
        let limits = Limits { passes_on: evictions.is_some(), ..options.limits() };
        Store {
            hashing: Hashing::default(),
            shards: (0..limits.shards).map(|_| Line(Mutex::new(Shard::new(limits)))).collect(),
            purges: Purges::new(limits.purges_max),
            sweep: Mutex::default(),
            over: Mutex::default(),
            evictions,
        }
    }

    /// Point in the order of purges. To be taken before the request for an object is sent to an endpoint, and passed to
    /// [`Store::insert`]: purges in between are then seen.
    pub fn begin(&self) -> Sequence {
        self.purges.now()
    }

    /// Looks for the variant of a key with the highest rank; those without a rank are not for this request. `rank` is
    /// called with a lock, so it must be short and must not use the store. A hit allocates nothing.
    pub fn lookup(&self, key: KeyRef<'_>, rank: impl FnMut(&H) -> Option<u64>) -> Found<H> {
        let hashes = self.hashing.key(&key);
        self.with(self.shard_of(hashes.url), |shard| shard.lookup(&key, hashes, &self.purges, rank))
    }

    /// Stores an object under a key, instead of the variant for which `is_same` returns true, or as a further variant.
    /// `began` is [`Store::begin`] of its fetch. `is_same` is called with a lock, as `rank` of [`Store::lookup`].
    pub fn insert(
        &self,
        key: KeyRef<'_>,
        object: Arc<Object<H>>,
        began: Sequence,
        now: Moment,
        is_same: impl FnMut(&H) -> bool,
    ) -> Inserted {
        let hashes = self.hashing.key(&key);
        let shard = self.shard_of(hashes.url);
        self.with(shard, |shard| shard.insert(&key, hashes, object, began, now, &self.purges, is_same))
    }

    /// Reason why [`Store::insert`] would refuse an object with this head and a body of this length, as far as it is
    /// known before the body arrives: its use counts only then. Counted as refused.
    pub fn refusal(&self, key: KeyRef<'_>, head: &H, length: u64, began: Sequence) -> Option<Refusal> {
        let (hashes, newest) = (self.hashing.key(&key), self.purges.newest());
        let object = (head, Object::weight_with(head, length));
        self.with(self.shard_of(hashes.url), |shard| shard.refusal(&key, hashes, object, began, &self.purges, newest))
    }

    /// Adds an encoded body to the forms of a stored object; its bytes count towards the memory of the key. Returns
    /// false if no object under the key has these forms, if there is a body in that coding already, or if the object
    /// would become too large.
    pub fn add_encoded(&self, key: KeyRef<'_>, forms: &Arc<Forms>, coding: Coding, body: Bytes, now: Moment) -> bool {
        let hashes = self.hashing.key(&key);
        self.with(self.shard_of(hashes.url), |shard| shard.add_encoded(&key, hashes, forms, coding, body, now))
    }

    /// Drops an object of a key, and leaves its other variants. Returns false if the key does not hold it.
    pub fn drop_object(&self, key: KeyRef<'_>, object: &Arc<Object<H>>) -> bool {
        let hashes = self.hashing.key(&key);
        self.with(self.shard_of(hashes.url), |shard| shard.drop_object(&key, hashes, object))
    }

    /// Purges all variants of a key at once, and refuses objects whose fetch began before.
    pub fn purge_key(&self, key: KeyRef<'_>, fate: Fate, now: Moment) -> Matched {
        let hashes = self.hashing.key(&key);
        let by = UrlPurge { sequence: self.purges.draw(), fate, now, purges: &self.purges };
        self.with(self.shard_of(hashes.url), |shard| shard.purge_key(&key, hashes, &by))
    }

    /// Purges all keys of a URL at once, and refuses objects whose fetch began before. Removes 256 keys under each
    /// lock, or marks all of them under a single lock.
    pub fn purge_url(&self, url: &[u8], fate: Fate, now: Moment) -> Matched {
        let hash = self.hashing.url(url);
        let by = UrlPurge { sequence: self.purges.draw(), fate, now, purges: &self.purges };
        let mut sum = Matched::default();
        loop {
            let (matched, is_more) = self.with(self.shard_of(hash), |shard| shard.purge_url(url, hash, &by, STEP));
            sum.objects += matched.objects;
            sum.bytes += matched.bytes;
            if !is_more {
                return sum;
            }
        }
    }

    /// Purges by prefix, by tag, or everything. After the return no lookup finds a purged object, and no object whose
    /// fetch began before is stored. Entries are visited later, by [`Store::sweep`] or when they are next used; only if
    /// [`Options::purges_max`] purges are pending, all entries are visited here first.
    pub fn purge(&self, target: Target, fate: Fate, now: Moment) -> Sequence {
        let mut target = target;
        loop {
            match self.purges.push(target, fate, now.0) {
                Ok(sequence) => return sequence,
                Err(back) => target = back,
            }
            let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
            while self.sweep_step(&mut sweep, STEP) && sweep.at.is_some() {}
        }
    }

    /// Drops everything, and refuses all objects from now on.
    pub fn close(&self, now: Moment) {
        (0..self.shards.len()).for_each(|index| self.with(index, |shard| shard.limits.object_max = 0));
        self.purge(Target::All, Fate::Removed, now);
        while self.sweep(STEP) {}
    }

    /// Visits about `places` places to remove purged objects, so that memory is freed and the purges can be forgotten.
    /// True if places are left: to be called again. Does not wait for the sweep of another thread.
    pub fn sweep(&self, places: usize) -> bool {
        let mut sweep = match self.sweep.try_lock() {
            Ok(sweep) => sweep,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        let mut left = places.max(1);
        while left > 0 {
            let step = left.min(STEP);
            if !self.sweep_step(&mut sweep, step) {
                return false;
            }
            left -= step;
        }
        true
    }

    /// Visits about `places` places from the end of the previous call, and drops objects for which `is_over` returns
    /// true. Repeated calls reach all of them. `is_over` is called with a lock, as `rank` of [`Store::lookup`].
    pub fn drop_over(&self, places: usize, mut is_over: impl FnMut(&H) -> bool) {
        let Ok(mut at) = self.over.try_lock() else { return };
        let mut left = places.max(1);
        while left > 0 {
            let step = left.min(STEP);
            let next = self.each_place(*at, step, |shard, id, newest| {
                if shard.check(id, &self.purges, newest) {
                    shard.drop_over(id, &mut is_over);
                }
            });
            // Once around at most.
            let Some(next) = next else { return *at = Cursor::default() };
            (*at, left) = (next, left - step);
        }
    }

    /// Progress of a purge by prefix, by tag or of everything. `None` if 64 others were finished since.
    pub fn purged(&self, sequence: Sequence) -> Option<Purged> {
        self.purges.purged(sequence)
    }

    /// Sums the counters of all shards. Takes each lock once, for some nanoseconds.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        (0..self.shards.len()).for_each(|index| sum.add(&self.with(index, |shard| shard.counts())));
        sum
    }

    /// Sweeps a few places. False if no purges are left.
    fn sweep_step(&self, sweep: &mut Sweep, places: usize) -> bool {
        if sweep.at.is_none() {
            if !self.purges.is_pending() {
                return false;
            }
            // Entries that are added behind the walk were checked up to this purge at least.
            *sweep = Sweep { at: Some(Cursor::default()), up_to: self.purges.newest() };
        }
        sweep.at = sweep.at.and_then(|at| self.step(at, places, |_| ()));
        if sweep.at.is_none() {
            self.purges.forget(sweep.up_to);
        }
        true
    }

    /// True if a purge that the object was not checked against covers it, or may cover it.
    fn is_purged(&self, item: &Item<H>) -> bool {
        self.purges.is_purged(item.began, self.purges.newest(), item.key().url(), item.object.head())
    }

    fn shard_of(&self, url: u64) -> usize {
        // The tables of a shard use the lowest and the highest bits.
        (url >> 40) as usize & (self.shards.len() - 1)
    }

    /// Runs under the lock of a shard. Frees removed objects after its release.
    fn with<R>(&self, index: usize, run: impl FnOnce(&mut Shard<H>) -> R) -> R {
        let point = self.evictions.as_ref().map(|evictions| evictions.point());
        // A panic of a caller's closure leaves the shard as it was: closures run before anything is changed.
        let mut shard = self.shards[index].0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = run(&mut shard);
        let dead = shard.take_dead();
        let evicted = std::mem::take(&mut shard.evicted);
        drop(shard);
        drop(dead);
        if let (Some(evictions), Some(point)) = (&self.evictions, point) {
            evicted.into_iter().filter(|item| !self.is_purged(item)).for_each(|item| evictions.evicted(item, point));
        }
        result
    }
}

impl<H> fmt::Debug for Store<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl<H: Head> Store<H> {
    pub(crate) fn assert_sound(&self) {
        (0..self.shards.len()).for_each(|index| self.with(index, |shard| shard.assert_sound()));
    }
}
