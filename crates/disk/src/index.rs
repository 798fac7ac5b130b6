//! Places of responses in memory, by the hashes of their keys: 24 bytes each, in independently locked shards.
//!
//! All keys of a URL are in the same shard, spread over 64 places of its table, so that a purge finds them without a
//! second table. The number of keys in each place is limited, so that many keys of the same URL do not make every
//! lookup of it slow.

use crate::file::Ring;
use crate::history::History;
use evenkeel_cache::store::KeyRef;
use hashbrown::HashTable;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;

/// Places over which the keys of a URL are spread.
const SPREAD: u16 = 64;

/// Most responses of a URL in the same place. A further response replaces the oldest.
const TOGETHER_MAX: usize = 64;

/// Most changes of a shard that are remembered while the file is searched.
const CHANGES_MAX: usize = 1 << 14;

/// Most variants of a key that are read together.
pub const VARIANTS_MAX: usize = 8;

/// Hashes of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub url: u64,
    /// Hash of the rest of the key.
    pub rest: u16,
    /// Hash of the rest of the key and of the values that it varies by, in 31 bits.
    pub variant: u32,
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
    offset: u32,
    length: u32,
    /// Hash of the variant, and in the highest bit if it was read since it was written.
    variant: u32,
    slot: u16,
    rest: u16,
}

const USED: u32 = 1 << 31;

/// Result of adding a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    Yes,
    /// The response replaces the oldest response of its URL, which was at this place.
    Instead(Place),
    /// A later purge or response supersedes it, or the shard is full.
    No,
}

/// Places of all responses, by the hashes of their keys.
#[derive(Debug)]
pub struct Index {
    hashing: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// Most responses of a shard.
    entries_max: usize,
}

/// Places of the responses of some URLs, behind the same lock.
#[derive(Debug)]
pub struct Shard {
    table: HashTable<Entry>,
    bytes: u64,
    /// Responses that wait to be written, or are being written, with their turns. A purge, or a newer response in
    /// memory, removes its entry, and then the written response is not added.
    waiting: HashMap<Id, u64>,
    /// Turn of the latest response that began to wait.
    turn: u64,
    /// Keys that left the memory lately.
    history: History,
    /// Changes since the start, while the file is searched: responses that the search finds are older than these
    /// changes.
    changes: Option<Changes>,
}

