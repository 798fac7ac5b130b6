//! Building blocks without policy: time, randomness, decay, ordered collections, slots, and values shared between
//! threads. They import nothing from the rest of the crate.

// Order: buckets, decay, heap, networks, percentile, published, row, shares, rng, slab, tally,
// token_bucket, time, atomics
pub(crate) mod atomics;
pub(crate) mod buckets;
pub mod decay;
pub(crate) mod heap;
pub mod networks;
pub mod percentile;
pub mod published;
pub mod rng;
pub(crate) mod row;
pub mod shares;
pub mod slab;
pub(crate) mod tally;
pub mod time;
pub mod token_bucket;
