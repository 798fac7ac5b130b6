//! Which atomics and which lock? The standard library's; under `--cfg loom` those of loom, which runs a test through
//! the orders that the memory model allows (tests/loom.rs).

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, atomic};
#[cfg(not(loom))]
#[expect(clippy::disallowed_types, reason = "only published.rs and queue.rs lock, each with its reason")]
pub(crate) use std::sync::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;
