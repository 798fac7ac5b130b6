//! Frequencies of keys, resident or not: a count-min sketch of 4-bit counters that are halved now and then.
//! Source: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy" (2017).

/// Largest count of a key: 4 bits.
pub(super) const COUNT_MAX: u32 = 15;

/// Counts of recent uses by hash. 8 to 16 bytes for each entry.
#[derive(Debug)]
pub(super) struct Sketch {
    /// 16 counters each. A power of two of them.
    words: Box<[u64]>,
    /// Uses counted since the last halving, plus half of the earlier count.
    counted: u64,
}

/// Fewest words, 1 KiB.
const WORDS_MIN: usize = 128;

/// Uses for each word after which all counts are halved.
const PERIOD: u64 = 10;

impl Sketch {
    pub fn new() -> Sketch {
        Sketch { words: vec![0; WORDS_MIN].into_boxed_slice(), counted: 0 }
    }

    /// Word and shift of the counter in a row, 0 to 3.
    fn at(&self, hash: u64, row: u32) -> (usize, u32) {
        // Odd multipliers make four hashes of a single hash; high bits mix best.
        const ROWS: [u64; 4] =
            [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F];
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(ROWS[row as usize]);
        // Each row has four counters of the word, so rows never share a counter.
        let counter = row * 4 + (mixed >> 62) as u32;
        (((mixed >> 28) as usize) & (self.words.len() - 1), counter * 4)
    }

    /// Estimated uses, at most [`COUNT_MAX`].
    pub fn count(&self, hash: u64) -> u32 {
        let in_row = |row| {
            let (word, shift) = self.at(hash, row);
            (self.words[word] >> shift) as u32 & COUNT_MAX
        };
        (0..4).map(in_row).min().unwrap_or_default()
    }

    /// Counts a use of a key, up to [`COUNT_MAX`].
    pub fn add(&mut self, hash: u64) {
        let mut is_added = false;
        for row in 0..4 {
            let (word, shift) = self.at(hash, row);
            if (self.words[word] >> shift) as u32 & COUNT_MAX < COUNT_MAX {
                self.words[word] += 1 << shift;
                is_added = true;
            }
        }
        self.counted += u64::from(is_added);
        if self.counted >= PERIOD * self.words.len() as u64 {
            self.words.iter_mut().for_each(|word| *word = (*word >> 1) & 0x7777_7777_7777_7777);
            self.counted /= 2;
        }
    }

    /// Makes room for this many entries. Counts stay.
    pub fn reserve(&mut self, entries: usize) {
        // The low bits of an index choose a word, so each half of the larger table is a copy of the smaller table.
        while self.words.len() < entries {
            self.words = [&self.words[..], &self.words[..]].concat().into_boxed_slice();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> u64 {
        // SplitMix64: as even as the real hash.
        let mut z = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[test]
    fn counts_are_at_least_true_and_survive_growth() {
        let mut sketch = Sketch::new();
        (0..7).for_each(|_| sketch.add(hash(1)));
        (100..150).for_each(|i| sketch.add(hash(i)));
        sketch.reserve(5000);
        assert!(sketch.count(hash(1)) >= 7);
        (0..100).for_each(|_| sketch.add(hash(1)));
        assert_eq!(sketch.count(hash(1)), COUNT_MAX);
    }

    #[test]
    fn counts_of_others_are_rare_and_old_ones_fade() {
        let mut sketch = Sketch::new();
        sketch.reserve(4096);
        (0..4096).for_each(|i| sketch.add(hash(i)));
        let wrong = (10_000..20_000).filter(|i| sketch.count(hash(*i)) > 0).count();
        assert!(wrong < 2_000, "{wrong} of 10,000");
        (0..10).for_each(|_| sketch.add(hash(1)));
        (0..400_000).for_each(|i| sketch.add(hash(100_000 + i % 4096)));
        assert!(sketch.count(hash(1)) <= 8, "{}", sketch.count(hash(1)));
    }
}
