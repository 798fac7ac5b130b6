//! Sweep of flows: ends idle ones, counts those that were not answered, and corrects counts of open flows.
//!
//! Programs count a flow when it opens and when it ends. An entry that the kernel evicts from the full map takes its end
//! with it, and a flow without packets has none. So every sweep counts the open flows that were open when it began, and
//! takes the difference to the programs' count at that time from the load of the endpoint. A count that changed just
//! then is uncertain by as much as it changed: then only what is certain is corrected, and the rest a second later.

use super::memory::Memory;
use super::walk::{KEY, VALUE, Walk};
use crate::driver::Fault;
use aya::maps::{HashMap, Map, MapData, MapInfo};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap as Table, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

const SECOND: u64 = 1_000_000_000;
/// Age at which a SYN without an answer counts as failed. Clients repeat it after 1, 3 and 7 s; the repetition after it
/// gets another endpoint.
const UNANSWERED: u64 = 5 * SECOND;
/// Time for which a flow whose client has not acknowledged is kept: mostly one of a flood.
const HALF_OPEN: u64 = 15 * SECOND;
/// Time for which a flow that has ended is kept for its last packets and repetitions of them.
const CLOSING: u64 = 10 * SECOND;
/// Time for which a flow is kept after RST, which is not repeated.
const RESET: u64 = 2 * SECOND;
/// Age from which an entry without its partner is a remnant: before, the walk may have passed the partner's place.
const REMNANT: u64 = 2 * SECOND;

/// Bits of an entry, as `bpf/flow.h` has them.
const ANSWERED: u32 = 1;
const COUNTED: u32 = 2;
const FIN_CLIENT: u32 = 4;
const FIN_ENDPOINT: u32 = 8;
const ENDED: u32 = 16;
const FAILED: u32 = 32;
const BACK: u32 = 64;

/// Offsets of fields of `struct egress` and `struct load`.
const OPEN: usize = 16;
const ACTIVE: usize = 0;
const STARTED: usize = 8;
const FAILURES: usize = 16;
const PENALTY: usize = 24;

/// Penalty of an endpoint, as `bpf/common.h` has it.
const PENALTY_MIN: u32 = 8;
const PENALTY_MAX: u32 = 4096;

const UDP: u8 = 17;

type Key = [u8; KEY];

/// Hash of keys of flows, of which each is hashed once.
type Keys = HashSet<u64, BuildHasherDefault<Ready>>;

#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

pub(super) struct Sweep {
    walk: Walk,
    flows: HashMap<MapData, Key, [u8; VALUE]>,
    loads: Memory,
}

/// Direction of a flow, as the map has it.
struct Entry<'e> {
    key: &'e Key,
    value: &'e [u8; VALUE],
}

impl Entry<'_> {
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|i| self.value[at + i]))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|i| self.value[at + i]))
    }

    fn endpoint(&self) -> u32 {
        self.word(60)
    }

    fn last(&self) -> u64 {
        self.long(80)
    }

    fn begun(&self) -> u64 {
        self.long(88)
    }

    fn ended(&self) -> u64 {
        self.long(96)
    }

    fn idle(&self) -> u64 {
        self.long(104)
    }

    fn bits(&self) -> u32 {
        self.word(112)
    }

    fn protocol(&self) -> u8 {
        self.key[36]
    }

    /// Key of the other direction: its packets go from where these go to.
    fn partner(&self) -> Key {
        let mut key = [0; KEY];
        key[..16].copy_from_slice(&self.value[16..32]);
        key[16..32].copy_from_slice(&self.value[..16]);
        key[32..34].copy_from_slice(&self.value[50..52]);
        key[34..36].copy_from_slice(&self.value[48..50]);
        key[36] = self.protocol();
        key
    }

    /// True if it was an open flow at `at`.
    fn open_at(&self, at: u64) -> bool {
        let bits = self.bits();
        bits & COUNTED != 0 && self.begun() <= at && (bits & ENDED == 0 || self.ended() > at)
    }

    /// Fate at `now`, by its own packets alone.
    fn fate(&self, now: u64) -> Fate {
        let bits = self.bits();
        let quiet = now.saturating_sub(self.last());
        if bits & ENDED != 0 {
            let closed = bits & FIN_CLIENT != 0 && bits & FIN_ENDPOINT != 0;
            let since = quiet.min(now.saturating_sub(self.ended()));
            return if since > if closed { CLOSING } else { RESET } { Fate::Over } else { Fate::Kept };
        }
        if bits & COUNTED != 0 || self.protocol() == UDP {
            return if quiet > self.idle() { Fate::Idle } else { Fate::Kept };
        }
        if bits & (ANSWERED | FAILED) == 0 {
            let age = now.saturating_sub(self.begun());
            return if age > UNANSWERED { Fate::Unanswered } else { Fate::Kept };
        }
        if quiet > HALF_OPEN { Fate::Over } else { Fate::Kept }
    }
}

/// Treatment of a flow by the sweep that finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    /// Removed, with the other direction.
    Over,
    /// Removed, if the other direction had no packets either.
    Idle,
    /// Removed, and counted as failed.
    Unanswered,
}

