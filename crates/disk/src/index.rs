//! Places of responses in memory, by the hashes of their keys: 24 bytes each, in independently locked shards.
//!
//! All keys of a URL are in one shard, spread over 64 places of its table, so that a purge finds them without a second table.
//! Each of these places has a limited number of keys: many users of one URL do not make every look at it long.

use crate::file::Ring;
use evenkeel_cache::store::KeyRef;
use hashbrown::HashTable;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;

/// Places over which the keys of a URL are spread.
const SPREAD: u32 = 64;

/// Most responses in one of these places. Of more, the oldest goes.
const TOGETHER_MAX: usize = 64;

/// Marks of changes in a shard, see [`Shard::marks`].
const MARKS: usize = 256;

/// Most changes of a shard that are remembered while the file is searched.
const CHANGES_MAX: usize = 1 << 14;

/// Most variants of a key that are read together.
pub const VARIANTS_MAX: usize = 8;

/// Hashes of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub url: u64,
    /// Hash of the rest of the key.
    pub rest: u32,
    /// Hash of the values that it varies by, in 15 bits.
    pub variant: u16,
}

/// Place of a record in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub slot: u16,
    pub offset: u32,
    pub length: u32,
}

/// A stored response: 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    url: u64,
    rest: u32,
    offset: u32,
    length: u32,
    slot: u16,
    /// Hash of the variant, and in the highest bit if it was read since it was written.
    variant: u16,
}

const USED: u16 = 1 << 15;

/// Places of all responses, by the hashes of their keys.
#[derive(Debug)]
pub struct Index {
    hashing: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// Most responses of a shard.
    entries_max: usize,
}

/// Places of the responses of some URLs, behind one lock.
#[derive(Debug)]
pub struct Shard {
    table: HashTable<Entry>,
    bytes: u64,
    /// Number of the newest change by a purge or by a response that was stored instead of another one.
    pub clock: u64,
    /// Newest changes by the hash of their URL. A response that is written meanwhile, and waited before that, is not added.
    marks: Box<[u64]>,
    /// Changes since the start, as long as the file is searched: what is found later is older than they are.
    changes: Option<Changes>,
}

/// Changes while the file is searched.
#[derive(Debug, Default)]
struct Changes {
    urls: HashSet<u64>,
    ids: HashSet<Id>,
    /// True if everything that is found is older than a change that is not remembered.
    all: bool,
}

impl Entry {
    fn id(&self) -> Id {
        Id { url: self.url, rest: self.rest, variant: self.variant & !USED }
    }

    fn place(&self) -> Place {
        Place { slot: self.slot, offset: self.offset, length: self.length }
    }

    fn hash(&self) -> u64 {
        spread(self.url, self.rest)
    }
}

