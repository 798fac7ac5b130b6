//! Part of a store, behind a separate lock: tables of keys and of URLs, entries, and counts.

use super::counts::Counts;
use super::entry::{Entry, Segment};
use super::eviction::Lists;
use super::forms::{Coding, Forms};
use super::item::Item;
use super::keys::{Hashes, KeyRef};
use super::object::{FRESH, Head, Object, Variant};
use super::options::Limits;
use super::purge::{Fate, Purges, Sequence};
use super::results::{Found, Hit, Inserted, Matched, Refusal};
use super::sketch::Sketch;
use super::slots::Slots;
use crate::moment::Moment;
use bytes::Bytes;
use hashbrown::HashTable;
use std::sync::Arc;

/// Marks of purged URLs in a shard. With 64 shards, and fetches of 100 ms while 1,000 URLs are purged in a second, 3 of
/// 1,000 responses are refused for the purge of another URL.
const MARKS: usize = 512;

/// A purge of a key or of a URL.
#[derive(Debug)]
pub(super) struct UrlPurge<'s> {
    pub sequence: u64,
    pub fate: Fate,
    pub now: Moment,
    /// Log of purges, which entries are checked against first.
    pub purges: &'s Purges,
}

#[derive(Debug)]
pub(super) struct Shard<H> {
    pub slots: Slots<Entry<H>>,
    by_key: HashTable<u32>,
    /// First key of each URL. The others are in its ring.
    by_url: HashTable<u32>,
    pub lists: Lists,
    pub sketch: Sketch,
    /// Newest purges of URLs, by their hash. A fetch that began before the mark of its URL is refused: no list of purged
    /// URLs is kept, and those that share a mark are just not stored this time.
    marks: Box<[u64]>,
    pub counts: Counts,
    /// Removed objects, to be freed without the lock.
    dead: Vec<Variant<H>>,
    /// Evicted objects, to be passed on without the lock.
    pub evicted: Vec<Item<H>>,
    pub limits: Limits,
}

impl<H: Head> Shard<H> {
    pub fn new(limits: Limits) -> Shard<H> {
        Shard {
            slots: Slots::new(),
            by_key: HashTable::new(),
            by_url: HashTable::new(),
            lists: Lists::new(limits.shard),
            sketch: Sketch::new(),
            marks: vec![0; MARKS].into_boxed_slice(),
            counts: Counts::default(),
            dead: Vec::new(),
            evicted: Vec::new(),
            limits,
        }
    }

    /// Returns removed objects, to be dropped after the lock: freeing large objects takes a while.
    pub fn take_dead(&mut self) -> Vec<Variant<H>> {
        // Every object that leaves passes here.
        self.counts.objects -= self.dead.len() as u64;
        std::mem::take(&mut self.dead)
    }

    pub fn counts(&self) -> Counts {
        Counts { entries: self.slots.len() as u64, bytes: self.lists.bytes(), ..self.counts }
    }

    pub fn lookup(
        &mut self,
        key: &KeyRef<'_>,
        hashes: Hashes,
        purges: &Purges,
        mut rank: impl FnMut(&H) -> Option<u64>,
    ) -> Found<H> {
        self.sketch.add(hashes.key);
        let Some(id) = self.find(key, hashes).filter(|id| self.check(*id, purges, purges.newest())) else {
            self.counts.misses += 1;
            return Found::Nothing;
        };
        let ranked =
            self.slots[id].variants().enumerate().filter_map(|(i, known)| Some((i, rank(known.object.head())?)));
        // Of equals, the most recently used.
        let Some((index, _)) = ranked.reduce(|best, next| if next.1 > best.1 { next } else { best }) else {
            self.counts.misses += 1;
            return Found::OtherVariants;
        };
        self.counts.hits += 1;
        let entry = &mut self.slots[id];
        entry.use_variant(index);
        entry.hits = entry.hits.saturating_add(1);
        let stale_from = Some(Moment(entry.first.stale_from)).filter(|at| at.0 != FRESH);
        let hit = Hit { object: entry.first.object.clone(), stale_from, hits: entry.hits };
        self.lists.touch(&mut self.slots, id);
        Found::Hit(hit)
    }

    /// Reason why an object with this head and weight is refused, whatever it competes with. Counts the refusal.
    pub fn refusal(
        &mut self,
        key: &KeyRef<'_>,
        hashes: Hashes,
        (head, weight): (&H, u64),
        began: Sequence,
        purges: &Purges,
        newest: u64,
    ) -> Option<Refusal> {
        if Entry::<H>::weight_with(key, weight) > self.limits.object_max {
            self.counts.refused_large += 1;
            return Some(Refusal::TooLarge);
        }
        let is_purged = began.0 < self.marks[mark(hashes.url)] || purges.is_purged(began, newest, key.url(), head);
        self.counts.refused_purged += u64::from(is_purged);
        is_purged.then_some(Refusal::Purged)
    }

