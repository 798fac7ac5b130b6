//! An indexed 4-ary heap: finds the item with the smallest key, while the key of any item may change.
//!
//! Four children per node halve the depth of a binary heap, and the keys of siblings share a cache line or two.

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// Items that [`IndexedHeap::first_where`] visits best-first before it falls back to a linear scan.
const SEARCH_MAX: usize = 32;

/// A min-heap of items numbered from 0, with a key each.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexedHeap<K> {
    nodes: Vec<(K, u32)>,
    /// Index in `nodes` of each item, or `ABSENT`.
    position: Vec<u32>,
    /// Nodes that [`search`](Self::search) has yet to visit. Kept to reuse its memory.
    frontier: Vec<u32>,
}

impl<K: Copy + PartialOrd> IndexedHeap<K> {
    /// Removes all items and makes room for items below `items`.
    pub(crate) fn clear(&mut self, items: usize) {
        self.nodes.clear();
        self.position.clear();
        self.position.resize(items, ABSENT);
    }

    /// Inserts an item that is not in the heap yet.
    pub(crate) fn push(&mut self, item: u32, key: K) {
        self.nodes.push((key, item));
        self.position[item as usize] = self.nodes.len() as u32 - 1;
        self.sift_up(self.nodes.len() - 1);
    }

    /// Key of an item; `None` if it is not in the heap.
    #[inline]
    pub(crate) fn key(&self, item: u32) -> Option<K> {
        let at = *self.position.get(item as usize)?;
        self.nodes.get(at as usize).map(|n| n.0)
    }

    /// Inserts an item, or changes its key if it is present.
    #[inline]
    pub(crate) fn put(&mut self, item: u32, key: K) {
        if self.position[item as usize] == ABSENT {
            self.push(item, key);
        } else {
            self.update(item, key);
        }
    }

    /// Removes an item if it is present.
    pub(crate) fn remove(&mut self, item: u32) {
        let Some(&at) = self.position.get(item as usize).filter(|&&at| at != ABSENT) else { return };
        self.position[item as usize] = ABSENT;
        self.nodes.swap_remove(at as usize);
        if let Some(&(_, last)) = self.nodes.get(at as usize) {
            self.position[last as usize] = at;
            // The moved item comes from elsewhere in the tree: it may belong above or below.
            self.sift_down(at as usize);
            self.sift_up(self.position[last as usize] as usize);
        }
    }

    /// Changes the key of an item. Does nothing if it is absent.
    #[inline]
    pub(crate) fn update(&mut self, item: u32, key: K) {
        let Some(&at) = self.position.get(item as usize).filter(|&&at| at != ABSENT) else { return };
        let at = at as usize;
        let old = std::mem::replace(&mut self.nodes[at].0, key);
        if key < old {
            self.sift_up(at);
        } else {
            self.sift_down(at);
        }
    }

    /// Changes every key by a function that preserves their order.
    pub(crate) fn shift(&mut self, mut change: impl FnMut(K) -> K) {
        self.nodes.iter_mut().for_each(|n| n.0 = change(n.0));
    }

    /// Item with the smallest key; `None` if the heap is empty.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.nodes.first().map(|n| n.1)
    }

    /// Item with the smallest key among those that `admits` accepts.
    #[inline]
    pub(crate) fn first_where(&mut self, mut admits: impl FnMut(u32) -> bool) -> Option<u32> {
        let first = self.first()?;
        if admits(first) { Some(first) } else { self.search(admits) }
    }

    /// Searches best-first from the root's children, and scans linearly after [`SEARCH_MAX`] items.
    #[cold]
    fn search(&mut self, mut admits: impl FnMut(u32) -> bool) -> Option<u32> {
        let Self { nodes, frontier, .. } = self;
        frontier.clear();
        let children = |at: usize| (ARITY * at + 1..(ARITY * at + 1 + ARITY).min(nodes.len())).map(|c| c as u32);
        frontier.extend(children(0));
        for _ in 0..SEARCH_MAX {
            let smaller = |a: &usize, b: &usize| {
                let (a, b) = (nodes[frontier[*a] as usize].0, nodes[frontier[*b] as usize].0);
                a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal)
            };
            let at = frontier.swap_remove((0..frontier.len()).min_by(smaller)?) as usize;
            if admits(nodes[at].1) {
                return Some(nodes[at].1);
            }
            frontier.extend(children(at));
        }
        let best = nodes.iter().filter(|n| admits(n.1)).reduce(|best, n| if n.0 < best.0 { n } else { best });
        best.map(|n| n.1)
    }

    fn sift_up(&mut self, mut at: usize) {
        let node = self.nodes[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.nodes[parent].0 <= node.0 {
                break;
            }
            self.place(at, self.nodes[parent]);
            at = parent;
        }
        self.place(at, node);
    }

    fn sift_down(&mut self, mut at: usize) {
        let node = self.nodes[at];
        loop {
            let from = ARITY * at + 1;
            let Some(children) = self.nodes.get(from..(from + ARITY).min(self.nodes.len())) else { break };
            let least = least(children);
            let Some(&child) = children.get(least).filter(|c| c.0 < node.0) else { break };
            self.place(at, child);
            at = from + least;
        }
        self.place(at, node);
    }

    #[inline]
    fn place(&mut self, at: usize, node: (K, u32)) {
        self.nodes[at] = node;
        self.position[node.1 as usize] = at as u32;
    }
}

/// Index of the smallest key. Which of four is the smallest cannot be predicted, so they are compared in pairs by
/// conditional moves instead of branches.
#[inline]
fn least<K: Copy + PartialOrd>(family: &[(K, u32)]) -> usize {
    if let [a, b, c, d] = family {
        let (i, left) = if b.0 < a.0 { (1, b.0) } else { (0, a.0) };
        let (j, right) = if d.0 < c.0 { (3, d.0) } else { (2, c.0) };
        return if right < left { j } else { i };
    }
    let mut least = 0;
    for (i, node) in family.iter().enumerate().skip(1) {
        if node.0 < family[least].0 {
            least = i;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    #[test]
    fn agrees_with_a_sorted_list() {
        let mut rng = Rng::new(11);
        for n in [1u32, 2, 5, 6, 70] {
            let mut heap = IndexedHeap::default();
            heap.clear(n as usize);
            let mut keys: Vec<u32> = (0..n).map(|_| rng.below(20)).collect();
            (0..n).for_each(|i| heap.push(i, keys[i as usize]));
            for _ in 0..2000 {
                let i = rng.below(n);
                keys[i as usize] = rng.below(20);
                heap.update(i, keys[i as usize]);
                assert_eq!(heap.key(heap.first().unwrap()), keys.iter().min().copied());
                let out = rng.below(n);
                heap.remove(out);
                let rest = (0..n).filter(|&i| i != out).map(|i| keys[i as usize]).min();
                assert_eq!((heap.first().and_then(|i| heap.key(i)), heap.key(out)), (rest, None), "n = {n}");
                heap.push(out, keys[out as usize]);
                let bar = rng.below(n);
                let got = heap.first_where(|i| i > bar).map(|i| keys[i as usize]);
                assert_eq!(got, keys[bar as usize + 1..].iter().min().copied(), "n = {n}, above {bar}");
            }
        }
    }
}
