//! Sweep of flows: ends idle flows, counts unanswered flows, and corrects counts of open flows.
//!
//! Programs count a flow when it opens and when it ends. An entry that the kernel evicts from the full map takes its
//! end with it, and a flow without packets has none. So every sweep counts the open flows that were open when it began,
//! and takes the difference to the programs' count at that time from the load of the endpoint. A count that changed
//! just then is uncertain by as much as it changed: then only the certain part is corrected, and the rest a second
//! later.
//!
//! Entries may have changed since the sweep read them: the client of a flow that is over may have begun another flow
//! with the same addresses and ports. So the sweep removes nothing itself: [`Ends`] has the kernel remove unchanged
//! entries.

use super::ends::{Ends, Over};
use super::memory::Memory;
use super::walk::{KEY, VALUE, Walk};
use crate::driver::Fault;
use aya::programs::SchedClassifier;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap as Table, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

const SECOND: u64 = 1_000_000_000;
/// Age at which a SYN without an answer counts as failed. Clients repeat it after 1, 3 and 7 s; the repetition after it
/// gets another endpoint.
const UNANSWERED: u64 = 5 * SECOND;
/// Time for which a flow whose client has not acknowledged is kept: mostly a flow of a flood.
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
const UNPROVEN: u32 = 128;

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
    flows: Walk,
    openings: Walk,
    ends: Ends,
    loads: Memory,
    unproven: Memory,
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

    fn counted(&self) -> u64 {
        self.long(64)
    }

    fn protocol(&self) -> u8 {
        self.key[36]
    }

    /// Order to remove the flow, as it is.
    fn over(&self) -> Over {
        Over {
            key: *self.key,
            begun: self.begun(),
            last: self.last(),
            quiet: u64::MAX >> 1,
            bits: self.bits(),
            endpoint: self.endpoint(),
            remnant: false,
            hurried: false,
        }
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
        bits & COUNTED != 0 && self.counted() <= at && (bits & ENDED == 0 || self.ended() > at)
    }

    /// Fate at `now`, by its own packets alone.
    fn fate(&self, now: u64) -> Fate {
        let bits = self.bits();
        let quiet = now.saturating_sub(self.last());
        if bits & ENDED != 0 {
            let closed = bits & FIN_CLIENT != 0 && bits & FIN_ENDPOINT != 0;
            // By its end alone: answers to a connection past the virtual address may match it for as long as it is
            // there.
            let since = now.saturating_sub(self.ended());
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

/// Flows that a walk has found, by their outcome.
#[derive(Default)]
struct Found {
    over: Vec<Over>,
    /// Flows without an answer, by their endpoint.
    unanswered: Table<u32, Vec<Over>>,
    /// Open flows, by their endpoint.
    open: Table<u32, i64>,
    unproven: i64,
    forth: Keys,
    back: Keys,
    /// Entries that are old enough to have partners, with the hash of the partner.
    old_forth: Vec<(Over, u64)>,
    old_back: Vec<(Over, u64)>,
}

impl Found {
    fn entry(&mut self, entry: &Entry<'_>, now: u64) {
        let begun = entry.begun();
        // 0: being removed.
        if begun == 0 {
            return;
        }
        let (hash, hash_of_partner) = (hash(entry.key, begun), hash(&entry.partner(), begun));
        let remnant = || Over { remnant: true, ..entry.over() };
        let old = now.saturating_sub(begun) > REMNANT;
        if entry.bits() & BACK != 0 {
            self.back.insert(hash);
            if old {
                self.old_back.push((remnant(), hash_of_partner));
            }
            return;
        }
        // A flow that moves between both maps is seen twice.
        if !self.forth.insert(hash) {
            return;
        }
        self.unproven += i64::from(entry.bits() & UNPROVEN != 0);
        if entry.open_at(now) {
            *self.open.entry(entry.endpoint()).or_default() += 1;
        }
        match entry.fate(now) {
            Fate::Kept => {
                if old {
                    self.old_forth.push((remnant(), hash_of_partner));
                }
            }
            Fate::Over => self.over.push(entry.over()),
            // The other direction keeps it, if packets come that way.
            Fate::Idle => self.over.push(Over { quiet: now.saturating_sub(entry.idle()), ..entry.over() }),
            Fate::Unanswered => self.unanswered.entry(entry.endpoint()).or_default().push(entry.over()),
        }
    }

    /// Entries whose partners were evicted. A client then learns by RST that its connection is gone.
    fn remnants(&mut self) -> Vec<Over> {
        let (old_forth, old_back) = (std::mem::take(&mut self.old_forth), std::mem::take(&mut self.old_back));
        let forth = old_forth.into_iter().filter(|(_, partner)| !self.back.contains(partner));
        let back = old_back.into_iter().filter(|(_, partner)| !self.forth.contains(partner));
        forth.chain(back).map(|(over, _)| over).collect()
    }
}

impl Sweep {
    /// Sweep of the flows whose maps are pinned in `folder`.
    pub(super) fn new(folder: &Path) -> Result<Sweep, Fault> {
        Ok(Sweep {
            flows: Walk::new(&folder.join("map-flows"))?,
            openings: Walk::new(&folder.join("map-openings"))?,
            ends: Ends::default(),
            loads: Memory::of(&folder.join("map-loads"))?,
            unproven: Memory::of(&folder.join("map-unproven"))?,
        })
    }

    /// Ends finished flows, and corrects the loads of endpoints whose numbers are below `below`. `program` is
    /// `end_flows`; `between` is called when all flows are read, before any ends.
    pub(super) fn run(
        &mut self,
        program: &SchedClassifier,
        egresses: &Memory,
        below: u32,
        between: impl FnOnce(),
    ) -> Result<(), Fault> {
        let before = counts(egresses, below);
        let now = now();
        let after = counts(egresses, below);
        let unproven = self.unproven();
        let mut found = Found::default();
        // In this order: flows move from the first map to the second, and none is missed.
        self.openings.run(|key, value| found.entry(&Entry { key, value }, now))?;
        let unproven = (unproven, self.unproven());
        self.flows.run(|key, value| found.entry(&Entry { key, value }, now))?;

        // The count has flows that the kernel has evicted.
        if let Some(count) = self.unproven.signed(0, 0) {
            count.fetch_sub(leaked(unproven.0, unproven.1, found.unproven), Relaxed);
        }
        for (id, (before, after)) in (0..).zip(before.into_iter().zip(after)) {
            let leaked = leaked(before, after, found.open.get(&id).copied().unwrap_or(0));
            if leaked != 0 {
                // Relaxed: each is a count, and nothing is read by way of it.
                egresses.signed(id, OPEN).map(|open| open.fetch_sub(leaked, Relaxed));
                self.loads.signed(id, ACTIVE).map(|active| active.fetch_sub(leaked, Relaxed));
            }
        }
        between();
        self.ends.run(program, &found.over)?;
        self.ends.run(program, &found.remnants())?;
        for (endpoint, flows) in found.unanswered {
            let gone = self.ends.run(program, &flows)?;
            self.count_failures(endpoint, gone, now);
        }
        Ok(())
    }

    /// Flows that are not proven, as programs count them.
    fn unproven(&self) -> i64 {
        self.unproven.signed(0, 0).map_or(0, |count| count.load(Relaxed))
    }

    /// Ends flows of datagrams to these endpoints, and connections that they have not answered: a client's next SYN
    /// gets another endpoint.
    pub(super) fn left(&mut self, program: &SchedClassifier, ids: &HashSet<u32>) -> Result<(), Fault> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut over = Vec::new();
        let mut each = |key: &Key, value: &[u8; VALUE]| {
            let entry = Entry { key, value };
            let moves = entry.protocol() == UDP || entry.bits() & ANSWERED == 0;
            if moves && entry.bits() & BACK == 0 && ids.contains(&entry.endpoint()) {
                over.push(Over { hurried: true, ..entry.over() });
            }
        };
        self.openings.run(&mut each)?;
        self.flows.run(&mut each)?;
        self.ends.run(program, &over).map(drop)
    }

    /// Counts flows that the endpoint did not answer, and raises its penalty once.
    fn count_failures(&self, endpoint: u32, count: u64, now: u64) {
        if count == 0 {
            return;
        }
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

/// Hash of an entry, of the flow that began at a time.
fn hash(key: &Key, begun: u64) -> u64 {
    let mut hash = begun;
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
        for (at, field) in [(64, begun), (80, last), (88, begun), (96, ended), (104, 60 * SECOND)] {
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
        assert_eq!(fate(closed, 111, 50, 100, 111), Fate::Over, "packets do not keep what has ended");
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
