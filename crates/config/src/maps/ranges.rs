//! Ranges of whole numbers that do not overlap.

use super::texts::Row;

/// First and last number of each range with its row, in ascending order.
#[derive(Debug)]
pub(super) struct Ranges(Box<[(u64, u64, Row)]>);

impl Ranges {
    /// Sorts ranges. `overlap` is called with each row whose range has a number of an earlier range, and with that row.
    pub fn new(mut all: Vec<(u64, u64, Row)>, mut overlap: impl FnMut(Row, Row)) -> Ranges {
        all.sort_unstable();
        // The range with the greatest end so far.
        let mut widest: Option<(u64, Row)> = None;
        for (from, to, row) in &all {
            if let Some((_, other)) = widest.filter(|(end, _)| from <= end) {
                overlap(*row.max(&other), *row.min(&other));
            }
            widest = widest.filter(|(end, _)| end >= to).or(Some((*to, *row)));
        }
        Ranges(all.into())
    }

    pub fn find(&self, number: u64) -> Option<Row> {
        let behind = self.0.partition_point(|(from, ..)| *from <= number);
        let (_, to, row) = *self.0.get(behind.checked_sub(1)?)?;
        (number <= to).then_some(row)
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Parses a whole number of at most 20 digits.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// Parses `80`, `8000-8999` or `8000..=8999` into the first and the last number.
pub(super) fn range(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (from, to) = text.split_once("..=").or_else(|| text.split_once('-')).unwrap_or((text, text));
    let (from, to) = (number(from.trim().as_bytes())?, number(to.trim().as_bytes())?);
    (from <= to).then_some((from, to))
}
