//! The endpoints that a pick must leave out. Those that a request has tried are a short list. Those that an answer
//! already contains are marks by slot, as a search through a list for each endpoint would cost the square of the
//! answer's length.

use crate::endpoints::set::Slot;

/// Endpoints that a pick leaves out.
#[derive(Clone, Copy, Debug)]
pub enum Tried<'a> {
    /// A list, for few endpoints.
    List(&'a [Slot]),
    /// Marks with a bit per slot, for any number of endpoints.
    Marked(&'a Marks),
}

impl Tried<'_> {
    /// The empty list: any endpoint may be picked.
    pub const NONE: Tried<'static> = Tried::List(&[]);

    /// True if this endpoint is left out.
    #[inline]
    pub fn contains(self, slot: Slot) -> bool {
        match self {
            Tried::List(list) => list.contains(&slot),
            Tried::Marked(marks) => marks.has(slot),
        }
    }

    /// True if no endpoint is left out.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self {
            Tried::List(list) => list.is_empty(),
            Tried::Marked(marks) => marks.count == 0,
        }
    }
}

/// A set of slots, with a bit each.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    words: Vec<u64>,
    count: usize,
}

impl Marks {
    /// True if the set contains this slot.
    #[inline]
    pub fn has(&self, slot: Slot) -> bool {
        self.words.get(slot.index() / 64).is_some_and(|word| word >> (slot.index() % 64) & 1 == 1)
    }

    pub(crate) fn put(&mut self, slot: Slot) {
        if self.words.len() <= slot.index() / 64 {
            self.words.resize(slot.index() / 64 + 1, 0);
        }
        self.count += usize::from(!self.has(slot));
        self.words[slot.index() / 64] |= 1 << (slot.index() % 64);
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        if self.has(slot) {
            self.count -= 1;
            self.words[slot.index() / 64] &= !(1 << (slot.index() % 64));
        }
    }
}

impl FromIterator<Slot> for Marks {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Marks {
        let mut marks = Marks::default();
        slots.into_iter().for_each(|slot| marks.put(slot));
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_the_slots_that_were_put_and_not_removed() {
        let mut marks: Marks = [3, 64, 3, 200].map(Slot).into_iter().collect();
        let has = |marks: &Marks| (0..300).filter(|&n| Tried::Marked(marks).contains(Slot(n))).collect::<Vec<_>>();
        assert_eq!((has(&marks), marks.count), (vec![3, 64, 200], 3));
        [64, 65, 9_999].map(Slot).into_iter().for_each(|slot| marks.remove(slot));
        assert_eq!(has(&marks), [3, 200]);
        [3, 200].map(Slot).into_iter().for_each(|slot| marks.remove(slot));
        assert!(Tried::Marked(&marks).is_empty() && Tried::NONE.is_empty());
    }
}
