//! Where are values kept that come and go often? In numbered slots that are used again, so a value costs no allocation.
//!
//! [`Slab`] is for values that are put in and taken out. In a [`SlotTable`] a slot that falls vacant keeps its value for the
//! next occupant: what is expensive to make is made once a slot. Its [`Key`]s tell the occupants of a slot apart, for names
//! that may outlive what they name. [`SlotNumbers`] only knows which slots are vacant, for a caller that keeps the values
//! itself.

/// The numbers of slots, and which of them are vacant. The slot that was vacated last is taken first, as it is the likeliest
/// to be in the processor's cache.
#[derive(Clone, Debug, Default)]
pub struct SlotNumbers {
    /// How many there are, vacant or not.
    count: u32,
    vacant: Vec<u32>,
}

impl SlotNumbers {
    /// Returns an allocator without any slot.
    pub const fn new() -> SlotNumbers {
        SlotNumbers { count: 0, vacant: Vec::new() }
    }

    /// Takes a vacant slot, or else a new one: the first is 0, each after it one more.
    ///
    /// # Panics
    /// When 2^32 - 1 are taken.
    #[inline]
    pub fn occupy(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| self.add())
    }

    fn add(&mut self) -> u32 {
        let slot = self.count;
        self.count = slot.checked_add(1).expect("fewer than 2^32 slots are in use at once");
        slot
    }

    /// Gives a slot back that was taken. To be called once for each time that it is taken.
    #[inline]
    pub fn vacate(&mut self, slot: u32) {
        debug_assert!(slot < self.count, "a slot that was never taken");
        self.vacant.push(slot);
    }

    /// Returns the slots that are vacant, in no order.
    pub fn vacant(&self) -> &[u32] {
        &self.vacant
    }
}

/// Names one occupant of a slot of a [`SlotTable`]: the slot, and how many had it before. The key of an occupant that is
/// gone finds nothing, until its slot was used another 2^32 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    slot: u32,
    generation: u32,
}

impl Key {
    /// The key that finds nothing in any table.
    pub const NONE: Key = Key { slot: u32::MAX, generation: u32::MAX };

    /// Returns the number of the slot.
    #[inline]
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// Returns the key as one number, for the data of an `epoll_event` or of a waker. [`Key::NONE`] is `u64::MAX`.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// Returns the key that [`to_bits`](Self::to_bits) made this number of. A key of any other number is safe to look for,
    /// and may find any occupant.
    #[inline]
    pub fn from_bits(bits: u64) -> Key {
        Key { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Slots that keep their values when they fall vacant.
#[derive(Clone, Debug)]
pub struct SlotTable<T> {
    entries: Vec<Entry<T>>,
    numbers: SlotNumbers,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    /// The number of occupants that are gone; wraps.
    generation: u32,
    value: T,
}

impl<T> Default for SlotTable<T> {
    fn default() -> SlotTable<T> {
        SlotTable::new()
    }
}

impl<T> SlotTable<T> {
    /// Returns a table without slots, which has no memory yet.
    pub const fn new() -> SlotTable<T> {
        SlotTable { entries: Vec::new(), numbers: SlotNumbers::new() }
    }

    /// Takes a slot. Returns the key of its new occupant, and the value that the last one has left, or the default.
    ///
    /// # Panics
    /// When 2^32 - 1 are taken.
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

    /// Gives a slot back. From now on the key of its occupant finds nothing. Only its occupant may do so, and once.
    #[inline]
    pub fn vacate(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.numbers.vacate(slot);
    }

    /// Returns the value of an occupant, unless it is gone.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        (entry.generation == key.generation).then_some(&mut entry.value)
    }

    /// Returns the value in a slot, without a look at generations: for the occupant, which gives the slot back itself and so
    /// cannot find another there.
    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> &mut T {
        &mut self.entries[slot as usize].value
    }

    /// Returns the key of the occupant of a slot.
    #[inline]
    pub fn key(&self, slot: u32) -> Key {
        Key { slot, generation: self.entries[slot as usize].generation }
    }

    /// Returns all slots with their values, also those that are vacant.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().enumerate().map(|(slot, entry)| (slot as u32, &mut entry.value))
    }
}

/// Values in slots that are used again, found by the number of their slot: for the only owner of a value, which takes it out
/// itself. The memory stays as large as the most values at once needed.
#[derive(Clone, Debug)]
pub struct Slab<T>(SlotTable<Option<T>>);

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Slab<T> {
    /// Returns an empty slab, which has no memory yet.
    pub const fn new() -> Slab<T> {
        Slab(SlotTable::new())
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.entries.len() - self.0.numbers.vacant.len()
    }

    /// Returns whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a value in, and returns its slot.
    ///
    /// # Panics
    /// When 2^32 - 1 values are in.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        let (key, vacant) = self.0.occupy();
        *vacant = Some(value);
        key.slot
    }

    /// Returns the value in a slot, if there is one.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.0.entries.get(slot as usize)?.value.as_ref()
    }

    /// As [`get`](Self::get), to be changed.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.0.entries.get_mut(slot as usize)?.value.as_mut()
    }

    /// Takes the value in a slot out, if there is one.
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

    /// In the model, the keys of the occupants, and by slot what its last occupant has left.
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
