//! Endpoints in order of load, in classes of similar weight, so that an algorithm compares only the first of each
//! class.
//!
//! With up to [`CLASSES_MAX`] different weights, each is a separate class, kept in lists with O(1) for any change.
//! With more, as when many endpoints ramp up, a class holds weights within a factor of two, kept in heaps with O(log
//! n).

use crate::endpoints::set::EndpointSet;
use crate::structures::buckets::Buckets;
use crate::structures::heap::IndexedHeap;

/// Most classes with lists. Comparing the first of 8 classes takes about as long as a move in a heap of 10,000.
const CLASSES_MAX: usize = 8;

/// Bits of a heap key for virtual time, in 1 / 2^32 of a round of turns: 2^16 rounds fit below the load level.
const TURN_BITS: u32 = 48;
const LEVEL_MAX: u64 = (1 << (64 - TURN_BITS)) - 1;

/// Endpoints, by slot number, in order of load within their class.
pub(crate) struct LoadOrder {
    classes: Classes,
    /// Lightest weight of each class, in descending order.
    lightest: Vec<u32>,
    /// Origin of virtual time in heap keys.
    epoch: u64,
}

enum Classes {
    Exact(Buckets),
    Near(Vec<IndexedHeap<u64>>),
}

/// Inputs of an endpoint's place in its class.
pub(crate) struct Standing {
    /// Requests in flight at the endpoint.
    pub(crate) load: u32,
    pub(crate) weight: u32,
    /// Time of its latest pick, as any number that grows.
    pub(crate) latest: u64,
    /// Virtual time of its next turn, and the virtual time between two turns.
    pub(crate) turn: (u64, u64),
}

impl Default for LoadOrder {
    fn default() -> LoadOrder {
        LoadOrder { classes: Classes::Exact(Buckets::default()), lightest: Vec::new(), epoch: 0 }
    }
}

impl LoadOrder {
    /// Returns an empty order with classes for the weights of this set.
    pub(crate) fn new(set: &EndpointSet, clock: u64) -> LoadOrder {
        let mut weights: Vec<u32> = set.members().iter().map(|m| m.weight).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        weights.dedup();
        let exact = weights.len() <= CLASSES_MAX;
        if !exact {
            // Sorted from the heaviest, so the last of each octave is the lightest.
            weights.dedup_by(|lighter, kept| {
                let same = lighter.ilog2() == kept.ilog2();
                *kept = if same { *lighter } else { *kept };
                same
            });
        }
        let classes = if exact {
            let mut buckets = Buckets::default();
            buckets.clear(set.slots(), weights.len());
            Classes::Exact(buckets)
        } else {
            let mut heap = IndexedHeap::default();
            heap.clear(set.slots());
            Classes::Near(vec![heap; weights.len()])
        };
        let mut order = LoadOrder { classes, lightest: weights, epoch: 0 };
        order.begin_epoch(clock);
        order
    }

    /// Number of classes, which are numbered from the heaviest.
    #[inline]
    pub(crate) fn classes(&self) -> u32 {
        self.lightest.len() as u32
    }

    /// Class of a weight of the set.
    pub(crate) fn class(&self, weight: u32) -> u32 {
        self.lightest.partition_point(|&w| w > weight) as u32
    }

    /// True if virtual time has run so far that [`begin_epoch`](Self::begin_epoch) is due. All endpoints have to be
    /// placed again then.
    #[inline]
    pub(crate) fn is_past(&self, clock: u64) -> bool {
        clock.wrapping_sub(self.epoch) >> (TURN_BITS - 1) != 0
    }

    /// Counts virtual time from 256 rounds ago. An endpoint without a turn for longer is placed as early as possible.
    pub(crate) fn begin_epoch(&mut self, clock: u64) {
        self.epoch = clock.wrapping_sub(256 << 32);
    }

    /// Inserts an endpoint, or moves it to its new place.
    #[inline]
    pub(crate) fn put(&mut self, slot: u32, class: u32, at: &Standing) {
        match &mut self.classes {
            Classes::Exact(buckets) => buckets.put(slot, class, at.load, at.latest),
            Classes::Near(heaps) => {
                let place = place(at, self.lightest[class as usize], self.epoch);
                heaps[class as usize].put(slot, place);
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: u32, class: u32) {
        match &mut self.classes {
            Classes::Exact(buckets) => buckets.remove(slot),
            Classes::Near(heaps) => heaps[class as usize].remove(slot),
        }
    }

    pub(crate) fn has(&self, slot: u32, class: u32) -> bool {
        match &self.classes {
            Classes::Exact(buckets) => buckets.has(slot),
            Classes::Near(heaps) => heaps.get(class as usize).is_some_and(|h| h.key(slot).is_some()),
        }
    }

    /// First endpoint of a class; `None` if the class is empty.
    #[inline]
    pub(crate) fn first(&mut self, class: u32) -> Option<u32> {
        match &mut self.classes {
            Classes::Exact(buckets) => buckets.first(class).map(|(_, slot)| slot),
            Classes::Near(heaps) => heaps[class as usize].first(),
        }
    }

    /// First endpoint of a class that `admits` accepts.
    pub(crate) fn first_where(&mut self, class: u32, admits: impl FnMut(u32) -> bool) -> Option<u32> {
        match &mut self.classes {
            Classes::Exact(buckets) => buckets.first_where(class, admits).map(|(_, slot)| slot),
            Classes::Near(heaps) => heaps[class as usize].first_where(admits),
        }
    }
}

/// Heap key: the load in whole requests of the lightest endpoint of the class, and for equal loads the turn, where each
/// request in flight sets an endpoint back by 1. Weights of a class differ by less than a factor of two, so no
/// endpoint gets ahead of another of its class by more than two requests, and turns keep the shares exact.
fn place(at: &Standing, lightest: u32, epoch: u64) -> u64 {
    let level = u64::from(at.load) * u64::from(lightest) / u64::from(at.weight);
    let (due, stride) = at.turn;
    let turn = due.wrapping_sub(epoch).wrapping_add(u64::from(at.load).wrapping_mul(stride)) as i64;
    (level.min(LEVEL_MAX) << TURN_BITS) | (turn.max(0) as u64).min((1 << TURN_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::endpoint::EndpointSpec;
    use crate::endpoints::set::Slot;

    fn order(weights: impl Iterator<Item = u32>) -> LoadOrder {
        let spec = |(i, w): (u32, u32)| (Slot(i), EndpointSpec::new(&i.to_string()).weight(w));
        LoadOrder::new(&EndpointSet::new(&(0..).zip(weights).map(spec).collect::<Vec<_>>()), 0)
    }

    #[test]
    fn few_weights_have_a_class_each_and_many_share_one_by_octave() {
        let few = order([5, 1, 3, 5].into_iter());
        assert_eq!((few.classes(), [5, 3, 1].map(|w| few.class(w))), (3, [0, 1, 2]));
        let many = order(3..=40);
        assert_eq!(many.lightest, [32, 16, 8, 4, 3]);
        assert_eq!([40, 32, 31, 16, 7, 4, 3].map(|w| many.class(w)), [0, 0, 1, 1, 3, 3, 4]);
    }
}
