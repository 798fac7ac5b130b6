//! Key of a shard, with all its variants.

use super::forms::Forms;
use super::keys::{Hashes, KeyRef};
use super::object::{ALLOCATION, Head, Variant};
use std::sync::Arc;

/// Number that no entry has, as the end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// Lists that an entry can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// New entries, the most recently used first.
    Window,
    /// Admitted entries that were not used since.
    Probation,
    /// Entries that were used after they were admitted.
    Protected,
}

/// A key, its variants, and its places in lists. All of it is counted in its weight.
#[derive(Debug)]
pub(super) struct Entry<H> {
    pub key: Box<[u8]>,
    pub url_len: u32,
    pub hashes: Hashes,
    /// Sequence number of the newest purge by prefix, tag or of everything that it was checked against.
    pub checked: u64,
    /// Moment in ms of the last insertion.
    pub stored: u64,
    pub hits: u32,
    pub weight: u64,
    pub segment: Segment,
    pub prev: u32,
    pub next: u32,
    /// Neighbours in the ring of keys with the same URL.
    pub ring: [u32; 2],
    /// The most recently used variant, and the others in this order.
    pub first: Variant<H>,
    pub rest: Vec<Variant<H>>,
}

/// Bytes of an entry without its key and its variants: its place, a header, two tables of `u32` with a byte of control
/// each and a load of 7/16 to 7/8, and 8 to 16 of the sketch.
const OVERHEAD: usize = size_of::<Option<Entry<()>>>() + ALLOCATION + 2 * 5 * 3 / 2 + 12;

impl<H: Head> Entry<H> {
    pub fn new(key: &KeyRef<'_>, hashes: Hashes, first: Variant<H>) -> Entry<H> {
        Entry {
            key: key.bytes.into(),
            url_len: key.url_len as u32,
            hashes,
            checked: 0,
            stored: 0,
            hits: 0,
            weight: 0,
            segment: Segment::Window,
            prev: NONE,
            next: NONE,
            ring: [NONE; 2],
            first,
            rest: Vec::new(),
        }
    }

    pub fn url(&self) -> &[u8] {
        &self.key[..self.url_len as usize]
    }

    pub fn is_for(&self, key: &KeyRef<'_>) -> bool {
        self.url_len as usize == key.url_len && *self.key == *key.bytes
    }

    pub fn variants(&self) -> impl Iterator<Item = &Variant<H>> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub fn variants_mut(&mut self) -> impl Iterator<Item = &mut Variant<H>> {
        std::iter::once(&mut self.first).chain(&mut self.rest)
    }

    pub fn count(&self) -> usize {
        1 + self.rest.len()
    }

    /// Bytes of memory that it takes now.
    pub fn weigh(&self) -> u64 {
        let list = self.rest.capacity() * size_of::<Variant<H>>();
        let own = OVERHEAD + self.key.len() + list + if list > 0 { ALLOCATION } else { 0 };
        own as u64 + self.variants().map(|variant| variant.object.weight()).sum::<u64>()
    }

    /// Bytes of an entry with only an object of this weight.
    pub fn weight_with(key: &KeyRef<'_>, object: u64) -> u64 {
        ((OVERHEAD + key.bytes.len()) as u64).saturating_add(object)
    }

    /// Makes the variant at `index` the first.
    pub fn use_variant(&mut self, index: usize) {
        if index > 0 {
            std::mem::swap(&mut self.first, &mut self.rest[index - 1]);
            self.rest[..index].rotate_right(1);
        }
    }

    /// Removes a variant. There must be another.
    pub fn remove_variant(&mut self, index: usize) -> Variant<H> {
        debug_assert!(!self.rest.is_empty());
        match index {
            0 => std::mem::replace(&mut self.first, self.rest.remove(0)),
            index => self.rest.remove(index - 1),
        }
    }

    /// Variant whose body has these encoded forms.
    pub fn with_forms(&self, forms: &Arc<Forms>) -> Option<&Variant<H>> {
        self.variants().find(|variant| variant.object.has_forms(forms))
    }
}
