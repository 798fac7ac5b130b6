//! A priority queue for small numbers that change by 1: finds the item with the lowest number of a group. Each number
//! has a linked list of its items, and the lowest list that may have items is remembered, so every change is O(1) where
//! a heap takes O(log n).
//!
//! Source: the frequency lists of Shah, Mitra and Matani's O(1) LFU cache (2010).

const ABSENT: u32 = u32::MAX;

/// Largest number with a separate list, shared by all larger numbers. A list head takes 8 bytes, so the lists of a
/// group take at most 512 KiB.
const NUMBER_MAX: u32 = 65_535;

/// Longest walk, in items, from the end of a list to where a rank belongs. Requests that take about equally long end in
/// the order in which they began, so a single step is common. Where they do not, a longer walk would only favour slow
/// endpoints.
const WALK_MAX: usize = 8;

/// Items numbered from 0, each in a group and with a number there. Items with equal numbers are in order of rank, as
/// far as [`WALK_MAX`] allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    items: Vec<Item>,
    groups: Vec<Group>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    lists: Vec<List>,
    /// Bitmap of the lists that have items.
    occupied: Vec<u64>,
    /// Lower bound of the lowest list with items.
    least: u32,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    rank: u64,
    group: u32,
    number: u32,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl Buckets {
    /// Removes all items and makes room for items below `items` in groups below `groups`.
    pub(crate) fn clear(&mut self, items: usize, groups: usize) {
        self.items.clear();
        self.items.resize(items, Item { rank: 0, group: 0, number: ABSENT, before: ABSENT, after: ABSENT });
        self.groups.clear();
        self.groups.resize(groups, Group::default());
    }

    /// Inserts an item, or moves it if it is present.
    #[inline]
    pub(crate) fn put(&mut self, item: u32, group: u32, number: u32, rank: u64) {
        self.remove(item);
        let number = number.min(NUMBER_MAX);
        let g = &mut self.groups[group as usize];
        if number as usize >= g.lists.len() {
            g.grow(number);
        }
        let last = g.lists[number as usize].last;
        let mut before = last;
        for _ in 0..WALK_MAX {
            match self.items.get(before as usize) {
                Some(other) if other.rank > rank => before = other.before,
                _ => break,
            }
        }
        let after = match self.items.get_mut(before as usize) {
            Some(other) => std::mem::replace(&mut other.after, item),
            None => std::mem::replace(&mut g.lists[number as usize].first, item),
        };
        match self.items.get_mut(after as usize) {
            Some(other) => other.before = item,
            None => g.lists[number as usize].last = item,
        }
        self.items[item as usize] = Item { rank, group, number, before, after };
        g.occupied[number as usize / 64] |= 1 << (number % 64);
        g.least = g.least.min(number);
    }

    /// Removes an item if it is present.
    #[inline]
    pub(crate) fn remove(&mut self, item: u32) {
        let Item { group, number, before, after, .. } = self.items[item as usize];
        if number == ABSENT {
            return;
        }
        self.items[item as usize].number = ABSENT;
        let g = &mut self.groups[group as usize];
        match self.items.get_mut(before as usize) {
            Some(other) => other.after = after,
            None => g.lists[number as usize].first = after,
        }
        match self.items.get_mut(after as usize) {
            Some(other) => other.before = before,
            None => g.lists[number as usize].last = before,
        }
        if g.lists[number as usize].first == ABSENT {
            g.occupied[number as usize / 64] &= !(1 << (number % 64));
        }
    }

    /// True if the item is present in any group.
    #[inline]
    pub(crate) fn has(&self, item: u32) -> bool {
        self.items.get(item as usize).is_some_and(|i| i.number != ABSENT)
    }

    /// Lowest number of a group and the first item that has it; `None` if the group is empty.
    #[inline]
    pub(crate) fn first(&mut self, group: u32) -> Option<(u32, u32)> {
        let g = &mut self.groups[group as usize];
        g.least = g.occupied_from(g.least)?;
        Some((g.least, g.lists[g.least as usize].first))
    }

    /// First item of a group that `admits` accepts, by number and then by rank, after its number.
    #[inline]
    pub(crate) fn first_where(&self, group: u32, mut admits: impl FnMut(u32) -> bool) -> Option<(u32, u32)> {
        let g = &self.groups[group as usize];
        let mut number = g.least;
        loop {
            number = g.occupied_from(number)?;
            let mut item = g.lists[number as usize].first;
            while item != ABSENT {
                if admits(item) {
                    return Some((number, item));
                }
                item = self.items[item as usize].after;
            }
            number += 1;
        }
    }
}

impl Group {
    /// Lowest number with items that is not below `number`.
    #[inline]
    fn occupied_from(&self, number: u32) -> Option<u32> {
        let mut word = number as usize / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (number % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word as u32 * 64 + bits.trailing_zeros())
    }

    #[cold]
    fn grow(&mut self, number: u32) {
        self.lists.resize(number as usize + 1, List { first: ABSENT, last: ABSENT });
        self.occupied.resize(number as usize / 64 + 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    #[test]
    fn agrees_with_a_sorted_list() {
        let mut rng = Rng::new(5);
        for n in [1u32, 2, 5, 8] {
            let mut buckets = Buckets::default();
            buckets.clear(n as usize, 2);
            let mut plain: Vec<Option<(u32, u32, u64)>> = vec![None; n as usize];
            for step in 0..5000 {
                let i = rng.below(n);
                if rng.below(4) == 0 {
                    buckets.remove(i);
                    plain[i as usize] = None;
                } else {
                    // Lists hold at most 8 items here, so no walk is cut short and the order is exact.
                    let rank = u64::from(rng.below(50)) * 10_000 + step;
                    let to = (rng.below(2), rng.below(100) * rng.below(2), rank);
                    buckets.put(i, to.0, to.1, to.2);
                    plain[i as usize] = Some(to);
                }
                for group in 0..2 {
                    let least = |from: u32| {
                        let of = (from..n).filter_map(|i| plain[i as usize].filter(|p| p.0 == group).map(|p| (p, i)));
                        of.min().map(|(p, i)| (p.1, i))
                    };
                    assert_eq!(buckets.first(group), least(0), "n = {n}, step {step}");
                    let bar = rng.below(n);
                    assert_eq!(
                        buckets.first_where(group, |i| i >= bar),
                        least(bar),
                        "n = {n}, step {step}, from {bar}"
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_beyond_the_last_list_share_it() {
        let mut buckets = Buckets::default();
        buckets.clear(2, 1);
        buckets.put(0, 0, u32::MAX, 1);
        buckets.put(1, 0, NUMBER_MAX, 2);
        assert_eq!(buckets.first(0), Some((NUMBER_MAX, 0)));
        assert!(buckets.has(0) && !buckets.has(9));
    }
}