    #[allow(clippy::too_many_arguments)] // one caller, which adds what the store knows
    pub fn insert(
        &mut self,
        key: &KeyRef<'_>,
        hashes: Hashes,
        object: Arc<Object<H>>,
        began: Sequence,
        now: Moment,
        purges: &Purges,
        mut is_same: impl FnMut(&H) -> bool,
    ) -> Inserted {
        let newest = purges.newest();
        let weight = object.weight();
        if let Some(refusal) = self.refusal(key, hashes, (object.head(), weight), began, purges, newest) {
            return Inserted::Refused(refusal);
        }
        let variant = Variant { object, stale_from: FRESH };
        self.counts.objects += 1;
        let known = self.find(key, hashes).filter(|id| self.check(*id, purges, newest));
        let (id, is_replaced) = match known {
            Some(id) => (id, self.add_variant(id, variant, &mut is_same)),
            None => (self.add_entry(key, hashes, variant), false),
        };
        let object = Arc::as_ptr(&self.slots[id].first.object);
        (self.slots[id].checked, self.slots[id].stored) = (newest, now.0);
        self.fit(id);
        self.counts.inserts += 1;
        self.counts.replaced += u64::from(is_replaced);
        self.settle(now.0);
        // The place may be free now, but it has no other entry: nothing was added since.
        if self.slots.get(id).is_none_or(|entry| !std::ptr::eq(Arc::as_ptr(&entry.first.object), object)) {
            self.counts.refused_unused += 1;
            return Inserted::Refused(Refusal::Unused);
        }
        if is_replaced { Inserted::Replaced } else { Inserted::Added }
    }

    /// Adds an encoded body to the forms of an object that is stored under this key.
    pub fn add_encoded(
        &mut self,
        key: &KeyRef<'_>,
        hashes: Hashes,
        forms: &Arc<Forms>,
        coding: Coding,
        body: Bytes,
        now: Moment,
    ) -> bool {
        let Some(id) = self.find(key, hashes) else { return false };
        let Some(known) = self.slots[id].with_forms(forms) else { return false };
        let object = known.object.weight() - forms.weight() + forms.weight_with(&body);
        let weight = Entry::<H>::weight_with(key, object);
        if weight > self.limits.object_max || !forms.add(coding, body) {
            return false;
        }
        self.fit(id);
        self.settle(now.0);
        true
    }

    /// Removes an entry from all lists and tables.
    pub fn remove(&mut self, id: u32) {
        self.lists.unlink(&mut self.slots, id);
        let entry = self.slots.remove(id);
        if let Ok(found) = self.by_key.find_entry(entry.hashes.key, |known| *known == id) {
            found.remove();
        }
        if let Ok(mut found) = self.by_url.find_entry(entry.hashes.url, |known| *known == id) {
            if entry.ring[1] == id {
                found.remove();
            } else {
                *found.get_mut() = entry.ring[1];
            }
        }
        if entry.ring[1] != id {
            self.slots[entry.ring[0]].ring[1] = entry.ring[1];
            self.slots[entry.ring[1]].ring[0] = entry.ring[0];
        }
        if self.slots.len() == 0 {
            (self.by_key, self.by_url) = (HashTable::new(), HashTable::new());
        }
        self.dead.push(entry.first);
        self.dead.extend(entry.rest);
    }

    /// Purges a key. Objects of its URL whose fetch began before are refused from now on.
    pub fn purge_key(&mut self, key: &KeyRef<'_>, hashes: Hashes, by: &UrlPurge<'_>) -> Matched {
        self.set_mark(hashes.url, by.sequence);
        self.find(key, hashes).map_or(Matched::default(), |id| self.purge_entry(id, by))
    }

    /// Drops an object of a key. Returns false if the key does not hold it.
    pub fn drop_object(&mut self, key: &KeyRef<'_>, hashes: Hashes, object: &Arc<Object<H>>) -> bool {
        let Some(id) = self.find(key, hashes) else { return false };
        let entry = &mut self.slots[id];
        let Some(index) = entry.variants().position(|known| Arc::ptr_eq(&known.object, object)) else { return false };
        if entry.rest.is_empty() {
            self.remove(id);
        } else {
            self.dead.push(entry.remove_variant(index));
            self.lists.reweigh(&mut self.slots, id);
        }
        true
    }

