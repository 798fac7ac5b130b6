//! Objects restored from a previous process or from a disk. Objects of the store itself are newer, and stay.

use super::Store;
use super::keys::{Hashes, KeyRef};
use super::object::{Head, Object};
use super::purge::{Held, Purges, Sequence};
use super::results::{Inserted, Refusal, Restored};
use super::shard::Shard;
use crate::moment::Moment;
use std::sync::Arc;

/// Most hits of a restored object that count as recent uses: half of the maximum of the sketch, so that new objects
/// have a chance.
const RECENT_MAX: u32 = 7;

impl<H: Head> Store<H> {
    /// Holds purges from now on.
    pub fn hold(&self) -> Held {
        self.purges.hold()
    }

    /// Restores an object, unless the same variant is stored. `began`: point in the order of purges at which it began
    /// to arrive. `is_same` is called with a lock, as `rank` of [`Store::lookup`].
    pub fn restore(
        &self,
        key: KeyRef<'_>,
        restored: Restored<H>,
        began: Sequence,
        now: Moment,
        is_same: impl FnMut(&H) -> bool,
    ) -> Inserted {
        let hashes = self.hashing.key(&key);
        let shard = self.shard_of(hashes.url);
        self.with(shard, |shard| shard.restore(&key, hashes, restored, (began, now), &self.purges, is_same))
    }

    /// Replaces an object, if it is still stored, by a copy: the same head, and the same body in other memory.
    pub fn exchange(&self, key: KeyRef<'_>, old: &Arc<Object<H>>, copy: Arc<Object<H>>) {
        let hashes = self.hashing.key(&key);
        self.with(self.shard_of(hashes.url), |shard| {
            let Some(id) = shard.find(&key, hashes) else { return };
            if let Some(known) = shard.slots[id].variants_mut().find(|known| Arc::ptr_eq(&known.object, old)) {
                known.object = copy;
            }
        });
    }

    /// True if a purge since `began` covers an object of a key, or may cover it.
    pub fn is_purged_since(&self, key: KeyRef<'_>, head: &H, began: Sequence) -> bool {
        let hashes = self.hashing.key(&key);
        self.with(self.shard_of(hashes.url), |shard| {
            began.0 < *shard.mark(hashes.url) || self.purges.is_purged(began, self.purges.newest(), key.url(), head)
        })
    }
}

impl<H: Head> Shard<H> {
    fn restore(
        &mut self,
        key: &KeyRef<'_>,
        hashes: Hashes,
        restored: Restored<H>,
        (began, now): (Sequence, Moment),
        purges: &Purges,
        mut is_same: impl FnMut(&H) -> bool,
    ) -> Inserted {
        let known = self.find(key, hashes).filter(|id| self.check(*id, purges, purges.newest()));
        if known.is_some_and(|id| self.slots[id].variants().any(|known| is_same(known.object.head()))) {
            return Inserted::Refused(Refusal::Known);
        }
        let Restored { object, stale_from, hits } = restored;
        // Before the insertion, as the least used entries are evicted first.
        (0..hits.min(RECENT_MAX)).for_each(|_| self.sketch.add(hashes.key));
        let inserted = self.insert(key, hashes, object.clone(), began, now, purges, |_| false);
        if let Some(id) = self.find(key, hashes)
            && inserted == Inserted::Added
        {
            let entry = &mut self.slots[id];
            entry.hits = entry.hits.max(hits);
            let mine = entry.variants_mut().find(|known| Arc::ptr_eq(&known.object, &object));
            if let (Some(mine), Some(at)) = (mine, stale_from) {
                mine.stale_from = mine.stale_from.min(at.0);
            }
        }
        inserted
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{content, key, page};
    use super::super::{Fate, Options, Target};
    use super::*;

    fn restored(content: u64) -> Restored<super::super::tests::Page> {
        Restored { object: page(0, &[7], content, 10), stale_from: Some(Moment(5)), hits: 9 }
    }

    #[test]
    fn what_comes_back_keeps_its_mark_and_its_hits_and_what_is_there_stays() {
        let store = Store::new(&Options::default());
        let put =
            |content| store.restore(key("/a"), restored(content), store.begin(), Moment(6), |page| page.variant == 0);
        assert_eq!(put(1), Inserted::Added);
        assert_eq!(content(&store, "/a", 0), Some((1, true)));
        assert_eq!(store.of_url(key("/a").url())[0].hits, 10);
        assert_eq!(put(2), Inserted::Refused(Refusal::Known));
        assert_eq!(content(&store, "/a", 0), Some((1, true)));
        let stored = store.of_url(key("/a").url())[0].object.clone();
        store.exchange(key("/a"), &page(0, &[7], 1, 10), page(0, &[7], 3, 10));
        assert_eq!(content(&store, "/a", 0), Some((1, true)), "another object is left alone");
        store.exchange(key("/a"), &stored, page(0, &[7], 3, 10));
        assert_eq!(content(&store, "/a", 0), Some((3, true)), "the mark stays");
        store.assert_sound();
    }

    #[test]
    fn held_purges_refuse_what_they_were_meant_for_and_nothing_else() {
        let store = Store::new(&Options { purges_max: 2, ..Options::default() });
        let (began, held) = (store.begin(), store.hold());
        let put = |path: &str, tag| {
            let restored = Restored { object: page(0, &[tag], 1, 10), stale_from: None, hits: 0 };
            store.restore(key(path), restored, began, Moment(6), |_| false)
        };
        let sequence = store.purge(Target::Tag([7].into()), Fate::Stale, Moment(6));
        while store.sweep(1000) {}
        assert!(store.purged(sequence).is_some_and(|purged| purged.is_complete));
        assert_eq!(put("/a", 7), Inserted::Refused(Refusal::Purged));
        assert_eq!(put("/b", 8), Inserted::Added);
        assert!(store.is_purged_since(key("/a"), page(0, &[7], 1, 1).head(), began));
        assert!(!store.is_purged_since(key("/a"), page(0, &[8], 1, 1).head(), began));
        // More purges than are remembered: objects that they might cover are refused.
        (0..2).for_each(|_| _ = store.purge(Target::Tag([9].into()), Fate::Removed, Moment(6)));
        assert_eq!(put("/c", 8), Inserted::Refused(Refusal::Purged));
        drop(held);
        while store.sweep(1000) {}
        let restored = Restored { object: page(0, &[8], 1, 10), stale_from: None, hits: 0 };
        assert_eq!(store.restore(key("/c"), restored, store.begin(), Moment(6), |_| false), Inserted::Added);
    }
}