/// Changes while the file is searched.
#[derive(Debug, Default)]
struct Changes {
    urls: HashSet<u64>,
    ids: HashSet<Id>,
    /// True if everything that the search finds is older than a change that is not remembered.
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

/// Hash for the table. A URL has [`SPREAD`] of them.
fn spread(url: u64, rest: u16) -> u64 {
    url ^ u64::from(rest % SPREAD).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Index {
    pub fn new(entries_max: usize) -> Index {
        let shard = || {
            let (table, waiting) = (HashTable::new(), HashMap::new());
            let history = History::default();
            Mutex::new(Shard { table, bytes: 0, waiting, turn: 0, history, changes: Some(Changes::default()) })
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
        let mut hasher = self.hashing.build_hasher();
        hasher.write_usize(rest.len());
        hasher.write(rest);
        let rest = hasher.finish() as u16;
        hasher.write(varying);
        Id { url: self.url(key.url()), rest, variant: hasher.finish() as u32 & !USED }
    }

    pub fn shard(&self, url: u64) -> MutexGuard<'_, Shard> {
        self.at((url >> 50) as usize % SHARDS)
    }

    fn at(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `run` for each shard in turn.
    pub fn each(&self, mut run: impl FnMut(&mut Shard)) {
        (0..SHARDS).for_each(|index| run(&mut self.at(index)));
    }

    /// Adds a response. `turn`: the turn from [`Shard::wait`]; `None` for a response that the search has found.
    pub fn insert(&self, id: Id, place: Place, turn: Option<u64>, ring: &Ring) -> Added {
        let epoch = ring.epoch(place.slot);
        let mut shard = self.shard(id.url);
        // Under the lock: a segment loses its number first, and then its responses, shard by shard.
        let is_there = epoch != 0 && ring.epoch(place.slot) == epoch;
        let is_superseded = match (turn, &shard.changes) {
            (Some(turn), _) => !shard.give_up(&id, turn),
            (None, Some(changes)) => changes.all || changes.urls.contains(&id.url) || changes.ids.contains(&id),
            // The search has ended.
            (None, None) => true,
        };
        if is_there && !is_superseded { shard.insert(id, place, self.entries_max, ring) } else { Added::No }
    }

    /// Places of the variants of a key, the newest first, which count as used from now on.
    pub fn find(&self, url: u64, rest: u16, ring: &Ring) -> Vec<(Id, Place)> {
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
    pub fn has_key(&self, url: u64, rest: u16) -> bool {
        self.shard(url).table.iter_hash(spread(url, rest)).any(|known| known.url == url && known.rest == rest)
    }

    /// Removes a response, unless it is at another place by now.
    pub fn remove(&self, id: Id, place: Place) {
        self.shard(id.url).remove(|known| known.id() == id && known.place() == place, &id);
    }

    /// Ends the search of the file: changes need not be remembered any more.
    pub fn is_searched(&self) {
        self.each(|shard| shard.changes = None);
    }

    /// Number of responses, and their bytes.
    pub fn size(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        self.each(|shard| sum = (sum.0 + shard.table.len() as u64, sum.1 + shard.bytes));
        sum
    }
}

impl Shard {
    fn insert(&mut self, id: Id, place: Place, entries_max: usize, ring: &Ring) -> Added {
        let sequence = |slot, offset| place_in_log(ring, slot, offset);
        let hash = spread(id.url, id.rest);
        if let Some(known) = self.table.find_mut(hash, |known| known.id() == id) {
            // A response that was written while the file was searched is newer.
            if sequence(known.slot, known.offset) > sequence(place.slot, place.offset) {
                return Added::No;
            }
            self.bytes = self.bytes - u64::from(known.length) + u64::from(place.length);
            (known.slot, known.offset, known.length, known.variant) =
                (place.slot, place.offset, place.length, id.variant);
            return Added::Yes;
        }
        let together = self.table.iter_hash(hash).filter(|known| known.url == id.url);
        let (count, oldest) = together.fold((0, None), |(count, oldest): (usize, Option<(u64, Entry)>), known| {
            let this = (sequence(known.slot, known.offset), *known);
            (count + 1, Some(oldest.filter(|oldest| oldest.0 < this.0).unwrap_or(this)))
        });
        let oldest = oldest.filter(|_| count >= TOGETHER_MAX).map(|(_, oldest)| oldest);
        match oldest.map(|oldest| oldest.id()) {
            Some(id) => _ = self.remove(|known| known.id() == id, &id),
            None if self.table.len() >= entries_max => return Added::No,
            None => {}
        }
        let Place { slot, offset, length } = place;
        let entry = Entry { url: id.url, rest: id.rest, offset, length, slot, variant: id.variant };
        self.bytes += u64::from(length);
        self.table.insert_unique(hash, entry, Entry::hash);
        oldest.map_or(Added::Yes, |oldest| Added::Instead(oldest.place()))
    }

    /// Notes that a response waits to be written, and returns its turn. `None` if it is on disk, or waits already.
    pub fn wait(&mut self, id: &Id) -> Option<u64> {
        let is_there = self.table.find(spread(id.url, id.rest), |known| known.id() == *id).is_some();
        if is_there || self.waiting.contains_key(id) {
            return None;
        }
        self.turn += 1;
        self.waiting.insert(*id, self.turn);
        Some(self.turn)
    }

    /// Notes a response that left the memory. Returns true if a response of its key did so lately.
    pub fn is_known(&mut self, id: &Id) -> bool {
        self.history.note(id.url ^ u64::from(id.rest) << 24, self.table.len())
    }

    /// Notes that a response no longer waits. Returns false if it was removed meanwhile.
    pub fn give_up(&mut self, id: &Id, turn: u64) -> bool {
        let waits = self.waiting.get(id) == Some(&turn);
        if waits {
            self.waiting.remove(id);
        }
        waits
    }

    /// Removes a response, even if it waits to be written. Returns true if there was such a response.
    pub fn forget(&mut self, id: &Id) -> bool {
        if let Some(changes) = &mut self.changes {
            changes.note(|changes| _ = changes.ids.insert(*id));
        }
        let has_waited = self.waiting.remove(id).is_some();
        self.remove(|known| known.id() == *id, id) || has_waited
    }

    /// Removes all responses of a URL, including responses that wait to be written.
    pub fn purge_url(&mut self, url: u64) {
        self.waiting.retain(|id, _| id.url != url);
        if let Some(changes) = &mut self.changes {
            changes.note(|changes| _ = changes.urls.insert(url));
        }
        for at in 0..SPREAD {
            let id = Id { url, rest: at, variant: 0 };
            while self.remove(|known| known.url == url, &id) {}
        }
    }

    /// Removes all responses, including responses that wait to be written.
    pub fn clear(&mut self) {
        self.waiting = HashMap::new();
        if let Some(changes) = &mut self.changes {
            *changes = Changes { all: true, ..Changes::default() };
        }
        (self.table, self.bytes) = (HashTable::new(), 0);
    }

    /// Removes responses before a place of the log: all of them, all of a URL, or a single response.
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

    /// Removes the responses of a segment, and returns their number. Adds the used ones to `used`: they wait to be written
    /// again from now on.
    pub fn take_segment(&mut self, slot: u16, used: &mut Vec<(Id, Place, u64)>) -> usize {
        let before = self.table.len();
        let Shard { bytes, waiting, turn, .. } = self;
        self.table.retain(|known| {
            if known.slot != slot {
                return true;
            }
            *bytes -= u64::from(known.length);
            if known.variant & USED != 0 {
                *turn += 1;
                waiting.insert(known.id(), *turn);
                used.push((known.id(), known.place(), *turn));
            }
            false
        });
        before - self.table.len()
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

/// Position of a record in the log. It grows with each record.
fn place_in_log(ring: &Ring, slot: u16, offset: u32) -> u64 {
    u64::from(ring.epoch(slot)) << 32 | u64::from(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_takes_24_bytes() {
        assert_eq!(size_of::<Entry>(), 24);
    }
}
