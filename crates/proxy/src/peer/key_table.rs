//! State of limits by key, over all workers, in a constant amount of memory however many keys come.
//!
//! A key is a hash of 128 bits under seeds that only this process knows, so colliding keys cannot be constructed: half
//! of it chooses among many small sets, the other half marks the key's place there. A state is a number. Requests of a
//! known key change it without a lock; a new key takes a lock for a small part of the sets.
//!
//! A new key replaces the key whose state is worth least. For a token bucket this is the fullest bucket: a full bucket
//! equals a new bucket. A client that wants its exhausted bucket forgotten would need so many other keys that they fill
//! a set that it does not know, each with a bucket as empty. That takes as many requests as the table has places.

#![expect(clippy::disallowed_types, reason = "a lock is taken when a key is new, see above")]

use evenkeel_balance::Instant;
use evenkeel_balance::token_bucket::{Rate, TokenBucket};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Places of a set. Their marks are a cache line, and so are their states.
const WAYS: usize = 8;

/// Locks for new keys, each for some of the sets: many more than workers, so that they rarely contend.
const LOCKS: usize = 64;

/// State of a place that is being given to another key.
const CLAIMED: u64 = u64::MAX;

/// Worth of a state that must not be forgotten.
pub const PINNED: u64 = u64::MAX;

/// A key, as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    set: u64,
    mark: u64,
}

impl KeyHash {
    /// The only key of a table with a single key.
    pub const ONLY: KeyHash = KeyHash { set: 0, mark: 1 };
}

/// Limit that is applied to the state of a key.
pub trait Rule {
    type Told;

    /// Loss if the state is forgotten: 0 if a new key's would be as good, [`PINNED`] if it must not happen.
    fn worth(&self, state: u64) -> u64;

    /// The next state, if it changes, and the result. New keys have state 0.
    fn step(&self, state: u64) -> (Option<u64>, Self::Told);

    /// Takes a step back that was made on the state of another key.
    fn undo(&self, state: &AtomicU64);
}

/// Takes a token for a request. The state is the time at which the bucket is full.
pub struct Take {
    pub rate: Rate,
    pub now: Instant,
}

impl Rule for Take {
    /// Nanoseconds until the next token, if the bucket is empty.
    type Told = Result<(), u64>;

    fn worth(&self, state: u64) -> u64 {
        Instant(state).since(self.now)
    }

    #[inline]
    fn step(&self, state: u64) -> (Option<u64>, Result<(), u64>) {
        let mut bucket = TokenBucket::full_from(Instant(state));
        match bucket.take(self.rate, self.now) {
            Ok(()) => (Some(bucket.full_at().0), Ok(())),
            Err(wait_ns) => (None, Err(wait_ns)),
        }
    }

    /// The other key is left with a token less: giving it back could race with a third key.
    fn undo(&self, _: &AtomicU64) {}
}

/// Counts a request in flight. The state is their number, and [`KeyTable::leave`] ends a request.
pub struct Enter {
    pub max: u32,
}

impl Rule for Enter {
    /// True if the request is counted.
    type Told = bool;

    fn worth(&self, state: u64) -> u64 {
        if state == 0 { 0 } else { PINNED }
    }

    #[inline]
    fn step(&self, state: u64) -> (Option<u64>, bool) {
        let enters = state < u64::from(self.max);
        (enters.then_some(state + 1), enters)
    }

