//! Memory layout of per-slot numbers that several threads write: rows of 16 slots that never move. A pool grows by
//! adding rows, and old and new sets share the rows that both have. Rows of 64 take 5 KiB more for each pool of a few
//! endpoints, and of many endpoints no other number of cache lines is read.

/// Slots per row. Only two for the model checker, which keeps a history of each.
pub(crate) const CHUNK: usize = if cfg!(loom) { 2 } else { 16 };

/// The values of [`CHUNK`] slots on separate cache lines. 128 bytes apart, as processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Row<T>(pub(crate) [T; CHUNK]);

impl<T: Default> Row<T> {
    pub(crate) fn new() -> Row<T> {
        Row(std::array::from_fn(|_| T::default()))
    }
}
