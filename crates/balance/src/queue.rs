//! Who waits when every endpoint is full? A bounded queue per pool, first in first out over all workers.

/// How many may wait, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests that may wait at once, all workers together; 0 = none waits.
    pub max: u32,
    /// How long one waits at most, nanoseconds.
    pub timeout_ns: u64,
}
