//! Reusable numbered slots for values that come and go often, so that a value costs no allocation.
//!
//! [`Slab`] is for values that are put in and taken out. In a [`SlotTable`] a vacant slot keeps its value for the next
//! occupant, so expensive values are built once per slot. Its [`Key`]s distinguish the successive occupants of
//! a slot, for references that may outlive them. [`SlotNumbers`] only tracks which slots are vacant, for a caller that
//! keeps the values itself.

/// An allocator of slot numbers. The slot that was vacated last is taken first, as it is the likeliest to be in the
/// processor's cache.
#[derive(Clone, Debug, Default)]
pub struct SlotNumbers {
    /// Slots in existence, vacant or not.
    count: u32,
    vacant: Vec<u32>,
}

impl SlotNumbers {
    /// Returns an allocator without any slot.
    pub const fn new() -> SlotNumbers {
        SlotNumbers { count: 0, vacant: Vec::new() }
    }

    /// Takes a vacant slot, or else a new slot. New slots are numbered from 0.
    ///
    /// # Panics
    /// If 2^32 - 1 slots are taken.
    #[inline]
    pub fn occupy(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| self.add())
    }

    fn add(&mut self) -> u32 {
        let slot = self.count;
        self.count = slot.checked_add(1).expect("fewer than 2^32 slots are in use at once");
        slot
    }

    /// Gives back a slot. To be called exactly once for each time it was taken.
    #[inline]
    pub fn vacate(&mut self, slot: u32) {
        debug_assert!(slot < self.count, "a slot that was never taken");
        self.vacant.push(slot);
    }

    /// Returns the vacant slots, in no particular order.
    pub fn vacant(&self) -> &[u32] {
        &self.vacant
    }
}

/// Identifies an occupant of a slot of a [`SlotTable`], by the slot and the number of occupants before it. The key of
/// an occupant that has left finds nothing, until its slot has been reused another 2^32 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    slot: u32,
    generation: u32,
}

impl Key {
    /// A key that finds nothing in any table.
    pub const NONE: Key = Key { slot: u32::MAX, generation: u32::MAX };

    /// Returns the number of the slot.
    #[inline]
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// Returns the key as a number, for the data of an `epoll_event` or of a waker. [`Key::NONE`] is `u64::MAX`.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// Returns the key from which [`to_bits`](Self::to_bits) made this number. A key made from any other number is safe
    /// to look up, but may find any occupant.
    #[inline]
    pub fn from_bits(bits: u64) -> Key {
        Key { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A table of slots that keep their values while they are vacant.
#[derive(Clone, Debug)]
pub struct SlotTable<T> {
    entries: Vec<Entry<T>>,
    numbers: SlotNumbers,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    /// Number of occupants that have left; wraps.
    generation: u32,
    value: T,
}

impl<T> Default for SlotTable<T> {
    fn default() -> SlotTable<T> {
        SlotTable::new()
    }
}

impl<T> SlotTable<T> {
    /// Returns a table without slots, which has allocated no memory.
    pub const fn new() -> SlotTable<T> {
        SlotTable { entries: Vec::new(), numbers: SlotNumbers::new() }
    }

    /// Takes a slot. Returns the key of its new occupant, and the value that the last occupant left there, or the
    /// default.
    ///
    /// # Panics
    /// If 2^32 - 1 slots are taken.
    #[inline]
    pub fn occupy(&mut self) -> (Key, &mut T)
    where
        T: Default,
    {
        let slot = self.numbers.vacant.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: T::default() });
            self.numbers.add()
        });
        let entry = &mut self.entries[slot as usize];
        (Key { slot, generation: entry.generation }, &mut entry.value)
    }

    /// Gives back a slot: from now on the key of its occupant finds nothing. Only the occupant may do so, and only
    /// once.
    #[inline]
    pub fn vacate(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.numbers.vacate(slot);
    }

    /// Returns the value of an occupant; `None` if it has left.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        (entry.generation == key.generation).then_some(&mut entry.value)
    }

    /// Returns the value in a slot without comparing generations. For the occupant only: as it gives the slot back
    /// itself, it cannot find another occupant there.
    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> &mut T {
        &mut self.entries[slot as usize].value
    }

    /// Returns the key of the occupant of a slot.
    #[inline]
    pub fn key(&self, slot: u32) -> Key {
        Key { slot, generation: self.entries[slot as usize].generation }
    }

    /// Returns all slots with their values, vacant slots included.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().enumerate().map(|(slot, entry)| (slot as u32, &mut entry.value))
    }
}

