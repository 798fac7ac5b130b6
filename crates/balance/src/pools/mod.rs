//! A pool as a whole: what control knows of its endpoints, the set that workers see, and the same once more by a journal.

pub mod control;
pub mod pool;
pub mod replay;
