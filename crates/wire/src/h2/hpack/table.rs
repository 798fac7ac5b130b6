//! The dynamic table of previous fields (RFC 7541 section 2.3.2), which both sides keep in step. The newest field comes
//! first, and the oldest are evicted when it is full.

use super::static_table::STATIC;
use crate::multiplexed::static_index::hash;
use std::collections::VecDeque;

/// Default size of a table, in bytes.
pub const TABLE_SIZE: usize = 4096;

/// Size of an entry in addition to its bytes (section 4.1).
const OVERHEAD: usize = 32;

/// Dynamic table of a direction.
#[derive(Debug)]
pub struct Table {
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
}

#[derive(Debug)]
struct Entry {
    /// Name and value, concatenated.
    bytes: Box<[u8]>,
    name_len: usize,
    name_hash: u32,
    value_hash: u32,
}

impl Entry {
    fn split(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at(self.name_len)
    }

    fn size(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

impl Table {
    /// Returns an empty table of at most `max` bytes.
    pub fn new(max: usize) -> Table {
        Table { entries: VecDeque::new(), size: 0, max }
    }

    /// Largest size in bytes.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Sets the largest size in bytes, and evicts entries beyond it.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
        self.make_room(0);
    }

    fn make_room(&mut self, size: usize) {
        while self.size + size > self.max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }

    /// Adds a field. A field larger than the table empties the table.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + OVERHEAD;
        self.make_room(size);
        if size <= self.max {
            let bytes = [name, value].concat().into();
            let (name_hash, value_hash) = (hash(name), hash(value));
            self.entries.push_front(Entry { bytes, name_len: name.len(), name_hash, value_hash });
            self.size += size;
        }
    }

    /// Returns the field at an index, from 1 on; the static table comes first.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        match index.checked_sub(1)? {
            at if at < STATIC.len() => Some((STATIC[at].0.as_bytes(), STATIC[at].1.as_bytes())),
            at => self.entries.get(at - STATIC.len()).map(Entry::split),
        }
    }

    /// Returns the index of a field, and true if its value matches too; `None` if its name is not in the table.
    pub fn find(&self, name_hash: u32, name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
        let value_hash = hash(value);
        let mut named = None;
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.name_hash != name_hash || entry.split().0 != name {
                continue;
            }
            if entry.value_hash == value_hash && entry.split().1 == value {
                return Some((at + STATIC.len() + 1, true));
            }
            named = named.or(Some((at + STATIC.len() + 1, false)));
        }
        named
    }

    /// Size of all entries in bytes, by the rules of the RFC.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leave_when_it_is_full() {
        let mut table = Table::new(100);
        table.add(b"a", b"1");
        table.add(b"b", b"2");
        assert_eq!(
            (table.size(), table.get(62), table.get(63)),
            (68, Some((&b"b"[..], &b"2"[..])), Some((&b"a"[..], &b"1"[..])))
        );
        table.add(b"c", b"3");
        assert_eq!((table.size(), table.get(64)), (68, None));
        assert_eq!(table.find(hash(b"b"), b"b", b"9"), Some((63, false)));
        assert_eq!(table.find(hash(b"b"), b"b", b"2"), Some((63, true)));
        assert_eq!(table.find(hash(b"a"), b"a", b"1"), None);
        table.add(b"large", &[b'x'; 100]);
        assert_eq!((table.size(), table.get(62)), (0, None));
        table.add(b"a", b"1");
        table.set_max(0);
        assert_eq!((table.size(), table.get(0), table.get(62)), (0, None, None));
    }
}
