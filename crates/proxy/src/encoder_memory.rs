//! Memory of the compressors of all workers. Each compressor takes its part of a budget of the process before it is
//! made, so that clients that do not read their responses cannot take all memory.

use crate::resource::Resource;
use evenkeel_config::Plan;
use evenkeel_runtime::Diagnostic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Budget of the process for compressors, kept across plans.
#[derive(Debug)]
pub struct EncoderMemory {
    limit: AtomicU64,
    in_use: AtomicU64,
    lacks: [AtomicU64; Lack::LABELS.len()],
}

/// Consequence of a lack of memory for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Gzip with a small window instead of a better coding.
    Small,
    /// No compression and no coding.
    Identity,
    /// The coding of its request, with blocks that are not compressed.
    Stored,
    /// A compressor that was given up, as the client read nothing for seconds.
    GivenUp,
}

impl Lack {
    /// Labels, in the order of the counters.
    pub const LABELS: [&str; 4] = ["small_window", "identity", "stored", "given_up"];
}

/// Part of the budget that a compressor may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Three quarters: the rest is for small compressors, of which there are many in it.
    Most,
    All,
}

impl Resource for EncoderMemory {
    const TAKES_OVER: bool = true;

    fn next(plan: &Plan, before: Option<&Arc<EncoderMemory>>) -> Result<Arc<EncoderMemory>, Vec<Diagnostic>> {
        let limit = plan.runtime.compression_memory;
        let memory = before.cloned().unwrap_or_else(|| EncoderMemory::new(limit).into());
        memory.set_limit(limit);
        Ok(memory)
    }
}

impl EncoderMemory {
    pub fn new(limit: u64) -> EncoderMemory {
        EncoderMemory { limit: limit.into(), in_use: 0.into(), lacks: Default::default() }
    }

    /// Sets the limit, in bytes. Compressors that exist stay.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// Limit, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Bytes that compressors take, including bytes left by compressors that were given up.
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Relaxed)
    }

    /// True if half of the memory is in use.
    pub fn is_short(&self) -> bool {
        self.in_use() > self.limit() / 2
    }

    /// True if there is room for this number of bytes.
    pub fn has_room(&self, bytes: u64, share: Share) -> bool {
        self.in_use().saturating_add(bytes) <= self.most(share)
    }

    /// True if memory has to be saved: half of it is in use, or there is no room for this number of bytes.
    pub fn is_tight(&self, bytes: u64, share: Share) -> bool {
        self.is_short() || !self.has_room(bytes, share)
    }

    /// Takes this number of bytes, if there is room for them.
    pub fn take(self: &Arc<EncoderMemory>, bytes: u64, share: Share) -> Option<Taken> {
        let most = self.most(share);
        let fits = |in_use: u64| in_use.checked_add(bytes).filter(|sum| *sum <= most);
        self.in_use.fetch_update(Relaxed, Relaxed, fits).ok()?;
        Some(Taken { memory: self.clone(), bytes })
    }

    /// Takes bytes that are in use already, even if there is no room for them.
    pub fn keep(self: &Arc<EncoderMemory>, bytes: u64) -> Taken {
        self.in_use.fetch_add(bytes, Relaxed);
        Taken { memory: self.clone(), bytes }
    }

    pub fn count(&self, lack: Lack) {
        self.lacks[lack as usize].fetch_add(1, Relaxed);
    }

    /// Number of responses with this consequence.
    pub fn counted(&self, lack: usize) -> u64 {
        self.lacks[lack].load(Relaxed)
    }

    fn most(&self, share: Share) -> u64 {
        match share {
            Share::Most => self.limit() / 4 * 3,
            Share::All => self.limit(),
        }
    }
}

/// Bytes of the budget, given back on drop.
#[derive(Debug)]
pub struct Taken {
    memory: Arc<EncoderMemory>,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.in_use.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_compressors_leave_a_quarter_to_small_ones_and_all_is_given_back() {
        let memory = Arc::new(EncoderMemory::new(1000));
        let first = memory.take(700, Share::Most).expect("there is room");
        assert!(memory.is_short() && memory.take(51, Share::Most).is_none());
        let second = memory.take(300, Share::All).expect("there is room");
        assert!(!memory.has_room(1, Share::All) && memory.take(1, Share::All).is_none());
        let kept = memory.keep(500);
        assert_eq!(memory.in_use(), 1500);
        drop((first, second, kept));
        assert_eq!((memory.in_use(), memory.is_short()), (0, false));
        memory.set_limit(10);
        assert!(memory.take(11, Share::All).is_none() && memory.take(u64::MAX, Share::All).is_none());
    }
}
