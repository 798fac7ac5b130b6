//! Limits per client address, over all workers: open connections, and requests a second.
//!
//! A client's connections are spread over all workers. A share of the limit for each worker would refuse a client that
//! happens to reach the same worker twice. A lock guards the connections of a small part of the addresses, is held for
//! some twenty instructions, and exists only where such a limit is configured. Rates are in a [`KeyTable`].

#![expect(clippy::disallowed_types, reason = "limits per address are shared, see above")]

use super::key_table::{KeyTable, Take};
use evenkeel_balance::Instant;
use evenkeel_balance::token_bucket::Rate;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Shards of the table of connections, each with a lock: many more than workers, so that they rarely contend.
const SHARDS: usize = 64;

/// Addresses in the table of rates: a constant 1 MiB for a listener that limits rates, however many addresses come.
const RATES: usize = 65_536;

/// Locks a mutex. Poison is ignored, as nothing that runs under these locks can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A subscriber, the unit of the limits: an IPv4 address, or an IPv6 /64, as a subscriber gets at least that (RFC
/// 6177 section 2) and can use all of its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(u128);

impl Key {
    /// The subscriber that `ip` belongs to.
    pub fn of(ip: IpAddr) -> Key {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Key(ip.to_ipv6_mapped().to_bits()),
            IpAddr::V6(ip) => Key(ip.to_bits() >> 64 << 64),
        }
    }
}

/// Open connections and request rates of a listener's clients.
#[derive(Debug, Default)]
pub struct PerAddress {
    open: Connections,
    /// Allocated when the first request is counted.
    rates: OnceLock<KeyTable>,
}

/// Open connections by subscriber. Entries exist only while there are some, so the listener's limit of connections
/// bounds them.
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

/// A counted connection. Dropping it takes the connection out of the count.
#[derive(Debug)]
pub struct OpenConnection {
    of: Arc<PerAddress>,
    key: Key,
}

impl PerAddress {
    /// Counts a connection from `ip`. `None` if its subscriber has `max` already.
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

    /// Takes a token for a request from `ip`.
    ///
    /// # Errors
    /// The rate is exceeded; the value is the nanoseconds until the next token.
    pub fn request(&self, ip: IpAddr, rate: Rate, now: Instant) -> Result<(), u64> {
        let rates = self.rates.get_or_init(|| KeyTable::new(RATES));
        // A bucket is never pinned, so there is a result.
        rates.apply(rates.hash(Key::of(ip)), &Take { rate, now }).map_or(Ok(()), |(_, taken)| taken)
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

#[cfg(test)]
#[path = "per_address_tests.rs"]
mod tests;
