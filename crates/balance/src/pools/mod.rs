//! A pool as a whole: the control side of its endpoints, the set that workers see, and the replay of a journal.

// Order: pool, control, replay
pub mod control;
pub mod pool;
pub mod replay;
