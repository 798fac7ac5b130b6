//! Looks at the contents of a store in short steps: for pages of operators, for a handover, for a copy on disk.

use super::entry::Entry;
use super::item::Item;
use super::object::Head;
use super::shard::Shard;
use super::{STEP, Store};
use crate::moment::Moment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Place in a walk through a store. `Default` is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    shard: usize,
    place: u32,
}

/// Order of [`Store::top`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Largest first, by their bytes of memory.
    Bytes,
    /// Most used first, since something was first stored under the key.
    Hits,
}

/// A key on a page of operators.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Top {
    /// All bytes of its key.
    pub key: Box<[u8]>,
    /// Bytes of the key that are the URL.
    pub url_len: usize,
    /// Bytes of memory of all its variants, with all overhead.
    pub bytes: u64,
    pub hits: u32,
    pub variants: usize,
    /// Moment of the last insertion.
    pub stored: Moment,
}

/// Most keys that [`Store::top`] returns, and most objects of [`Store::of_url`].
pub const TOP_MAX: usize = 1000;

impl<H: Head> Store<H> {
    /// Returns objects from about `places` places on, and where to continue, if the walk has not reached the end. Holds
    /// a lock for at most 256 places at a time. An object that is there all the time is returned once. An object that
    /// was purged before the call is not returned.
    pub fn walk(&self, from: Cursor, places: usize) -> (Vec<Item<H>>, Option<Cursor>) {
        let mut items = Vec::new();
        let mut at = from;
        let mut left = places.max(1);
        while left > 0 {
            let step = left.min(STEP);
            let Some(next) = self.step(at, step, |entry| {
                items.extend(Item::of(entry));
            }) else {
                return (items, None);
            };
            (at, left) = (next, left - step);
        }
        (items, Some(at))
    }

    /// Returns all objects of a URL, at most [`TOP_MAX`] of them, under a single lock. Nothing counts as used.
    pub fn of_url(&self, url: &[u8]) -> Vec<Item<H>> {
        let hash = self.hashing.url(url);
        self.with(self.shard_of(hash), |shard| {
            let (newest, mut items) = (self.purges.newest(), Vec::new());
            for id in shard.places_of(url, hash) {
                if items.len() < TOP_MAX && shard.check(id, &self.purges, newest) {
                    items.extend(Item::of(&shard.slots[id]).take(TOP_MAX - items.len()));
                }
            }
            items
        })
    }

    /// Returns the `n` first keys of an order, at most [`TOP_MAX`]. Looks at every key, with a lock for at most 256 at a
    /// time: about 50 ms for a million, so not for a thread that serves requests.
    pub fn top(&self, n: usize, by: By) -> Vec<Top> {
        let n = n.min(TOP_MAX);
        // The least entry is on top, and a better entry replaces it. Only keys that enter are copied.
        let mut best: BinaryHeap<Reverse<(u64, Top)>> = BinaryHeap::with_capacity(n + 1);
        let mut at = Some(Cursor::default());
        while let Some(from) = at.filter(|_| n > 0) {
            at = self.step(from, STEP, |entry| {
                let worth = match by {
                    By::Bytes => entry.weight,
                    By::Hits => u64::from(entry.hits),
                };
                if best.len() < n || best.peek().is_some_and(|least| worth > least.0.0) {
                    best.push(Reverse((worth, Top::of(entry))));
                    if best.len() > n {
                        best.pop();
                    }
                }
            });
        }
        best.into_sorted_vec().into_iter().map(|Reverse((_, top))| top).collect()
    }

    /// Looks at the entries of `places` places, after a check against purges. `None` at the end.
    pub(super) fn step(&self, from: Cursor, places: usize, mut each: impl FnMut(&Entry<H>)) -> Option<Cursor> {
        self.each_place(from, places, |shard, id, newest| {
            if shard.check(id, &self.purges, newest) {
                each(&shard.slots[id]);
            }
        })
    }

    /// Looks at `places` places, with the newest purge that entries are to be checked against. `None` at the end.
    pub(super) fn each_place(
        &self,
        from: Cursor,
        places: usize,
        mut each: impl FnMut(&mut Shard<H>, u32, u64),
    ) -> Option<Cursor> {
        if from.shard >= self.shards.len() {
            return None;
        }
        self.with(from.shard, |shard| {
            let newest = self.purges.newest();
            let end = shard.slots.end();
            let until = from.place.saturating_add(places as u32).min(end);
            for id in from.place..until {
                each(shard, id, newest);
            }
            let next =
                if until < end { Cursor { place: until, ..from } } else { Cursor { shard: from.shard + 1, place: 0 } };
            Some(next).filter(|next| next.shard < self.shards.len())
        })
    }
}

impl Top {
    fn of<H: Head>(entry: &Entry<H>) -> Top {
        Top {
            key: entry.key.clone(),
            url_len: entry.url_len as usize,
            bytes: entry.weight,
            hits: entry.hits,
            variants: entry.count(),
            stored: Moment(entry.stored),
        }
    }
}
