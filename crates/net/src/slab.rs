//! Where are the tasks, sockets and timers of a thread? In the slots of a table, each named by its number, and by a
//! generation where the name may outlive what it names.
//!
//! A slot that falls vacant keeps its value, and the next occupant gets it: what is expensive to make is made once a slot.

/// Names one occupant of a [`Slab`]: later occupants of the same slot have other keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The number of its slot.
    pub index: u32,
    generation: u32,
}

impl Key {
    /// Names no slot of any table.
    pub const OUTSIDE: Key = Key { index: u32::MAX, generation: u32::MAX };

    /// The key that a number stands for, as made by `u64::from`.
    #[inline]
    pub fn from_bits(bits: u64) -> Key {
        Key { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl From<Key> for u64 {
    #[inline]
    fn from(key: Key) -> u64 {
        u64::from(key.generation) << 32 | u64::from(key.index)
    }
}

/// A table of slots.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Counts the occupants that are gone.
    generation: u32,
    value: T,
}

impl<T> Slab<T> {
    /// A table without slots.
    pub const fn new() -> Slab<T> {
        Slab { slots: Vec::new(), vacant: Vec::new() }
    }

    /// Takes a slot: the key of the occupant, and the value that the last one has left, or the default.
    #[inline]
    pub fn occupy(&mut self) -> (Key, &mut T)
    where
        T: Default,
    {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: T::default() });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        (Key { index, generation: slot.generation }, &mut slot.value)
    }

    /// Gives a slot back. From now on its key names nothing.
    #[inline]
    pub fn vacate(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant.push(index);
    }

    /// The value of an occupant, unless it is gone.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation).then_some(&mut slot.value)
    }

    /// The value of the slot with this number, for the one who has the slot.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index as usize].value
    }

    /// The key of the occupant of the slot with this number, for the one who has the slot.
    pub fn key(&self, index: u32) -> Key {
        Key { index, generation: self.slots[index as usize].generation }
    }

    /// All slots, also those that are vacant.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.slots.iter_mut().enumerate().map(|(index, slot)| (index as u32, &mut slot.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_occupant_and_the_value_stays_for_the_next() {
        let mut slab = Slab::<u8>::new();
        let (first, value) = slab.occupy();
        *value = 7;
        let (second, _) = slab.occupy();
        assert_eq!((slab.get_mut(first).copied(), slab.get_mut(second).copied()), (Some(7), Some(0)));
        slab.vacate(first.index);
        assert_eq!(slab.get_mut(first), None);
        let (third, left) = slab.occupy();
        assert_eq!((third.index, *left), (first.index, 7));
        assert_ne!(third, first);
        assert_eq!((slab.key(third.index), Key::from_bits(third.into())), (third, third));
        assert_eq!(slab.get_mut(Key::OUTSIDE), None);
    }
}