/// Values found by the number of their slot, for the sole owner of each value, which takes it out itself. Memory stays
/// at the size of the most values held at once.
#[derive(Clone, Debug)]
pub struct Slab<T>(SlotTable<Option<T>>);

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Slab<T> {
    /// Returns an empty slab, which has allocated no memory.
    pub const fn new() -> Slab<T> {
        Slab(SlotTable::new())
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.entries.len() - self.0.numbers.vacant.len()
    }

    /// True if the slab holds no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a value in, and returns its slot.
    ///
    /// # Panics
    /// If the slab holds 2^32 - 1 values.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        let (key, vacant) = self.0.occupy();
        *vacant = Some(value);
        key.slot
    }

    /// Returns the value in a slot; `None` if the slot is vacant.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.0.entries.get(slot as usize)?.value.as_ref()
    }

    /// Mutable variant of [`get`](Self::get).
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.0.entries.get_mut(slot as usize)?.value.as_mut()
    }

    /// Takes the value out of a slot; `None` if the slot is vacant.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let value = self.0.entries.get_mut(slot as usize)?.value.take()?;
        self.0.vacate(slot);
        Some(value)
    }

    /// Returns all values, in the order of their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    #[test]
    fn a_slab_does_what_a_list_would() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (mut slab, mut model) = (Slab::new(), Vec::new());
            for value in 0..500u64 {
                match rng.below(5) {
                    0 | 1 => model.push((slab.insert(value), value)),
                    2 | 3 if !model.is_empty() => {
                        let (slot, value) = model.swap_remove(rng.below(model.len() as u32) as usize);
                        assert_eq!((slab.remove(slot), slab.remove(slot)), (Some(value), None), "seed {seed}");
                        assert!(slab.get(slot).is_none() && slab.get_mut(slot).is_none(), "seed {seed}");
                    }
                    _ => {
                        slab.iter_mut().for_each(|value| *value += 1);
                        model.iter_mut().for_each(|(_, value)| *value += 1);
                    }
                }
                assert_eq!((slab.len(), slab.is_empty()), (model.len(), model.is_empty()), "seed {seed}");
                assert!(model.iter().all(|(slot, value)| slab.get(*slot) == Some(value)), "seed {seed}");
            }
            model.sort_unstable();
            assert!(slab.iter_mut().map(|value| *value).eq(model.into_iter().map(|(_, value)| value)), "seed {seed}");
            assert!(slab.get(u32::MAX).is_none() && slab.remove(u32::MAX).is_none());
        }
    }

    /// The model holds the keys of the occupants and, by slot, the value that its last occupant left.
    #[test]
    fn a_key_finds_its_occupant_only_and_a_slot_keeps_its_value_for_the_next() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (mut table, mut model, mut gone) = (SlotTable::new(), Vec::<Key>::new(), vec![Key::NONE]);
            let mut left: Vec<u64> = Vec::new();
            for value in 1..500 {
                if rng.below(5) < 3 || model.is_empty() {
                    let (key, kept) = table.occupy();
                    left.resize(left.len().max(key.slot() as usize + 1), 0);
                    assert_eq!(*kept, left[key.slot() as usize], "seed {seed}");
                    assert!(model.iter().all(|other| other.slot() != key.slot()), "seed {seed}");
                    *kept = value;
                    left[key.slot() as usize] = value;
                    assert_eq!((table.key(key.slot()), Key::from_bits(key.to_bits())), (key, key), "seed {seed}");
                    model.push(key);
                } else {
                    let key = model.swap_remove(rng.below(model.len() as u32) as usize);
                    table.vacate(key.slot());
                    gone.push(key);
                }
                let value = |key: &Key| left[key.slot() as usize];
                assert!(model.iter().all(|key| table.get_mut(*key).copied() == Some(value(key))), "seed {seed}");
                assert!(model.iter().all(|key| *table.at_mut(key.slot()) == value(key)), "seed {seed}");
                assert!(gone.iter().all(|key| table.get_mut(*key).is_none()), "seed {seed}");
            }
            assert!(table.iter_mut().map(|(slot, value)| (slot, *value)).eq((0..).zip(left)), "seed {seed}");
        }
        assert_eq!(Key::NONE.to_bits(), u64::MAX);
    }

    #[test]
    fn the_slot_vacated_last_is_taken_first() {
        let mut slots = SlotNumbers::new();
        assert_eq!([slots.occupy(), slots.occupy(), slots.occupy()], [0, 1, 2]);
        slots.vacate(0);
        slots.vacate(2);
        assert_eq!(slots.vacant(), [0, 2]);
        assert_eq!([slots.occupy(), slots.occupy(), slots.occupy()], [2, 0, 3]);
    }
}