    /// Drops the objects of an entry for which `is_over` returns true.
    pub fn drop_over(&mut self, id: u32, is_over: &mut impl FnMut(&H) -> bool) {
        for index in (0..self.slots[id].count()).rev() {
            let entry = &mut self.slots[id];
            if !entry.variants().nth(index).is_some_and(|known| is_over(known.object.head())) {
                continue;
            }
            self.counts.over += 1;
            if entry.rest.is_empty() {
                return self.remove(id);
            }
            self.dead.push(entry.remove_variant(index));
            self.lists.reweigh(&mut self.slots, id);
        }
    }

    /// Purges the keys of a URL; of those that are removed, at most `keys_max`. The flag is true if some are left.
    pub fn purge_url(&mut self, url: &[u8], hash: u64, by: &UrlPurge<'_>, keys_max: usize) -> (Matched, bool) {
        self.set_mark(hash, by.sequence);
        let found = self.by_url.find(hash, |id| self.slots[*id].url() == url).copied();
        let Some(first) = found else { return (Matched::default(), false) };
        let after = |id: &u32| Some(self.slots[*id].ring[1]).filter(|next| *next != first);
        // Marked entries stay in the ring, so a second turn would not know where to continue.
        let turn = if by.fate == Fate::Removed { keys_max } else { usize::MAX };
        let ids: Vec<u32> = std::iter::successors(Some(first), after).take(turn).collect();
        let is_more = ids.len() == turn;
        let add =
            |sum: Matched, one: Matched| Matched { objects: sum.objects + one.objects, bytes: sum.bytes + one.bytes };
        (ids.into_iter().map(|id| self.purge_entry(id, by)).fold(Matched::default(), add), is_more)
    }

    /// Places of the keys of a URL.
    pub fn places_of(&self, url: &[u8], hash: u64) -> Vec<u32> {
        let first = self.by_url.find(hash, |id| self.slots[*id].url() == url).copied();
        let after = |id: &u32| Some(self.slots[*id].ring[1]).filter(|next| Some(*next) != first);
        std::iter::successors(first, after).collect()
    }

    /// Checks the entry at a place, if any, against purges up to `newest`. Returns false if the place is empty after
    /// that.
    pub fn check(&mut self, id: u32, purges: &Purges, newest: u64) -> bool {
        let Some(entry) = self.slots.get(id) else { return false };
        if entry.checked >= newest {
            return true;
        }
        let log = purges.read();
        let mut is_lighter = false;
        for purge in log.between(entry.checked, newest) {
            let entry = &mut self.slots[id];
            let url = &entry.key[..entry.url_len as usize];
            if purge.fate == Fate::Stale {
                let all = std::iter::once(&mut entry.first).chain(&mut entry.rest);
                for variant in all.filter(|known| purge.target.is_for(url, known.object.head())) {
                    variant.stale_from = variant.stale_from.min(purge.at);
                    purge.count(variant.object.weight());
                    self.counts.marked += 1;
                }
                continue;
            }
            for index in (0..entry.count()).rev() {
                let entry = &mut self.slots[id];
                let url = &entry.key[..entry.url_len as usize];
                let known = entry.variants().nth(index).expect("below the count");
                if !purge.target.is_for(url, known.object.head()) {
                    continue;
                }
                purge.count(known.object.weight());
                self.counts.purged += 1;
                if entry.rest.is_empty() {
                    self.remove(id);
                    return false;
                }
                self.dead.push(entry.remove_variant(index));
                is_lighter = true;
            }
        }
        self.slots[id].checked = newest;
        if is_lighter {
            self.lists.reweigh(&mut self.slots, id);
        }
        true
    }

    pub fn find(&self, key: &KeyRef<'_>, hashes: Hashes) -> Option<u32> {
        self.by_key.find(hashes.key, |id| self.slots[*id].is_for(key)).copied()
    }

    pub fn mark(&mut self, url: u64) -> &mut u64 {
        &mut self.marks[(url >> 20) as usize % MARKS]
    }

    fn set_mark(&mut self, url: u64, sequence: u64) {
        let mark = &mut self.marks[mark(url)];
        *mark = (*mark).max(sequence);
    }

