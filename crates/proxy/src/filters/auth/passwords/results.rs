//! Results of verifications, in a constant amount of memory. Workers read them without a lock. Only the threads that
//! verify write, and only a single thread at a time.
//!
//! A key is 192 bits of a keyed hash, so that keys that collide cannot be made: a part chooses a set, the rest is
//! compared as a whole and in constant time.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Places of a set: its 32-byte places are two cache lines.
const WAYS: usize = 4;

/// Keyed hash of a stored hash, a name and a password.
pub type ResultKey = [u64; 3];

#[derive(Debug, Default)]
struct Place {
    /// Odd while the place is written.
    version: AtomicU64,
    mark: [AtomicU64; 2],
    /// End of the result in nanoseconds; 0 if the place is free.
    ends: AtomicU64,
}

/// Keys with the same result, each until its end.
#[derive(Debug)]
pub struct Results(Box<[[Place; WAYS]]>);

impl Results {
    /// Creates a table of at least `size` places.
    pub fn new(size: usize) -> Results {
        let sets = size.div_ceil(WAYS).next_power_of_two();
        Results((0..sets).map(|_| Default::default()).collect())
    }

    fn set(&self, key: ResultKey) -> &[Place; WAYS] {
        &self.0[key[0] as usize & (self.0.len() - 1)]
    }

    /// True if the key is there and has not ended. A key that is being written may be missed.
    pub fn has(&self, key: ResultKey, now_ns: u64) -> bool {
        self.set(key).iter().fold(false, |has, place| has | place.is(key, now_ns))
    }

    /// Adds a key in place of the key that ends first. Calls must not overlap.
    pub fn add(&self, key: ResultKey, ends_ns: u64) {
        let set = self.set(key);
        let place = set.iter().find(|place| place.is(key, 0)).unwrap_or_else(|| {
            let mut places = set.iter();
            let first = places.next().unwrap_or(&set[0]);
            let end = |place: &Place| place.ends.load(Ordering::Relaxed);
            places.fold(first, |least, place| if end(place) < end(least) { place } else { least })
        });
        let version = place.version.load(Ordering::Relaxed);
        place.version.store(version + 1, Ordering::Relaxed);
        // Readers that see a part of the following see the odd version too.
        fence(Ordering::Release);
        place.mark[0].store(key[1], Ordering::Relaxed);
        place.mark[1].store(key[2], Ordering::Relaxed);
        place.ends.store(ends_ns, Ordering::Relaxed);
        place.version.store(version + 2, Ordering::Release);
    }
}

impl Place {
    fn is(&self, key: ResultKey, now_ns: u64) -> bool {
        let version = self.version.load(Ordering::Acquire);
        let [first, second] = self.mark.each_ref().map(|half| half.load(Ordering::Relaxed));
        let ends = self.ends.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        let differs = (first ^ key[1]) | (second ^ key[2]);
        (differs == 0) & (ends > now_ns) & is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_and_others_take_their_places_oldest_first() {
        let results = Results::new(4);
        for n in 1..=5 {
            results.add([0, n, n], 100 + n);
            assert!(
                results.has([0, n, n], 100) && !results.has([0, n, n + 1], 100) && !results.has([0, n, n], 100 + n)
            );
        }
        let left: Vec<u64> = (1..=5).filter(|&n| results.has([0, n, n], 0)).collect();
        assert_eq!(left, [2, 3, 4, 5]);
        results.add([0, 2, 2], 200);
        assert!(results.has([0, 3, 3], 0) && results.has([0, 2, 2], 199));
        assert!(!results.has([0, 0, 0], 0), "a free place is no key");
    }
}
