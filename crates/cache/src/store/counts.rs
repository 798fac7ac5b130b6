//! Counters of a store: events since it was made, and its size.

/// Classes of ages in [`Counts::evicted_ages`].
pub const AGES: usize = 20;

/// Counters of a store since it was made, and its size now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lookups that found an object.
    pub hits: u64,
    /// Lookups that found no object.
    pub misses: u64,
    /// Objects that were stored, in place of others or not.
    pub inserts: u64,
    /// Objects that replaced another object, counted in `inserts`, too.
    pub replaced: u64,
    /// Objects that were refused as they are too large.
    pub refused_large: u64,
    /// Objects that were refused as a purge came after their request.
    pub refused_purged: u64,
    /// Objects that were dropped at once, as those that would go for them are used more. Counted in `evicted`, too.
    pub refused_unused: u64,
    /// Keys that were evicted for others.
    pub evicted: u64,
    /// Bytes of the keys that were evicted.
    pub evicted_bytes: u64,
    /// Sum of the ages in ms of evicted keys: time since something was stored under them.
    pub evicted_age_ms: u64,
    /// Evicted keys by age: the first class is below 1 s, each further class ends at twice the age, the last class has
    /// no end.
    pub evicted_ages: [u64; AGES],
    /// Variants that were dropped for a new variant of the same key.
    pub variants_dropped: u64,
    /// Objects that purges removed.
    pub purged: u64,
    /// Objects that purges marked as stale.
    pub marked: u64,
    /// Objects that [`super::Store::drop_over`] dropped.
    pub over: u64,
    /// Keys that are stored now.
    pub entries: u64,
    /// Objects that are stored now: all variants of all keys.
    pub objects: u64,
    /// Bytes that they take now, with all overhead.
    pub bytes: u64,
}

impl Counts {
    pub(super) fn evicted(&mut self, bytes: u64, age_ms: u64) {
        self.evicted += 1;
        self.evicted_bytes += bytes;
        self.evicted_age_ms = self.evicted_age_ms.saturating_add(age_ms);
        let seconds = age_ms / 1000;
        let class = if seconds == 0 { 0 } else { seconds.ilog2() as usize + 1 };
        self.evicted_ages[class.min(AGES - 1)] += 1;
    }

    pub(super) fn add(&mut self, other: &Counts) {
        let Counts { hits, misses, inserts, replaced, refused_large, refused_purged, refused_unused, .. } = other;
        self.hits += hits;
        self.misses += misses;
        self.inserts += inserts;
        self.replaced += replaced;
        self.refused_large += refused_large;
        self.refused_purged += refused_purged;
        self.refused_unused += refused_unused;
        self.evicted += other.evicted;
        self.evicted_bytes += other.evicted_bytes;
        self.evicted_age_ms = self.evicted_age_ms.saturating_add(other.evicted_age_ms);
        self.evicted_ages.iter_mut().zip(other.evicted_ages).for_each(|(sum, count)| *sum += count);
        self.variants_dropped += other.variants_dropped;
        self.purged += other.purged;
        self.marked += other.marked;
        self.over += other.over;
        self.entries += other.entries;
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_classed_by_powers_of_two() {
        let mut counts = Counts::default();
        [0, 999, 1000, 1999, 2000, 4000, u64::MAX].into_iter().for_each(|age| counts.evicted(1, age));
        assert_eq!((&counts.evicted_ages[..4], counts.evicted_ages[AGES - 1]), (&[2, 2, 1, 1][..], 1));
        let mut sum = counts;
        sum.add(&counts);
        assert_eq!((sum.evicted, sum.evicted_bytes, sum.evicted_ages[0]), (14, 14, 4));
    }
}