    fn purge_entry(&mut self, id: u32, by: &UrlPurge<'_>) -> Matched {
        if !self.check(id, by.purges, by.purges.newest()) {
            return Matched::default();
        }
        let entry = &mut self.slots[id];
        let objects = entry.count() as u64;
        let bytes = entry.variants().map(|known| known.object.weight()).sum::<u64>();
        match by.fate {
            Fate::Removed => {
                self.counts.purged += objects;
                self.remove(id);
            }
            Fate::Stale => {
                self.counts.marked += objects;
                entry.variants_mut().for_each(|known| known.stale_from = known.stale_from.min(by.now.0));
            }
        }
        Matched { objects, bytes }
    }

    fn add_entry(&mut self, key: &KeyRef<'_>, hashes: Hashes, variant: Variant<H>) -> u32 {
        self.sketch.reserve(self.slots.len() + 1);
        if self.sketch.count(hashes.key) == 0 {
            self.sketch.add(hashes.key);
        }
        let id = self.slots.insert(Entry::new(key, hashes, variant));
        let slots = &self.slots;
        self.by_key.insert_unique(hashes.key, id, |known| slots[*known].hashes.key);
        match self.by_url.find(hashes.url, |known| self.slots[*known].url() == key.url()).copied() {
            Some(first) => {
                let last = self.slots[first].ring[0];
                self.slots[id].ring = [last, first];
                self.slots[last].ring[1] = id;
                self.slots[first].ring[0] = id;
            }
            None => {
                self.slots[id].ring = [id, id];
                let slots = &self.slots;
                self.by_url.insert_unique(hashes.url, id, |known| slots[*known].hashes.url);
            }
        }
        self.lists.push(&mut self.slots, id, Segment::Window);
        id
    }

    /// Puts a variant first, and removes the variant that is the same. True if there was such a variant.
    fn add_variant(&mut self, id: u32, variant: Variant<H>, is_same: &mut impl FnMut(&H) -> bool) -> bool {
        let entry = &mut self.slots[id];
        let same = entry.variants().position(|known| is_same(known.object.head()));
        if let Some(index) = same {
            entry.use_variant(index);
            self.dead.push(std::mem::replace(&mut entry.first, variant));
            return true;
        }
        if entry.rest.len() == entry.rest.capacity() {
            // Most keys have few variants: no doubling.
            entry.rest.reserve_exact(entry.rest.len().clamp(1, 8));
        }
        let before = std::mem::replace(&mut entry.first, variant);
        entry.rest.insert(0, before);
        if entry.count() > self.limits.variants_max {
            self.counts.variants_dropped += 1;
            self.dead.extend(entry.rest.pop());
        }
        false
    }

    /// Corrects the weight of an entry. Drops its least recently used variants while it would fill half a shard.
    fn fit(&mut self, id: u32) {
        self.lists.reweigh(&mut self.slots, id);
        while self.slots[id].weight > self.limits.shard / 2 {
            let Some(variant) = self.slots[id].rest.pop() else { return };
            self.counts.variants_dropped += 1;
            self.dead.push(variant);
            self.lists.reweigh(&mut self.slots, id);
        }
    }
}

/// Place of the mark of a URL with this hash.
fn mark(url: u64) -> usize {
    (url >> 20) as usize % MARKS
}

#[cfg(test)]
impl<H: Head> Shard<H> {
    /// Asserts that tables, rings, lists and weights agree.
    pub fn assert_sound(&self) {
        let ids: Vec<u32> = (0..self.slots.end()).filter(|id| self.slots.get(*id).is_some()).collect();
        assert_eq!((self.by_key.len(), self.slots.len()), (ids.len(), ids.len()));
        let (mut weight, mut rings, mut objects) = (0, 0, 0);
        for id in ids {
            let entry = &self.slots[id];
            let key = KeyRef::new(&entry.key, entry.url_len as usize);
            assert_eq!(self.find(&key, entry.hashes), Some(id));
            assert_eq!(entry.weight, entry.weigh());
            assert!(entry.count() <= self.limits.variants_max);
            assert_eq!((self.slots[entry.ring[0]].ring[1], self.slots[entry.ring[1]].ring[0]), (id, id));
            assert_eq!(self.slots[entry.ring[1]].url(), entry.url());
            rings += u32::from(self.by_url.find(entry.hashes.url, |known| *known == id).is_some());
            weight += entry.weight;
            objects += entry.count() as u64;
            for (at, is_there) in
                [(entry.prev, entry.prev != super::entry::NONE), (entry.next, entry.next != super::entry::NONE)]
            {
                assert!(!is_there || self.slots[at].segment == entry.segment);
            }
        }
        assert_eq!((rings as usize, weight), (self.by_url.len(), self.lists.bytes()));
        assert_eq!(objects, self.counts.objects);
        assert!(weight <= self.limits.shard, "{weight} of {}", self.limits.shard);
    }
}
