//! Counters of the tier: events since the start, and its size.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start, and sizes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of responses that can be found.
    pub bytes: u64,
    /// Responses that can be found.
    pub objects: u64,
    /// Lookups of a key that is on disk.
    pub reads: u64,
    /// Lookups that have found at least one response.
    pub hits: u64,
    /// Responses written, rewrites of responses in use included.
    pub writes: u64,
    /// Bytes of records written.
    pub written_bytes: u64,
    /// Responses written again before their segment was reclaimed.
    pub rewrites: u64,
    /// Responses that were not written, as too many waited, the index was full, or the disk was off.
    pub dropped: u64,
    /// Lookups that were not made, as too many waited.
    pub reads_dropped: u64,
    /// Records that were not as written, and failed calls.
    pub errors: u64,
}

/// Counters that threads share.
#[derive(Debug, Default)]
pub struct Counters {
    pub reads: Counter,
    pub hits: Counter,
    pub writes: Counter,
    pub written_bytes: Counter,
    pub rewrites: Counter,
    pub dropped: Counter,
    pub reads_dropped: Counter,
    pub errors: Counter,
}

/// A count of events. Only summed up, so its order with others does not matter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