/// Hash for the table: one of a few for each URL.
fn spread(url: u64, rest: u32) -> u64 {
    url ^ u64::from(rest % SPREAD).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Index {
    pub fn new(entries_max: usize) -> Index {
        let shard = || {
            Mutex::new(Shard {
                table: HashTable::new(),
                bytes: 0,
                clock: 0,
                marks: vec![0; MARKS].into_boxed_slice(),
                changes: Some(Changes::default()),
            })
        };
        let shards = (0..SHARDS).map(|_| shard()).collect();
        Index { hashing: RandomState::new(), shards, entries_max: entries_max / SHARDS + 1 }
    }

    pub fn url(&self, url: &[u8]) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        hasher.write(url);
        hasher.finish()
    }

    /// Hashes of a key and of the values that a response varies by.
    pub fn id(&self, key: &KeyRef<'_>, varying: &[u8]) -> Id {
        let rest = &key.bytes()[key.url().len()..];
        let variant = self.url(varying) as u16 & !USED;
        Id { url: self.url(key.url()), rest: self.url(rest) as u32, variant }
    }

    pub fn shard(&self, url: u64) -> MutexGuard<'_, Shard> {
        self.at((url >> 50) as usize % SHARDS)
    }

    fn at(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs for one shard after the other.
    pub fn each(&self, mut run: impl FnMut(&mut Shard)) {
        (0..SHARDS).for_each(|index| run(&mut self.at(index)));
    }

    /// Adds a response. `stamp`: clock of its shard when it began to wait; `None` for one that the file was searched for.
    /// Returns false if a later purge or response supersedes it, or if the shard is full.
    pub fn insert(&self, id: Id, place: Place, stamp: Option<u64>, ring: &Ring) -> bool {
        let epoch = ring.epoch(place.slot);
        let mut shard = self.shard(id.url);
        // Under the lock: the segment is reclaimed after its number is taken away, shard by shard.
        epoch != 0 && ring.epoch(place.slot) == epoch && shard.insert(id, place, stamp, self.entries_max, ring)
    }

    /// Places of the variants of a key, the newest first, which count as used from now on.
    pub fn find(&self, url: u64, rest: u32, ring: &Ring) -> Vec<(Id, Place)> {
        let mut shard = self.shard(url);
        let mut found: Vec<(u64, Id, Place)> = Vec::new();
        for entry in shard.table.iter_hash_mut(spread(url, rest)).filter(|known| known.url == url && known.rest == rest)
        {
            let sequence = place_in_log(ring, entry.slot, entry.offset);
            entry.variant |= USED;
            found.push((sequence, entry.id(), entry.place()));
        }
        found.sort_unstable_by_key(|(sequence, ..)| std::cmp::Reverse(*sequence));
        found.truncate(VARIANTS_MAX);
        found.into_iter().map(|(_, id, place)| (id, place)).collect()
    }

    /// True if there is a variant of the key.
    pub fn has_key(&self, url: u64, rest: u32) -> bool {
        self.shard(url).table.iter_hash(spread(url, rest)).any(|known| known.url == url && known.rest == rest)
    }

    /// Takes a response out, unless it is at another place by now.
    pub fn remove(&self, id: Id, place: Place) {
        self.shard(id.url).remove(|known| known.id() == id && known.place() == place, &id);
    }

    /// Ends the search of the file: changes need not be remembered any more.
    pub fn is_searched(&self) {
        self.each(|shard| shard.changes = None);
    }

    /// Responses and their bytes.
    pub fn size(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        self.each(|shard| sum = (sum.0 + shard.table.len() as u64, sum.1 + shard.bytes));
        sum
    }
}

impl Shard {
    fn insert(&mut self, id: Id, place: Place, stamp: Option<u64>, entries_max: usize, ring: &Ring) -> bool {
        let is_outdated = match (stamp, &self.changes) {
            (Some(stamp), _) => stamp < self.marks[mark(id.url)],
            (None, Some(changes)) => changes.all || changes.urls.contains(&id.url) || changes.ids.contains(&id),
            // The search has ended.
            (None, None) => true,
        };
        if is_outdated {
            return false;
        }
        let sequence = |slot, offset| place_in_log(ring, slot, offset);
        let hash = spread(id.url, id.rest);
        if let Some(known) = self.table.find_mut(hash, |known| known.id() == id) {
            // A response that was written while the file was searched is newer.
            if sequence(known.slot, known.offset) > sequence(place.slot, place.offset) {
                return false;
            }
            self.bytes = self.bytes - u64::from(known.length) + u64::from(place.length);
            (known.slot, known.offset, known.length, known.variant) =
                (place.slot, place.offset, place.length, id.variant);
            return true;
        }
        let together = self.table.iter_hash(hash).filter(|known| known.url == id.url);
        let (count, oldest) = together.fold((0, None), |(count, oldest): (usize, Option<(u64, Id)>), known| {
            let this = (sequence(known.slot, known.offset), known.id());
            (count + 1, Some(oldest.filter(|oldest| oldest.0 < this.0).unwrap_or(this)))
        });
        if let Some((_, oldest)) = oldest.filter(|_| count >= TOGETHER_MAX) {
            self.remove(|known| known.id() == oldest, &oldest);
        }
        if self.table.len() >= entries_max {
            return false;
        }
        let Place { slot, offset, length } = place;
        let entry = Entry { url: id.url, rest: id.rest, offset, length, slot, variant: id.variant };
        self.bytes += u64::from(length);
        self.table.insert_unique(hash, entry, Entry::hash);
        true
    }

