//! Building blocks that decide nothing: time and chance, numbers that fade, orders, and what threads share. They import
//! nothing of the crate.

pub(crate) mod atomics;
pub(crate) mod buckets;
pub mod decay;
pub(crate) mod heap;
pub mod percentile;
pub mod published;
pub mod rng;
pub(crate) mod row;
pub mod slab;
pub(crate) mod tally;
pub mod time;
pub mod token_bucket;
