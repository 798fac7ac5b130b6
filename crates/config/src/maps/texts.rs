//! Keys and values of rows, in a single allocation.

use super::rows::MapRow;

/// Index of a key and its value, in the order of [`Texts`].
pub(super) type Row = u32;

/// Keys and values in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Box<[u8]>,
    places: Box<[Place]>,
}

/// Place of a row: its key, and behind it its value.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    key: u16,
    value: u16,
}

impl Texts {
    pub fn new(rows: &[MapRow<'_>]) -> Texts {
        Texts::of(rows.iter().map(|row| (&row.key[..], &row.value[..])))
    }

    /// Values of rows whose keys are kept elsewhere.
    pub fn values_only(rows: &[MapRow<'_>]) -> Texts {
        Texts::of(rows.iter().map(|row| (&[][..], &row.value[..])))
    }

    fn of<'r>(rows: impl Iterator<Item = (&'r [u8], &'r [u8])> + Clone) -> Texts {
        let size = rows.clone().map(|(key, value)| key.len() + value.len()).sum();
        let (mut bytes, mut places) = (Vec::with_capacity(size), Vec::with_capacity(rows.size_hint().0));
        for (key, value) in rows {
            // Larger texts were reported, so that the table is not used.
            let len = |text: &[u8]| u16::try_from(text.len()).unwrap_or(u16::MAX);
            let start = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            places.push(Place { start, key: len(key), value: len(value) });
            bytes.extend_from_slice(&key[..usize::from(len(key))]);
            bytes.extend_from_slice(&value[..usize::from(len(value))]);
        }
        Texts { bytes: bytes.into(), places: places.into() }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub fn key(&self, row: Row) -> &[u8] {
        let place = self.places[row as usize];
        let start = place.start as usize;
        &self.bytes[start..start + usize::from(place.key)]
    }

    #[inline]
    pub fn value(&self, row: Row) -> &[u8] {
        let place = self.places[row as usize];
        let start = place.start as usize + usize::from(place.key);
        &self.bytes[start..start + usize::from(place.value)]
    }

    pub fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.places)
    }
}
