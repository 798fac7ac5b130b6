//! Where are values kept that come and go often? In numbered places that are used again, so a value costs no allocation.
//!
//! [`Slab`] keeps the values, and finds one by a [`Key`] that tells it from the next value in the same place. [`Places`]
//! only knows which places are free: for a caller that keeps the values itself, or keeps a place's memory from one value to
//! the next.

/// The numbers of the places that are free. The one that was freed last is taken first, as it is the likeliest to be in
/// the processor's cache.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// How many there are, free or not.
    count: u32,
    free: Vec<u32>,
}

impl Places {
    /// Returns an allocator without any place.
    pub const fn new() -> Places {
        Places { count: 0, free: Vec::new() }
    }

    /// Takes a free place, or else a new one, whose number is what [`count`](Self::count) returned before.
    ///
    /// # Panics
    /// When 2^32 - 1 are taken.
    #[inline]
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let place = self.count;
            self.count = place.checked_add(1).expect("fewer than 2^32 places are in use at once");
            place
        })
    }

    /// Frees a place that was taken. Each place must be freed once only.
    #[inline]
    pub fn free(&mut self, place: u32) {
        debug_assert!(place < self.count, "a place that was never taken");
        self.free.push(place);
    }

    /// Returns the number of places, free or taken.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the places that are free, in no order.
    pub fn all_free(&self) -> &[u32] {
        &self.free
    }
}

/// The key of one value of a [`Slab`]: its place, and the number of values that had the place before it. The key of a value
/// that was taken out finds nothing, until its place was used another 2^32 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    place: u32,
    generation: u32,
}

impl Key {
    /// The key that finds nothing in any slab.
    pub const NONE: Key = Key { place: u32::MAX, generation: u32::MAX };

    /// Returns the number of the place.
    #[inline]
    pub fn place(self) -> u32 {
        self.place
    }

    /// Returns the key as one number, for the data of an `epoll_event` or of a waker. [`Key::NONE`] is `u64::MAX`.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    /// Returns the key that [`to_bits`](Self::to_bits) made this number of. A key of any other number is safe to look for,
    /// and may find any value.
    #[inline]
    pub fn from_bits(bits: u64) -> Key {
        Key { place: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Values in places that are used again. The memory stays as large as the most values at once needed.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    places: Places,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    /// The number of values that were taken out of this place; wraps.
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Slab<T> {
    /// Returns an empty slab, which has no memory yet.
    pub const fn new() -> Slab<T> {
        Slab { entries: Vec::new(), places: Places::new() }
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len() - self.places.free.len()
    }

    /// Returns whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a value in, and returns its key.
    ///
    /// # Panics
    /// When 2^32 - 1 values are in.
    #[inline]
    pub fn insert(&mut self, value: T) -> Key {
        let place = self.places.take();
        match self.entries.get_mut(place as usize) {
            Some(entry) => {
                entry.value = Some(value);
                Key { place, generation: entry.generation }
            }
            None => {
                self.entries.push(Entry { generation: 0, value: Some(value) });
                Key { place, generation: 0 }
            }
        }
    }

    /// Returns the value of a key, if it is still in.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entries.get(key.place as usize)?;
        entry.value.as_ref().filter(|_| entry.generation == key.generation)
    }

    /// As [`get`](Self::get), to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.place as usize)?;
        let generation = entry.generation;
        entry.value.as_mut().filter(|_| generation == key.generation)
    }

    /// Takes the value of a key out, if it is still in.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get(key.place as usize)?;
        if entry.generation == key.generation { self.remove_at(key.place) } else { None }
    }

    /// Returns the value in a place, if there is one, without a look at generations: for the only owner of a value, which
    /// takes it out itself and so cannot find another in its place.
    #[inline]
    pub fn at(&self, place: u32) -> Option<&T> {
        self.entries.get(place as usize)?.value.as_ref()
    }

    /// As [`at`](Self::at), to be changed.
    #[inline]
    pub fn at_mut(&mut self, place: u32) -> Option<&mut T> {
        self.entries.get_mut(place as usize)?.value.as_mut()
    }

    /// Takes the value in a place out, for the same owner as [`at`](Self::at).
    #[inline]
    pub fn remove_at(&mut self, place: u32) -> Option<T> {
        let entry = self.entries.get_mut(place as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.places.free(place);
        Some(value)
    }

    /// Returns all values with their keys, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let key = |place: usize, generation| Key { place: place as u32, generation };
        self.entries.iter().enumerate().filter_map(move |(i, e)| Some((key(i, e.generation), e.value.as_ref()?)))
    }

    /// As [`iter`](Self::iter), to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        let key = |place: usize, generation| Key { place: place as u32, generation };
        self.entries.iter_mut().enumerate().filter_map(move |(i, e)| Some((key(i, e.generation), e.value.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    #[test]
    fn does_what_a_list_would() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (mut slab, mut model, mut gone) = (Slab::new(), Vec::new(), Vec::new());
            for value in 0..500u64 {
                match rng.below(5) {
                    0 | 1 => model.push((slab.insert(value), value)),
                    2 | 3 if !model.is_empty() => {
                        let (key, value) = model.swap_remove(rng.below(model.len() as u32) as usize);
                        assert_eq!(slab.remove(key), Some(value), "seed {seed}");
                        gone.push(key);
                    }
                    _ => slab.iter_mut().for_each(|(key, value)| {
                        *value += 1;
                        model.iter_mut().filter(|(k, _)| *k == key).for_each(|(_, v)| *v += 1);
                    }),
                }
                assert_eq!((slab.len(), slab.is_empty()), (model.len(), model.is_empty()), "seed {seed}");
                assert!(model.iter().all(|(key, value)| slab.get(*key) == Some(value)), "seed {seed}");
                assert!(gone.iter().all(|&key| slab.get(key).is_none() && slab.get_mut(key).is_none()), "seed {seed}");
            }
            let mut all: Vec<_> = slab.iter().map(|(key, value)| (key, *value)).collect();
            all.sort_unstable();
            model.sort_unstable();
            assert_eq!(all, model, "seed {seed}");
        }
    }

    #[test]
    fn a_key_tells_a_value_from_the_next_in_its_place() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!((first.place(), second.place()), (0, 0));
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!((slab.at(0), slab.get(second)), (Some(&'b'), Some(&'b')));
        assert_eq!(slab.remove_at(0), Some('b'));
        assert_eq!(slab.remove_at(0), None);
        assert!(slab.at_mut(0).is_none() && slab.at_mut(9).is_none());
    }

    #[test]
    fn keys_survive_as_numbers_and_none_finds_nothing() {
        let mut slab = Slab::new();
        slab.insert('a');
        let key = slab.insert('b');
        assert_eq!(slab.get(Key::from_bits(key.to_bits())), Some(&'b'));
        assert_eq!((Key::NONE.to_bits(), slab.get(Key::NONE)), (u64::MAX, None));
    }

    #[test]
    fn the_place_freed_last_is_taken_first() {
        let mut places = Places::new();
        assert_eq!([places.take(), places.take(), places.take()], [0, 1, 2]);
        places.free(0);
        places.free(2);
        assert_eq!(places.all_free(), [0, 2]);
        assert_eq!([places.take(), places.take(), places.take()], [2, 0, 3]);
        assert_eq!(places.count(), 4);
    }
}
