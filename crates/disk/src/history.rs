//! History of a shard: keys that left the memory lately, on disk or not. Its length follows the number of responses on
//! disk, so that a disk that is much larger than the memory remembers for much longer, too.
//!
//! Two Bloom filters, of which the older is dropped when the younger is full. A key is remembered for as many other keys
//! as a filter holds, or for twice as many.

/// Keys that a filter holds, at least.
const KEYS_MIN: usize = 256;

/// Bits for each key: with three hashes, 2 of 100 keys are taken for known.
const BITS: usize = 8;

/// Keys that left the memory lately.
#[derive(Debug, Default)]
pub struct History {
    young: Filter,
    old: Filter,
}

#[derive(Debug, Default)]
struct Filter {
    /// A power of two of them; empty until the first key.
    words: Box<[u64]>,
    keys: usize,
    keys_max: usize,
}

impl History {
    /// Notes a key by its hash. Returns true if it was noted lately. `entries`: responses of the shard on disk.
    pub fn note(&mut self, hash: u64, entries: usize) -> bool {
        if self.young.keys >= self.young.keys_max {
            self.old = std::mem::replace(&mut self.young, Filter::new(entries.max(KEYS_MIN)));
        }
        // Both are asked, and the younger notes the key, as its time begins anew.
        let (is_old, is_young) = (self.old.has(hash), self.young.add(hash));
        is_old || is_young
    }
}

impl Filter {
    fn new(keys_max: usize) -> Filter {
        let words = (keys_max * BITS / 64).next_power_of_two();
        Filter { words: vec![0; words].into_boxed_slice(), keys: 0, keys_max }
    }

    /// Word and bits of a key: all in the same word, so that a key costs a single cache line.
    fn place(&self, hash: u64) -> Option<(usize, u64)> {
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bits = [58, 52, 46].into_iter().fold(0, |bits, shift| bits | 1 << ((mixed >> shift) & 63));
        let last = self.words.len().checked_sub(1)?;
        Some((mixed as usize & last, bits))
    }

    fn has(&self, hash: u64) -> bool {
        self.place(hash).is_some_and(|(word, bits)| self.words[word] & bits == bits)
    }

    /// Adds a key. Returns true if it was there.
    fn add(&mut self, hash: u64) -> bool {
        let Some((word, bits)) = self.place(hash) else { return false };
        let was_there = self.words[word] & bits == bits;
        self.words[word] |= bits;
        self.keys += usize::from(!was_there);
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> u64 {
        i.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ (i << 17)
    }

    #[test]
    fn a_key_is_known_for_as_long_as_the_disk_is_large() {
        for entries in [0, 4000] {
            let mut history = History::default();
            let count = entries.max(KEYS_MIN) as u64;
            let fresh = (0..count).filter(|key| history.note(hash(*key), entries)).count();
            assert!(fresh <= count as usize / 20, "{fresh} of {count} were taken for known");
            assert!((0..count).all(|key| history.note(hash(key), entries)), "{entries}");
            // Three filters later they are forgotten.
            (count..4 * count).for_each(|key| _ = history.note(hash(key), entries));
            let known = (0..count / 4).filter(|key| history.note(hash(*key), entries)).count();
            assert!(known <= count as usize / 20, "{known} are still known");
        }
    }
}
