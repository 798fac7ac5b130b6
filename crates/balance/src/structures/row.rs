//! How do per-slot numbers that several threads write lie in memory? In rows of 64, which never move: a pool grows by
//! adding rows, and old and new sets share the rest.

/// Slots in a row. Few for the model checker, which keeps a history of each.
pub(crate) const CHUNK: usize = if cfg!(loom) { 2 } else { 64 };

/// A value on cache lines of its own, 128 bytes apart as processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Row<T>(pub(crate) [T; CHUNK]);

impl<T: Default> Row<T> {
    pub(crate) fn new() -> Row<T> {
        Row(std::array::from_fn(|_| T::default()))
    }
}