/// Flows that a walk has found, by what becomes of them.
#[derive(Default)]
struct Found {
    over: Vec<(Key, Key)>,
    idle: Vec<(Key, Key, u64)>,
    unanswered: Table<u32, u64>,
    open: Table<u32, i64>,
    /// Open flows that are idle by the packets to the endpoint, and count if those from it are not.
    idle_open: Table<Key, u32>,
    forth: Keys,
    back: Keys,
    /// Entries that are old enough to have partners: key, and hash of the partner's.
    old_forth: Vec<(Key, u64, u32, bool)>,
    old_back: Vec<(Key, u64)>,
}

impl Found {
    fn entry(&mut self, entry: &Entry<'_>, now: u64) {
        let partner = entry.partner();
        let (hash, hash_of_partner) = (hash(entry.key), hash(&partner));
        let old = now.saturating_sub(entry.begun()) > REMNANT;
        if entry.bits() & BACK != 0 {
            self.back.insert(hash);
            if old {
                self.old_back.push((*entry.key, hash_of_partner));
            }
            return;
        }
        self.forth.insert(hash);
        let (endpoint, open) = (entry.endpoint(), entry.open_at(now));
        match entry.fate(now) {
            Fate::Kept => {
                if open {
                    *self.open.entry(endpoint).or_default() += 1;
                }
                if old {
                    self.old_forth.push((*entry.key, hash_of_partner, endpoint, open));
                }
            }
            Fate::Over => self.over.push((*entry.key, partner)),
            Fate::Idle => {
                self.idle.push((*entry.key, partner, entry.idle()));
                if open {
                    self.idle_open.insert(*entry.key, endpoint);
                }
            }
            Fate::Unanswered => {
                self.over.push((*entry.key, partner));
                *self.unanswered.entry(endpoint).or_default() += 1;
            }
        }
    }
}

impl Sweep {
    /// Sweep of the flows whose maps are pinned in `folder`.
    pub(super) fn new(folder: &Path) -> Result<Sweep, Fault> {
        let path = folder.join("map-flows");
        let fault = |e: &dyn std::fmt::Display| Fault::new("open the map \"flows\"", e);
        let info = MapInfo::from_pin(&path).map_err(|e| fault(&e))?;
        if (info.key_size() as usize, info.value_size() as usize) != (KEY, VALUE) {
            return Err(fault(&"entries of another size: another version has made it"));
        }
        let open = || MapData::from_pin(&path).map_err(|e| fault(&e));
        let flows = HashMap::try_from(Map::LruHashMap(open()?)).map_err(|e| fault(&e))?;
        Ok(Sweep { walk: Walk::new(open()?), flows, loads: Memory::of(&folder.join("map-loads"))? })
    }

    /// Ends what is over, and corrects the loads of endpoints whose numbers are below `below`.
    pub(super) fn run(&mut self, egresses: &Memory, below: u32) -> Result<(), Fault> {
        let before = counts(egresses, below);
        let now = now();
        let after = counts(egresses, below);
        let mut found = Found::default();
        self.walk.run(|key, value| found.entry(&Entry { key, value }, now))?;

        for (forth, back) in std::mem::take(&mut found.over) {
            self.end(&forth, &back);
        }
        for (forth, back, idle) in std::mem::take(&mut found.idle) {
            // The other direction keeps it, if packets come that way.
            let value = self.flows.get(&back, 0).ok();
            let last = value.map_or(0, |value| Entry { key: &back, value: &value }.last());
            if now.saturating_sub(last) > idle {
                self.end(&forth, &back);
            } else if let Some(endpoint) = found.idle_open.get(&forth) {
                *found.open.entry(*endpoint).or_default() += 1;
            }
        }
        self.end_remnants(&mut found);
        for (&endpoint, &count) in &found.unanswered {
            self.count_failures(endpoint, count, now);
        }
        for (id, (before, after)) in (0..).zip(before.into_iter().zip(after)) {
            let leaked = leaked(before, after, found.open.get(&id).copied().unwrap_or(0));
            if leaked != 0 {
                // Relaxed: each is a count, and nothing is read by way of it.
                egresses.signed(id, OPEN).map(|open| open.fetch_sub(leaked, Relaxed));
                self.loads.signed(id, ACTIVE).map(|active| active.fetch_sub(leaked, Relaxed));
            }
        }
        Ok(())
    }

