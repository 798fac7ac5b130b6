//! Tokens that were verified, so that their signatures are not verified again. Bounded: of many, those that were not
//! used lately are forgotten.

use crate::verifier::Verified;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// Verified tokens of a worker, by keyed hashes: a client cannot find two tokens with the same hash.
#[derive(Debug)]
pub struct Cache {
    keys: [RandomState; 2],
    /// Tokens since the last half was full, and tokens of the half before.
    halves: [HashMap<u128, Rc<Verified>>; 2],
    /// Most tokens of either half.
    most: usize,
}

impl Cache {
    /// Creates a cache of this many tokens.
    pub fn new(tokens: usize) -> Cache {
        Cache {
            keys: [RandomState::new(), RandomState::new()],
            halves: [HashMap::new(), HashMap::new()],
            most: tokens.div_ceil(2),
        }
    }

    /// Hash of a token: 128 bits of SipHash under two random keys.
    pub fn hash(&self, token: &[u8]) -> u128 {
        let [high, low] = [0, 1].map(|at: usize| u128::from(self.keys[at].hash_one(token)));
        high << 64 | low
    }

    /// Finds a token that may be used at `now_ms`.
    pub fn find(&mut self, hash: u128, now_ms: i64) -> Option<Rc<Verified>> {
        let [young, old] = &mut self.halves;
        if let Some(found) = young.get(&hash) {
            return Some(found.clone()).filter(|found| now_ms < found.until_ms);
        }
        let found = old.remove(&hash).filter(|found| now_ms < found.until_ms)?;
        self.keep(hash, found.clone());
        Some(found)
    }

    /// Remembers a token in the younger half.
    pub fn keep(&mut self, hash: u128, token: Rc<Verified>) {
        let [young, old] = &mut self.halves;
        if self.most == 0 {
            return;
        }
        if young.len() >= self.most {
            *old = std::mem::take(young);
        }
        young.insert(hash, token);
    }

    /// Forgets all tokens, as keys have changed.
    pub fn clear(&mut self) {
        self.halves.iter_mut().for_each(HashMap::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(until_ms: i64) -> Rc<Verified> {
        Rc::new(Verified { until_ms, ..Verified::default() })
    }

    #[test]
    fn tokens_are_found_until_their_time_and_those_in_use_stay() {
        let mut cache = Cache::new(4);
        let hash = |n: u8| u128::from(n);
        (0..3).for_each(|n| cache.keep(hash(n), verified(10)));
        // 0 and 1 are of the half before; 1 is used and comes back.
        assert!(cache.find(hash(1), 9).is_some());
        (3..5).for_each(|n| cache.keep(hash(n), verified(10)));
        assert_eq!([0, 1, 3, 4].map(|n| cache.find(hash(n), 9).is_some()), [false, true, true, true]);
        assert!(cache.find(hash(4), 10).is_none(), "its time is over");
        cache.clear();
        assert!(cache.find(hash(4), 9).is_none());
    }

    #[test]
    fn the_number_of_tokens_is_bounded_and_none_is_kept_in_a_cache_of_none() {
        let mut cache = Cache::new(100);
        (0..10_000_u32).for_each(|n| cache.keep(cache.hash(&n.to_le_bytes()), verified(i64::MAX)));
        assert!(cache.halves.iter().map(HashMap::len).sum::<usize>() <= 100);
        let mut none = Cache::new(0);
        none.keep(1, verified(i64::MAX));
        assert!(none.find(1, 0).is_none());
    }

    #[test]
    fn hashes_are_of_the_whole_token_and_of_this_cache_alone() {
        let (a, b) = (Cache::new(1), Cache::new(1));
        assert_eq!(a.hash(b"x.y.z"), a.hash(b"x.y.z"));
        assert_ne!(a.hash(b"x.y.z"), a.hash(b"x.y.y"));
        assert_ne!(a.hash(b"x.y.z"), b.hash(b"x.y.z"));
    }
}
