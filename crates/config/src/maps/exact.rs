//! Hash table of whole keys: open addressing with linear probing, at most two thirds full. A slot has 32 bits of the
//! hash, so that other keys are seldom read.

use super::texts::{Row, Texts};
use std::hash::{BuildHasher, RandomState};

/// Marks a slot without a row.
const FREE: Row = Row::MAX;

#[derive(Debug)]
pub(super) struct Exact {
    slots: Box<[Slot]>,
    /// Secret, so that a tenant cannot choose rows that collide with the rows of others.
    seeds: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    row: Row,
}

impl Exact {
    /// Indexes all rows. `twice` is called with each row whose key an earlier row has, and with that row.
    pub fn new(texts: &Texts, mut twice: impl FnMut(Row, Row)) -> Exact {
        let random = RandomState::new();
        let size = texts.len() * 3 / 2 + 1;
        let slots = vec![Slot { tag: 0, row: FREE }; size].into();
        let mut exact = Exact { slots, seeds: [random.hash_one(1), random.hash_one(2)] };
        for row in 0..texts.len() as Row {
            let hash = hash(exact.seeds, texts.key(row));
            match exact.place(texts, texts.key(row), hash) {
                Ok(first) => twice(row, first),
                Err(free) => exact.slots[free] = Slot { tag: hash as u32, row },
            }
        }
        exact
    }

    #[inline]
    pub fn find(&self, texts: &Texts, key: &[u8]) -> Option<Row> {
        self.place(texts, key, hash(self.seeds, key)).ok()
    }

    /// Row of the key, or the free slot that it would get.
    #[inline]
    fn place(&self, texts: &Texts, key: &[u8], hash: u64) -> Result<Row, usize> {
        // The upper half of the product is below the number of slots.
        let mut at = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        loop {
            let slot = self.slots[at];
            if slot.row == FREE {
                return Err(at);
            }
            if slot.tag == hash as u32 && texts.key(slot.row) == key {
                return Ok(slot.row);
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

/// Hash of a key by multiplications of 64 bits whose halves are combined, 16 bytes at a time.
#[inline]
fn hash(seeds: [u64; 2], key: &[u8]) -> u64 {
    fn mix(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    }
    fn word(bytes: &[u8]) -> u64 {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    }
    let mut state = seeds[0] ^ key.len() as u64;
    let mut blocks = key.chunks_exact(16);
    for block in &mut blocks {
        let (a, b) = block.split_at(8);
        state = mix(word(a) ^ state, word(b) ^ seeds[1]);
    }
    let rest = blocks.remainder();
    let (a, b) = rest.split_at(rest.len().min(8));
    mix(mix(word(a) ^ state, word(b) ^ seeds[1]), seeds[0] | 1)
}
