//! The atomics and the mutex of this crate: the standard library's, or under `--cfg loom` loom's, which runs a
//! test through the interleavings that the memory model allows (tests/loom.rs).

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, atomic};
#[cfg(not(loom))]
#[expect(clippy::disallowed_types, reason = "only published.rs and queue.rs lock, each with its reason")]
pub(crate) use std::sync::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;