    /// Ends flows of datagrams to these endpoints, and connections that they have not answered: a client's next SYN gets
    /// another endpoint.
    pub(super) fn left(&mut self, ids: &HashSet<u32>) -> Result<(), Fault> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut over = Vec::new();
        self.walk.run(|key, value| {
            let entry = Entry { key, value };
            let moves = entry.protocol() == UDP || entry.bits() & ANSWERED == 0;
            if moves && entry.bits() & BACK == 0 && ids.contains(&entry.endpoint()) {
                over.push((*key, entry.partner()));
            }
        })?;
        for (forth, back) in over {
            self.end(&forth, &back);
        }
        Ok(())
    }

    /// Removes entries whose partners were evicted. A client then learns by RST that its connection is gone.
    fn end_remnants(&mut self, found: &mut Found) {
        for (key, partner) in std::mem::take(&mut found.old_back) {
            if !found.forth.contains(&partner) {
                let _ = self.flows.remove(&key);
            }
        }
        for (key, partner, endpoint, open) in std::mem::take(&mut found.old_forth) {
            if !found.back.contains(&partner) {
                let _ = self.flows.remove(&key);
                if open {
                    *found.open.entry(endpoint).or_default() -= 1;
                }
            }
        }
    }

    /// Removes both entries of a flow. The kernel may have evicted them.
    fn end(&mut self, forth: &Key, back: &Key) {
        let _ = self.flows.remove(forth);
        let _ = self.flows.remove(back);
    }

    /// Counts flows that the endpoint did not answer, and raises its penalty once.
    fn count_failures(&self, endpoint: u32, count: u64, now: u64) {
        let (Some(started), Some(failed), Some(penalty)) = (
            self.loads.unsigned(endpoint, STARTED),
            self.loads.unsigned(endpoint, FAILURES),
            self.loads.unsigned(endpoint, PENALTY),
        ) else {
            return;
        };
        started.fetch_add(count, Relaxed);
        failed.fetch_add(count, Relaxed);
        let second = (now >> 30) as u32;
        let old = penalty.load(Relaxed);
        let age = second.wrapping_sub((old >> 32) as u32);
        let level = (old as u32).checked_shr(age).unwrap_or(0).saturating_mul(2).clamp(PENALTY_MIN, PENALTY_MAX);
        penalty.store(u64::from(second) << 32 | u64::from(level), Relaxed);
    }
}

/// Programs' counts of open flows, by endpoint, for numbers below `below`.
pub(super) fn counts(egresses: &Memory, below: u32) -> Vec<i64> {
    let count = |id| egresses.signed(id, OPEN).map_or(0, |open| open.load(Relaxed));
    (0..egresses.entries.min(below)).map(count).collect()
}

/// Surplus of a count over the open flows that were found, as far as it is certain: the count was between `before` and
/// `after` at the time for which they were found.
fn leaked(before: i64, after: i64, found: i64) -> i64 {
    let (least, most) = (before.min(after) - found, before.max(after) - found);
    if least > 0 {
        least
    } else if most < 0 {
        most
    } else {
        0
    }
}

/// Time as programs read it.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * SECOND + now.tv_nsec as u64
}

fn hash(key: &Key) -> u64 {
    let mut hash = 0_u64;
    for word in key.as_chunks::<8>().0 {
        hash = (hash ^ u64::from_ne_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bits: u32, last: u64, begun: u64, ended: u64) -> (Key, [u8; VALUE]) {
        let (mut key, mut value) = ([0; KEY], [0; VALUE]);
        key[36] = 6;
        for (at, field) in [(80, last), (88, begun), (96, ended), (104, 60 * SECOND)] {
            value[at..at + 8].copy_from_slice(&field.to_ne_bytes());
        }
        value[112..116].copy_from_slice(&bits.to_ne_bytes());
        (key, value)
    }

    fn fate(bits: u32, last: u64, begun: u64, ended: u64, now: u64) -> Fate {
        let (key, value) = entry(bits, last * SECOND, begun * SECOND, ended * SECOND);
        Entry { key: &key, value: &value }.fate(now * SECOND)
    }

    #[test]
    fn a_flow_ends_by_its_state() {
        assert_eq!(fate(0, 104, 100, 0, 104), Fate::Kept);
        assert_eq!(fate(0, 106, 100, 0, 106), Fate::Unanswered, "repetitions of the SYN do not keep it");
        assert_eq!(fate(ANSWERED, 100, 100, 0, 106), Fate::Kept);
        assert_eq!(fate(ANSWERED, 100, 100, 0, 116), Fate::Over);
        assert_eq!(fate(ANSWERED | COUNTED, 100, 100, 0, 160), Fate::Kept);
        assert_eq!(fate(ANSWERED | COUNTED, 100, 100, 0, 161), Fate::Idle);
        let closed = ANSWERED | COUNTED | FIN_CLIENT | FIN_ENDPOINT | ENDED;
        assert_eq!(fate(closed, 100, 50, 100, 109), Fate::Kept);
        assert_eq!(fate(closed, 100, 50, 100, 111), Fate::Over);
        assert_eq!(fate(ANSWERED | COUNTED | ENDED, 100, 50, 100, 103), Fate::Over);
        assert_eq!(fate(FAILED | ENDED, 100, 100, 100, 103), Fate::Over);
    }

    #[test]
    fn only_what_is_certain_is_corrected() {
        assert_eq!(leaked(10, 10, 7), 3);
        assert_eq!(leaked(10, 10, 12), -2);
        assert_eq!(leaked(10, 12, 9), 1);
        assert_eq!(leaked(12, 10, 11), 0);
        assert_eq!(leaked(10, 12, 14), -2);
    }
}
