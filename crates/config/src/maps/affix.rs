//! Sorted keys, each with the longest other key that it begins with: finds the longest key that a text begins with.
//!
//! Everything that is sorted between a prefix and a text with this prefix has the prefix, too. So the longest key that a
//! text begins with is the last key that is not behind the text in their order, or that key begins with it: a binary
//! search and a walk to shorter keys find it. The search compares 8 bytes of each key that are stored together,
//! behind those that all keys share.

use super::texts::{Row, Texts};

/// Mark of a key that begins with no other key.
const NONE: Row = Row::MAX;

#[derive(Debug)]
pub(super) struct Affixes {
    /// Bytes that all keys share at their beginning.
    shared: usize,
    /// The next 8 bytes of each key, in the order of the keys.
    heads: Box<[u64]>,
    /// For each key the longest other key that it begins with.
    parents: Box<[Row]>,
}

impl Affixes {
    /// Indexes rows whose keys are sorted and differ.
    pub fn new(texts: &Texts) -> Affixes {
        let rows = 0..texts.len() as Row;
        let ends = rows.clone().next().zip(rows.clone().next_back());
        // All keys between the first and the last share what these two share.
        let shared = ends.map_or(0, |(first, last)| common(texts.key(first), texts.key(last)));
        let (mut parents, mut open) = (Vec::with_capacity(texts.len()), Vec::<Row>::new());
        for row in rows.clone() {
            while open.pop_if(|above| !texts.key(row).starts_with(texts.key(*above))).is_some() {}
            parents.push(open.last().copied().unwrap_or(NONE));
            open.push(row);
        }
        let heads = rows.map(|row| head(&texts.key(row)[shared..])).collect();
        Affixes { shared, heads, parents: parents.into() }
    }

    pub fn find(&self, texts: &Texts, text: &[u8]) -> Option<Row> {
        let after = text.get(self.shared..)?;
        let head = head(after);
        let from = self.heads.partition_point(|other| *other < head);
        let equal = self.heads[from..].partition_point(|other| *other == head);
        let (mut low, mut high) = (from, from + equal);
        while low < high {
            let middle = low.midpoint(high);
            match texts.key(middle as Row) <= text {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let mut row = low.checked_sub(1)? as Row;
        let common = common(texts.key(row), text);
        while texts.key(row).len() > common {
            row = self.parents[row as usize];
            if row == NONE {
                return None;
            }
        }
        Some(row)
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.parents)
    }
}

/// Number of bytes that two texts share at their beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first 8 bytes as a number in the order of texts.
#[inline]
fn head(text: &[u8]) -> u64 {
    let mut whole = [0; 8];
    let len = text.len().min(8);
    whole[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(whole)
}
