//! Limits of a store in bytes and numbers.

/// Limits of a store. `Default` is 256 MiB with objects of at most 8 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of memory that all entries take together: keys, heads, bodies, and the overhead of the store. Values below
    /// 64 KiB count as 64 KiB.
    pub capacity: u64,
    /// Largest object in bytes, with its head and all its encodings. At most an eighth of a shard's capacity; more
    /// counts as that.
    pub object_max: u64,
    /// Most variants of a key, 1 to 1,000. A new variant replaces the least recently used.
    pub variants_max: usize,
    /// Independently locked parts, 1 to 256, rounded down to a power of two. 0: as many as leave each part room for 16
    /// of the largest objects, at most 64.
    pub shards: usize,
    /// Most purges by prefix, by tag or of everything that are remembered at a time, at least 1. A further purge makes
    /// [`super::Store::purge`] sweep the whole store first.
    pub purges_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        // 64 variants: more than browsers, languages and encodings make; far fewer than cookies do.
        Options { capacity: 256 << 20, object_max: 8 << 20, variants_max: 64, shards: 0, purges_max: 256 }
    }
}

/// Limits that hold together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub shards: usize,
    /// Bytes that a shard may hold.
    pub shard: u64,
    pub object_max: u64,
    pub variants_max: usize,
    pub purges_max: usize,
    /// True if evicted objects are passed on.
    pub passes_on: bool,
}

impl Options {
    pub(super) fn limits(&self) -> Limits {
        let capacity = self.capacity.max(64 << 10);
        let wanted = match self.shards {
            // A quarter of a MiB at least, or the window of a shard holds nothing.
            0 => (capacity / self.object_max.saturating_mul(16).max(1 << 18)).clamp(1, 64) as usize,
            shards => shards.min(256),
        };
        let shards = if wanted.is_power_of_two() { wanted } else { wanted.next_power_of_two() / 2 };
        let shard = capacity / shards as u64;
        Limits {
            shards,
            shard,
            object_max: self.object_max.min(shard / 8),
            variants_max: self.variants_max.clamp(1, 1000),
            purges_max: self.purges_max.max(1),
            passes_on: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_room_for_the_largest_object() {
        for (capacity, object_max, shards) in [(256 << 20, 8 << 20, 2), (1 << 40, 1 << 20, 64), (1 << 20, 1 << 30, 1)] {
            let limits = Options { capacity, object_max, ..Options::default() }.limits();
            assert_eq!(limits.shards, shards);
            assert!(limits.object_max <= limits.shard / 8);
        }
        let limits = Options { capacity: 0, shards: 7, variants_max: 0, purges_max: 0, ..Options::default() }.limits();
        assert_eq!((limits.shards, limits.shard, limits.variants_max, limits.purges_max), (4, 16 << 10, 1, 1));
    }
}
