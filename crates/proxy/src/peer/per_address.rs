//! How much may one client address use up? Open connections, and requests a second, both over all workers.
//!
//! This is the one thing that workers lock: a client's connections are spread over all of them, and a share of the limit
//! for each would refuse a client that happens to meet one worker twice. A lock guards a small part of the addresses, is held
//! for some twenty instructions, and exists only where such a limit is configured.

#![expect(clippy::disallowed_types, reason = "limits per address are shared, see above")]

use evenkeel_balance::Instant;
use evenkeel_balance::token_bucket::{Rate, TokenBucket};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Parts of the table of connections, each with its lock: many more than workers, so that they rarely meet.
const SHARDS: usize = 64;

/// Sets of addresses whose rate is known, and addresses in each. 65,536 addresses of 32 bytes: 2 MiB for a listener that
/// limits rates, whatever comes.
const SETS: usize = 8192;
const WAYS: usize = 8;

/// A lock cannot be poisoned half-way: nothing that is done under it can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The subscriber behind an address. IPv6 counts by /64: one subscriber gets at least that (RFC 6177 section 2), and can use
/// all of its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(u128);

impl Key {
    /// The subscriber behind this address.
    pub fn of(ip: IpAddr) -> Key {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Key(ip.to_ipv6_mapped().to_bits()),
            IpAddr::V6(ip) => Key(ip.to_bits() >> 64 << 64),
        }
    }
}

/// What the clients of one listener use up, by address.
#[derive(Debug, Default)]
pub struct PerAddress {
    open: Connections,
    /// Made when the first request is counted.
    rates: OnceLock<Rates>,
}

/// Open connections. As large as there are addresses with one, so bounded by the listener's limit of connections.
#[derive(Debug)]
struct Connections {
    hasher: RandomState,
    shards: [Mutex<HashMap<Key, usize>>; SHARDS],
}

impl Default for Connections {
    fn default() -> Connections {
        Connections { hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

/// One open connection that is counted; until dropped.
#[derive(Debug)]
pub struct OpenConnection {
    of: Arc<PerAddress>,
    key: Key,
}

impl PerAddress {
    /// Counts a connection of this address; `None` if it has `max` already.
    pub fn open(self: &Arc<PerAddress>, ip: IpAddr, max: NonZeroUsize) -> Option<OpenConnection> {
        let key = Key::of(ip);
        let mut shard = self.open.shard(key);
        let open = shard.entry(key).or_default();
        if *open >= max.get() {
            return None;
        }
        *open += 1;
        Some(OpenConnection { of: self.clone(), key })
    }

    /// Counts a request of this address.
    ///
    /// # Errors
    /// It is one too many. In so many nanoseconds one will be allowed again.
    pub fn request(&self, ip: IpAddr, rate: Rate, now: Instant) -> Result<(), u64> {
        self.rates.get_or_init(Rates::new).request(Key::of(ip), rate, now)
    }
}

impl Connections {
    fn shard(&self, key: Key) -> MutexGuard<'_, HashMap<Key, usize>> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut shard = self.of.open.shard(self.key);
        let Some(open) = shard.get_mut(&self.key) else { return };
        *open -= 1;
        if *open == 0 {
            shard.remove(&self.key);
        }
    }
}

/// A token bucket for each address. One that is full is as good as none, so the fullest is the one to forget.
#[derive(Debug)]
struct Rates {
    hasher: RandomState,
    sets: Box<[Mutex<[Requests; WAYS]>]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    key: Key,
    tokens: TokenBucket,
}

impl Rates {
    fn new() -> Rates {
        Rates { hasher: RandomState::new(), sets: (0..SETS).map(|_| Mutex::default()).collect() }
    }

    fn request(&self, key: Key, rate: Rate, now: Instant) -> Result<(), u64> {
        let mut set = lock(&self.sets[self.hasher.hash_one(key) as usize % SETS]);
        let requests = match set.iter().position(|requests| requests.key == key) {
            Some(at) => &mut set[at],
            None => {
                let fullest = set.iter_mut().min_by_key(|requests| requests.tokens.full_at());
                let fullest = fullest.expect("a set has several ways");
                *fullest = Requests { key, tokens: TokenBucket::default() };
                fullest
            }
        };
        requests.tokens.take(rate, now)
    }
}

#[cfg(test)]
#[path = "per_address_tests.rs"]
mod tests;
