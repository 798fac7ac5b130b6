//! Admission and eviction: W-TinyLFU by bytes.
//! Sources: Einziger, Friedman, Manes, "TinyLFU" (2017); Einziger, Eytan, Friedman, Manes, "Lightweight Robust Size
//! Aware Cache Management" (2022), whose aggregated victims decide here: an object enters if it was used more often
//! than all the objects together that it would evict. Reason for this algorithm:
//! `docs/measurements/2026-11-26-cache-store.md`.

use super::entry::{Entry, NONE, Segment};
use super::item::Item;
use super::object::Head;
use super::shard::Shard;
use super::slots::Slots;

/// Both ends of a list of entries, and their bytes. The most recently used entry is first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    bytes: u64,
}

/// The three lists of a shard, and their limits in bytes.
#[derive(Debug)]
pub(super) struct Lists {
    lists: [List; 3],
    /// New entries stay this long whatever their use is.
    window_max: u64,
    protected_max: u64,
    main_max: u64,
}

impl Lists {
    /// Lists of a shard of this many bytes. 1 % of it is the window and 80 % of the rest is protected, as in Caffeine.
    pub fn new(capacity: u64) -> Lists {
        let window_max = capacity / 100;
        let main_max = capacity - window_max;
        let none = List { first: NONE, last: NONE, bytes: 0 };
        Lists { lists: [none; 3], window_max, protected_max: main_max / 5 * 4, main_max }
    }

    /// Bytes of all entries of the shard.
    pub fn bytes(&self) -> u64 {
        self.lists.iter().map(|list| list.bytes).sum()
    }

    fn main_bytes(&self) -> u64 {
        self.lists[Segment::Probation as usize].bytes + self.lists[Segment::Protected as usize].bytes
    }

    fn last(&self, segment: Segment) -> Option<u32> {
        Some(self.lists[segment as usize].last).filter(|id| *id != NONE)
    }

    /// Puts an entry in front of a list.
    pub fn push<H>(&mut self, slots: &mut Slots<Entry<H>>, id: u32, segment: Segment) {
        let list = &mut self.lists[segment as usize];
        let entry = &mut slots[id];
        (entry.segment, entry.prev, entry.next) = (segment, NONE, list.first);
        list.bytes += entry.weight;
        match list.first {
            NONE => list.last = id,
            first => slots[first].prev = id,
        }
        list.first = id;
    }

    /// Takes an entry out of its list.
    pub fn unlink<H>(&mut self, slots: &mut Slots<Entry<H>>, id: u32) {
        let entry = &slots[id];
        let (prev, next) = (entry.prev, entry.next);
        let list = &mut self.lists[entry.segment as usize];
        list.bytes -= entry.weight;
        match prev {
            NONE => list.first = next,
            prev => slots[prev].next = next,
        }
        match next {
            NONE => list.last = prev,
            next => slots[next].prev = prev,
        }
    }

    fn shift<H>(&mut self, slots: &mut Slots<Entry<H>>, id: u32, segment: Segment) {
        if slots[id].segment != segment || slots[id].prev != NONE {
            self.unlink(slots, id);
            self.push(slots, id, segment);
        }
    }

    /// Notes a use. Allocates nothing and drops nothing.
    pub fn touch<H>(&mut self, slots: &mut Slots<Entry<H>>, id: u32) {
        let segment = match slots[id].segment {
            Segment::Window => Segment::Window,
            Segment::Probation | Segment::Protected => Segment::Protected,
        };
        self.shift(slots, id, segment);
        self.demote(slots);
    }

    fn demote<H>(&mut self, slots: &mut Slots<Entry<H>>) {
        while self.lists[Segment::Protected as usize].bytes > self.protected_max {
            let Some(id) = self.last(Segment::Protected) else { return };
            self.shift(slots, id, Segment::Probation);
        }
    }

    /// Corrects the bytes of the list of an entry whose weight has changed.
    pub fn reweigh<H: Head>(&mut self, slots: &mut Slots<Entry<H>>, id: u32) {
        let entry = &mut slots[id];
        let list = &mut self.lists[entry.segment as usize];
        let weight = entry.weigh();
        list.bytes = list.bytes - entry.weight + weight;
        entry.weight = weight;
    }

    /// Next entry to evict for others.
    fn victim(&self) -> Option<u32> {
        self.last(Segment::Probation).or(self.last(Segment::Protected))
    }
}

impl<H: Head> Shard<H> {
    /// Evicts until all lists are within their limits.
    pub(super) fn settle(&mut self, now: u64) {
        loop {
            self.lists.demote(&mut self.slots);
            let is_window_full = self.lists.lists[Segment::Window as usize].bytes > self.lists.window_max;
            if let Some(candidate) = self.lists.last(Segment::Window).filter(|_| is_window_full) {
                if self.admits(candidate) {
                    let weight = self.slots[candidate].weight;
                    while self.lists.main_bytes() + weight > self.lists.main_max {
                        let Some(victim) = self.lists.victim() else { break };
                        self.evict(victim, now);
                    }
                    // Uses in the window count: an entry that was used there is not among the next victims.
                    let is_used = self.slots[candidate].hits > 0;
                    let segment = if is_used { Segment::Protected } else { Segment::Probation };
                    self.lists.shift(&mut self.slots, candidate, segment);
                } else {
                    // The next candidate meets another victim; otherwise a single popular entry would keep all others
                    // out.
                    if let Some(victim) = self.lists.victim() {
                        let segment = self.slots[victim].segment;
                        self.lists.shift(&mut self.slots, victim, segment);
                    }
                    self.evict(candidate, now);
                }
            } else if self.lists.main_bytes() > self.lists.main_max {
                let Some(victim) = self.lists.victim() else { return };
                self.evict(victim, now);
            } else {
                return;
            }
        }
    }

    /// True if an entry of the window was used more often than all those together that would go for it.
    fn admits(&self, candidate: u32) -> bool {
        let weight = self.slots[candidate].weight;
        let mut excess = (self.lists.main_bytes() + weight).saturating_sub(self.lists.main_max);
        let uses = self.sketch.count(self.slots[candidate].hashes.key);
        let mut others = 0;
        let mut segment = Segment::Probation;
        let mut at = self.lists.last(segment);
        while excess > 0 {
            let Some(victim) = at else {
                if segment == Segment::Protected || weight > self.lists.main_max {
                    return false;
                }
                segment = Segment::Protected;
                at = self.lists.last(segment);
                continue;
            };
            let entry = &self.slots[victim];
            others += self.sketch.count(entry.hashes.key);
            if uses <= others {
                return false;
            }
            excess = excess.saturating_sub(entry.weight);
            at = Some(entry.prev).filter(|id| *id != NONE);
        }
        true
    }

    fn evict(&mut self, id: u32, now: u64) {
        let entry = &self.slots[id];
        self.counts.evicted(entry.weight, now.saturating_sub(entry.stored));
        if self.limits.passes_on {
            self.evicted.extend(Item::of(entry));
        }
        self.remove(id);
    }
}
