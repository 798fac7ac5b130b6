//! Maps by stream of a connection. Clients cannot choose ids that collide: theirs ascend by 4, within the limit of
//! concurrent streams.

use evenkeel_net::quic::StreamId;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub(super) type Streams<T> = HashMap<StreamId, T, BuildHasherDefault<IdHasher>>;

pub(super) type StreamSet = HashSet<StreamId, BuildHasherDefault<IdHasher>>;

/// Hash of a stream id by a multiplication: a request is looked up some twenty times.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, id: u64) {
        /// 2^64 divided by the golden ratio.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        // The table takes its place from the low bits, which a product has from few bits of the id only.
        self.0 = (self.0 ^ id).wrapping_mul(FACTOR).rotate_left(32);
    }
}
