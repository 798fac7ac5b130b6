//! Entries of a shard at fixed places, which lists and tables name by number.

/// Places in a block. A block is allocated at once, and never moved: growth copies nothing.
const BLOCK: usize = 256;

/// Numbered places. A number is used again after its entry was removed.
#[derive(Debug)]
pub(super) struct Slots<E> {
    blocks: Vec<Box<[Option<E>]>>,
    free: Vec<u32>,
    len: usize,
}

impl<E> Slots<E> {
    pub fn new() -> Slots<E> {
        Slots { blocks: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Number after the largest number that is in use or free.
    pub fn end(&self) -> u32 {
        (self.blocks.len() * BLOCK) as u32
    }

    pub fn insert(&mut self, entry: E) -> u32 {
        if self.free.is_empty() {
            let first = self.end();
            self.blocks.push((0..BLOCK).map(|_| None).collect());
            self.free.extend((first..self.end()).rev());
        }
        let id = self.free.pop().expect("a block was just added");
        self.blocks[id as usize / BLOCK][id as usize % BLOCK] = Some(entry);
        self.len += 1;
        id
    }

    pub fn remove(&mut self, id: u32) -> E {
        let entry = self.blocks[id as usize / BLOCK][id as usize % BLOCK].take().expect("lists name used places only");
        self.len -= 1;
        self.free.push(id);
        if self.len == 0 {
            // After a purge of everything, memory is given back.
            (self.blocks, self.free) = (Vec::new(), Vec::new());
        }
        entry
    }

    pub fn get(&self, id: u32) -> Option<&E> {
        self.blocks.get(id as usize / BLOCK)?[id as usize % BLOCK].as_ref()
    }
}

impl<E> std::ops::Index<u32> for Slots<E> {
    type Output = E;
    fn index(&self, id: u32) -> &E {
        self.get(id).expect("lists name used places only")
    }
}

impl<E> std::ops::IndexMut<u32> for Slots<E> {
    fn index_mut(&mut self, id: u32) -> &mut E {
        self.blocks[id as usize / BLOCK][id as usize % BLOCK].as_mut().expect("lists name used places only")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_an_empty_one_holds_nothing() {
        let mut slots = Slots::new();
        let ids: Vec<u32> = (0..300).map(|i| slots.insert(i)).collect();
        assert_eq!((slots[ids[299]], slots.len(), slots.end()), (299, 300, 512));
        assert_eq!(slots.remove(ids[7]), 7);
        assert_eq!((slots.get(ids[7]), slots.get(9999)), (None, None));
        assert_eq!(slots.insert(1), ids[7]);
        ids.iter().for_each(|id| {
            slots.remove(*id);
        });
        assert_eq!((slots.len(), slots.end()), (0, 0));
    }
}