    /// True if this response is stored.
    pub fn has(&self, id: &Id) -> bool {
        self.table.find(spread(id.url, id.rest), |known| known.id() == *id).is_some()
    }

    /// Takes a response out, and refuses an older one that waits. True if it was there.
    pub fn forget(&mut self, id: &Id) -> bool {
        self.mark(id.url);
        if let Some(changes) = &mut self.changes {
            changes.note(|changes| _ = changes.ids.insert(*id));
        }
        self.remove(|known| known.id() == *id, id)
    }

    /// Takes all responses of a URL out, and refuses older ones that wait.
    pub fn purge_url(&mut self, url: u64) {
        self.mark(url);
        if let Some(changes) = &mut self.changes {
            changes.note(|changes| _ = changes.urls.insert(url));
        }
        for at in 0..SPREAD {
            let id = Id { url, rest: at, variant: 0 };
            while self.remove(|known| known.url == url, &id) {}
        }
    }

    /// Takes everything out, and refuses what waits.
    pub fn clear(&mut self) {
        self.clock += 1;
        self.marks.fill(self.clock);
        if let Some(changes) = &mut self.changes {
            *changes = Changes { all: true, ..Changes::default() };
        }
        (self.table, self.bytes) = (HashTable::new(), 0);
    }

    /// Takes out what is before a place of the log: all of it, that of a URL, or one response.
    pub fn drop_before(&mut self, sequence: u64, of: Option<(u64, Option<Id>)>, ring: &Ring) {
        let is_before = |known: &Entry| place_in_log(ring, known.slot, known.offset) < sequence;
        match of {
            None => {
                let bytes = &mut self.bytes;
                self.table.retain(|known| {
                    let stays = !is_before(known);
                    *bytes -= if stays { 0 } else { u64::from(known.length) };
                    stays
                });
            }
            Some((_, Some(id))) => _ = self.remove(|known| known.id() == id && is_before(known), &id),
            Some((url, None)) => {
                for at in 0..SPREAD {
                    let id = Id { url, rest: at, variant: 0 };
                    while self.remove(|known| known.url == url && is_before(known), &id) {}
                }
            }
        }
    }

    /// Takes the responses of a segment out; those that were used.
    pub fn take_segment(&mut self, slot: u16, used: &mut Vec<(Id, Place, u64)>) {
        let (bytes, clock) = (&mut self.bytes, self.clock);
        self.table.retain(|known| {
            if known.slot != slot {
                return true;
            }
            *bytes -= u64::from(known.length);
            if known.variant & USED != 0 {
                used.push((known.id(), known.place(), clock));
            }
            false
        });
    }

    fn mark(&mut self, url: u64) {
        self.clock += 1;
        self.marks[mark(url)] = self.clock;
    }

    fn remove(&mut self, mut is_it: impl FnMut(&Entry) -> bool, id: &Id) -> bool {
        match self.table.find_entry(spread(id.url, id.rest), |known| is_it(known)) {
            Ok(found) => {
                self.bytes -= u64::from(found.remove().0.length);
                true
            }
            Err(_) => false,
        }
    }
}

impl Changes {
    fn note(&mut self, add: impl FnOnce(&mut Changes)) {
        if self.urls.len() + self.ids.len() >= CHANGES_MAX {
            *self = Changes { all: true, ..Changes::default() };
        } else if !self.all {
            add(self);
        }
    }
}

/// Place of a record in the log, which grows with each one.
fn place_in_log(ring: &Ring, slot: u16, offset: u32) -> u64 {
    u64::from(ring.epoch(slot)) << 32 | u64::from(offset)
}

fn mark(url: u64) -> usize {
    (url >> 20) as usize % MARKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_takes_24_bytes() {
        assert_eq!(size_of::<Entry>(), 24);
    }
}
