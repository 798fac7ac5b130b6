//! Table of flows by key that also keeps its entries in the order of their last use, to expire the oldest.

use evenkeel_balance::Instant;
use evenkeel_balance::slab::Slab;
use std::collections::HashMap;
use std::hash::Hash;

/// Position of an entry, valid until it is removed.
pub type Index = u32;

const NONE: Index = Index::MAX;

/// Entries by key, linked in the order of their last use. All operations take constant time.
#[derive(Debug)]
pub struct Table<K, V> {
    /// Seeded, so that clients cannot choose ports whose keys collide.
    by_key: HashMap<K, Index>,
    nodes: Slab<Node<K, V>>,
    oldest: Index,
    newest: Index,
}

#[derive(Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    used: Instant,
    older: Index,
    newer: Index,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { by_key: HashMap::new(), nodes: Slab::new(), oldest: NONE, newest: NONE }
    }
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    /// Position of the entry with this key.
    pub fn find(&self, key: &K) -> Option<Index> {
        self.by_key.get(key).copied()
    }

    /// The entry at `index`; `None` if it was removed.
    pub fn get_mut(&mut self, index: Index) -> Option<(&K, &mut V)> {
        self.nodes.get_mut(index).map(|node| (&node.key, &mut node.value))
    }

    /// Inserts an entry used at `now`. Replaces an entry with the same key.
    pub fn insert(&mut self, key: K, value: V, now: Instant) -> Index {
        if let Some(index) = self.find(&key) {
            self.remove(index);
        }
        let node = Node { key, value, used: now, older: NONE, newer: NONE };
        let index = self.nodes.insert(node);
        self.by_key.insert(key, index);
        self.link_newest(index);
        index
    }

    /// Marks an entry as used at `now`, which must not be earlier than any use before.
    pub fn touch(&mut self, index: Index, now: Instant) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        node.used = now;
        if index != self.newest {
            self.unlink(index);
            self.link_newest(index);
        }
    }

    /// The entry with the longest time since its last use, and that use.
    pub fn oldest(&self) -> Option<(Index, Instant)> {
        let node = self.nodes.get(self.oldest)?;
        Some((self.oldest, node.used))
    }

    /// Removes an entry and returns it.
    pub fn remove(&mut self, index: Index) -> Option<(K, V)> {
        self.nodes.get(index)?;
        self.unlink(index);
        let node = self.nodes.remove(index)?;
        self.by_key.remove(&node.key);
        Some((node.key, node.value))
    }

    /// All entries, in no particular order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.nodes.iter_mut().map(|node| &mut node.value)
    }

    fn unlink(&mut self, index: Index) {
        let Some(&mut Node { older, newer, .. }) = self.nodes.get_mut(index) else { return };
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, index: Index) {
        let newest = std::mem::replace(&mut self.newest, index);
        match self.nodes.get_mut(newest) {
            Some(node) => node.newer = index,
            None => self.oldest = index,
        }
        if let Some(node) = self.nodes.get_mut(index) {
            (node.older, node.newer) = (newest, NONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference model: a list in the order of last use.
    #[derive(Default)]
    struct Model(Vec<(u8, u32, Instant)>);

    impl Model {
        fn take(&mut self, key: u8) -> Option<(u8, u32, Instant)> {
            let at = self.0.iter().position(|(k, ..)| *k == key)?;
            Some(self.0.remove(at))
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, u32),
        Touch(u8),
        Remove(u8),
        RemoveOldest,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few keys, so that steps collide.
        let key = 0..12_u8;
        let step = prop_oneof![
            (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
            key.clone().prop_map(Step::Touch),
            key.prop_map(Step::Remove),
            Just(Step::RemoveOldest),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn does_what_a_list_would(steps in steps()) {
            let (mut table, mut model) = (Table::default(), Model::default());
            for (time, step) in steps.into_iter().enumerate() {
                let now = Instant(time as u64);
                match step {
                    Step::Insert(key, value) => {
                        table.insert(key, value, now);
                        model.take(key);
                        model.0.push((key, value, now));
                    }
                    Step::Touch(key) => {
                        if let Some(index) = table.find(&key) {
                            table.touch(index, now);
                        }
                        if let Some((key, value, _)) = model.take(key) {
                            model.0.push((key, value, now));
                        }
                    }
                    Step::Remove(key) => {
                        let removed = table.find(&key).and_then(|index| table.remove(index));
                        prop_assert_eq!(removed, model.take(key).map(|(key, value, _)| (key, value)));
                    }
                    Step::RemoveOldest => {
                        let removed = table.oldest().and_then(|(index, used)| Some((table.remove(index)?, used)));
                        let oldest = (!model.0.is_empty()).then(|| model.0.remove(0));
                        prop_assert_eq!(removed, oldest.map(|(key, value, used)| ((key, value), used)));
                    }
                }
                prop_assert_eq!(table.by_key.len(), model.0.len());
                prop_assert_eq!(table.nodes.len(), model.0.len());
                for (key, value, _) in &model.0 {
                    let index = table.find(key).expect("the model has it");
                    prop_assert_eq!(table.get_mut(index), Some((key, &mut value.clone())));
                }
            }
            let mut values: Vec<u32> = table.iter_mut().map(|value| *value).collect();
            let mut expected: Vec<u32> = model.0.iter().map(|(_, value, _)| *value).collect();
            values.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(values, expected);
        }
    }
}
