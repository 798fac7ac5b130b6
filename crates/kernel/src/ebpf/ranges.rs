//! Ranges of an array: given away, and taken back.

use std::collections::BTreeMap;

/// Free ranges by their start, none next to another.
pub struct Ranges {
    free: BTreeMap<u32, u32>,
}

impl Ranges {
    /// All of an array of `len` values, from the first.
    pub fn new(len: u32) -> Ranges {
        Ranges { free: [(0, len)].into_iter().filter(|&(_, len)| len > 0).collect() }
    }

    /// Takes `len` values in a row from the first range that has them. Nothing is at 0.
    pub fn take(&mut self, len: u32) -> Option<u32> {
        if len == 0 {
            return Some(0);
        }
        let (&start, &free) = self.free.iter().find(|&(_, &free)| free >= len)?;
        self.free.remove(&start);
        if free > len {
            self.free.insert(start + len, free - len);
        }
        Some(start)
    }

    /// Takes a certain range, such as a range found in use. Parts that are not free are left out.
    pub fn take_at(&mut self, start: u32, len: u32) {
        let end = start.saturating_add(len);
        let touched: Vec<(u32, u32)> =
            self.free.range(..end).map(|(&at, &len)| (at, at + len)).filter(|&(_, to)| to > start).collect();
        for (at, to) in touched {
            self.free.remove(&at);
            if at < start {
                self.free.insert(at, start - at);
            }
            if to > end {
                self.free.insert(end, to - end);
            }
        }
    }

    /// Adds a range to the free ranges again.
    pub fn give(&mut self, mut start: u32, mut len: u32) {
        if len == 0 {
            return;
        }
        if let Some((&before, &its)) = self.free.range(..start).next_back().filter(|&(&at, &its)| at + its == start) {
            self.free.remove(&before);
            (start, len) = (before, its + len);
        }
        if let Some(its) = self.free.remove(&(start + len)) {
            len += its;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_come_back_are_joined() {
        let mut ranges = Ranges::new(10);
        let taken = [3, 3, 4].map(|len| ranges.take(len).unwrap());
        assert_eq!(taken, [0, 3, 6]);
        assert_eq!(ranges.take(1), None);
        ranges.give(0, 3);
        ranges.give(6, 4);
        assert_eq!(ranges.take(5), None);
        ranges.give(3, 3);
        assert_eq!(ranges.take(10), Some(0));
    }

    #[test]
    fn a_range_that_is_found_in_use_is_not_given_away() {
        let mut ranges = Ranges::new(10);
        ranges.take_at(2, 3);
        ranges.take_at(4, 2); // overlaps
        assert_eq!(ranges.take(3), Some(6));
        assert_eq!(ranges.take(2), Some(0));
        assert_eq!(ranges.take(1), Some(9));
        assert_eq!(ranges.take(1), None);
    }
}