    fn undo(&self, state: &AtomicU64) {
        state.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Table of states by key, shared by all workers.
#[derive(Debug)]
pub struct KeyTable {
    seeds: [RandomState; 2],
    sets: Box<[Set]>,
    inserting: [Mutex<()>; LOCKS],
    forgotten: AtomicU64,
}

/// Some keys, each with its mark and, at the same index, its state. A mark of 0 is none.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Set {
    marks: [AtomicU64; WAYS],
    states: [AtomicU64; WAYS],
}

impl Set {
    /// Acquire: the state of a mark that is seen is at least as new.
    #[inline]
    fn find(&self, mark: u64) -> Option<usize> {
        self.marks.iter().position(|at| at.load(Ordering::Acquire) == mark)
    }
}

impl KeyTable {
    /// Creates a table for this many keys, rounded up to a multiple of eight. A key takes 16 bytes.
    pub fn new(keys: usize) -> KeyTable {
        KeyTable {
            seeds: [RandomState::new(), RandomState::new()],
            sets: (0..keys.div_ceil(WAYS).max(1)).map(|_| Set::default()).collect(),
            inserting: std::array::from_fn(|_| Mutex::default()),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Hashes a key under the table's seeds.
    #[inline]
    pub fn hash(&self, key: impl Hash) -> KeyHash {
        let [set, mark] = self.seeds.each_ref().map(|seed| seed.hash_one(&key));
        // 0 marks a place that is free.
        KeyHash { set, mark: mark.max(1) }
    }

    /// Keys that were forgotten although their state was worth something, and requests that could not be counted as
    /// every place for their key was pinned.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// Returns the result of a rule for the state of a key, and changes nothing.
    pub fn peek<R: Rule>(&self, key: KeyHash, rule: &R) -> R::Told {
        let set = &self.sets[self.set_of(key)];
        let state = set.find(key.mark).map(|way| set.states[way].load(Ordering::Acquire));
        // A place that is being given to a key has the state of a new key.
        rule.step(state.filter(|state| *state != CLAIMED).unwrap_or_default()).1
    }

    /// Index of the only set that may have a key.
    #[inline]
    fn set_of(&self, key: KeyHash) -> usize {
        // The product's upper half is below the number of sets.
        ((u128::from(key.set) * self.sets.len() as u128) >> 64) as usize
    }

    /// Applies a rule to the state of a key. Returns the key's place and the result; `None` if all of its places are
    /// pinned by others.
    #[inline]
    pub fn apply<R: Rule>(&self, key: KeyHash, rule: &R) -> Option<(u32, R::Told)> {
        let at = self.set_of(key);
        let set = &self.sets[at];
        loop {
            let found = set.find(key.mark).map(|way| (way, set.states[way].load(Ordering::Acquire)));
            let Some((way, state)) = found.filter(|(_, state)| *state != CLAIMED) else {
                if self.insert(at, key.mark, rule) {
                    continue;
                }
                return None;
            };
            let (next, told) = rule.step(state);
            if let Some(next) = next
                && set.states[way].compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                continue;
            }
            // The place may have gone to another key since it was found. If that happened before the exchange, the new
            // mark is seen here, as the exchange then read a value written after the mark.
            if set.marks[way].load(Ordering::Acquire) == key.mark {
                return Some(((at * WAYS + way) as u32, told));
            }
            if next.is_some() {
                rule.undo(&set.states[way]);
            }
        }
    }

    /// Ends a request in flight that was counted at this place, which is pinned since.
    #[inline]
    pub fn leave(&self, place: u32) {
        let place = place as usize;
        self.sets[place / WAYS].states[place % WAYS].fetch_sub(1, Ordering::AcqRel);
    }

    /// Gives a key the place whose state is worth least. False if all of them are pinned.
    #[cold]
    fn insert<R: Rule>(&self, at: usize, mark: u64, rule: &R) -> bool {
        let set = &self.sets[at];
        // Poison is ignored, as nothing that runs under this lock can panic.
        let _inserting = self.inserting[at % LOCKS].lock().unwrap_or_else(PoisonError::into_inner);
        if set.find(mark).is_some() {
            // Another worker was faster.
            return true;
        }
        loop {
            let states = set.states.iter().map(|state| state.load(Ordering::Acquire));
            let least = states.map(|state| (rule.worth(state), state)).enumerate().min_by_key(|(_, (worth, _))| *worth);
            let (way, (worth, state)) = least.expect("a set has several ways");
            if worth == PINNED {
                self.forgotten.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            // Fails if its key was used meanwhile, which may have made it worth more.
            if set.states[way].compare_exchange(state, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            if worth > 0 {
                self.forgotten.fetch_add(1, Ordering::Relaxed);
            }
            set.marks[way].store(mark, Ordering::Release);
            // Release: a worker that changes this state sees the mark.
            set.states[way].store(0, Ordering::Release);
            return true;
        }
    }
}

#[cfg(test)]
#[path = "key_table_tests.rs"]
mod tests;
