//! What is known of each endpoint? How many requests it has in flight, here and at sibling workers, and how often this
//! worker picked it of late.
//!
//! Counts are sharded by worker: up to [`SHARDS_MAX`] workers each write a shard of their own (a plain load and store),
//! more of them share shards by atomic add. So a start or an end touches one line that no other worker writes, and a
//! reader sums at most eight numbers. Measured on one thread (two threads): a count of its own writer 6-8 ns (15-29), one
//! shared count 15-18 (30-51), an `Arc` guard 26-31 (49-108).

use crate::decay::decay;
use crate::endpoint::EndpointId;
use crate::set::{EndpointSet, Member, Slot};
use crate::time::{Instant, SECOND_NS};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// More shards would make every read longer, for machines where the sharing costs little per worker.
pub const SHARDS_MAX: usize = 8;

/// Picks fade with this time constant: long enough that low request rates still alternate, short enough that a burst
/// is forgotten soon. HAProxy breaks ties by the rate over one second too.
const PICKS_TAU_NS: u64 = SECOND_NS;

const CHUNK: usize = 64;

/// The counts of a pool that all workers of the process share. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Counts {
    chunks: Vec<Arc<Chunk>>,
    totals: Arc<[Padded]>,
    workers: u32,
}

/// The counts of 64 slots. Chunks never move, so a pool grows by adding some, and old and new sets share the rest.
#[derive(Debug)]
struct Chunk {
    shards: Box<[Row]>,
    /// Requests holding a place under a limit; only written for endpoints that have one.
    held: Row,
}

/// On lines of its own, and 128 bytes apart as processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Row([AtomicU32; CHUNK]);

#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU32);

impl Row {
    fn new() -> Row {
        Row(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl Counts {
    /// Counts for `workers` workers and no slots yet.
    pub fn new(workers: u32) -> Counts {
        let shards = (workers.max(1) as usize).min(SHARDS_MAX);
        Counts { chunks: Vec::new(), totals: (0..shards).map(|_| Padded(AtomicU32::new(0))).collect(), workers }
    }

    /// The same counts with room for at least `slots` slots.
    pub fn grown_to(&self, slots: usize) -> Counts {
        let mut grown = self.clone();
        while grown.chunks.len() * CHUNK < slots {
            let shards = self.totals.iter().map(|_| Row::new()).collect();
            grown.chunks.push(Arc::new(Chunk { shards, held: Row::new() }));
        }
        grown
    }

    /// Requests in flight at `slot` over all workers of this process.
    ///
    /// Relaxed: each count is exact to its writer; a sibling's may be some nanoseconds old, as any would be by the
    /// time it was used.
    #[inline]
    pub fn in_flight(&self, slot: Slot) -> u32 {
        let Some(chunk) = self.chunks.get(slot.index() / CHUNK) else { return 0 };
        // Wrapping: with shared shards a start and an end may be seen in either order, their sum is still right.
        chunk.shards.iter().fold(0, |sum, row| sum.wrapping_add(row.0[slot.index() % CHUNK].load(Relaxed)))
    }

    /// Requests in flight in the whole pool over all workers.
    #[inline]
    pub fn in_flight_total(&self) -> u32 {
        self.totals.iter().fold(0, |sum, t| sum.wrapping_add(t.0.load(Relaxed)))
    }

    fn held(&self, slot: Slot) -> &AtomicU32 {
        &self.chunks[slot.index() / CHUNK].held.0[slot.index() % CHUNK]
    }
}

/// One worker's view: the shared counts, and what only this worker writes and reads.
#[derive(Debug)]
pub struct Loads {
    counts: Counts,
    shard: usize,
    /// Whether no other worker writes this shard.
    sole_writer: bool,
    mine: Vec<Mine>,
}

/// What this worker knows of one slot.
#[derive(Clone, Copy, Debug)]
struct Mine {
    id: EndpointId,
    in_flight: u32,
    picks: f32,
    picks_at: Instant,
}

impl Loads {
    /// The view of worker `worker` (0-based).
    pub fn new(counts: Counts, worker: u32) -> Loads {
        let shards = counts.totals.len();
        let sole_writer = counts.workers as usize <= shards;
        Loads { counts, shard: worker as usize % shards, sole_writer, mine: Vec::new() }
    }

    /// Takes up the counts of a new set. Slots that kept their endpoint keep what is known of it.
    pub(crate) fn on_set(&mut self, set: &EndpointSet, counts: &Counts) {
        self.counts = counts.clone();
        let blank = |id| Mine { id, in_flight: 0, picks: 0.0, picks_at: Instant(0) };
        if self.mine.len() < set.slots() {
            self.mine.resize(set.slots(), blank(EndpointId(0)));
        }
        for member in set.members() {
            let mine = &mut self.mine[member.slot.index()];
            if mine.id != member.id {
                // A slot is reused only after its last ticket ended, so no count is lost here.
                *mine = blank(member.id);
            }
        }
    }

    /// Requests in flight at `slot` over all workers of this process.
    #[inline]
    pub fn in_flight(&self, slot: Slot) -> u32 {
        self.counts.in_flight(slot)
    }

    /// Requests in flight in the whole pool over all workers.
    #[inline]
    pub fn in_flight_total(&self) -> u32 {
        self.counts.in_flight_total()
    }

    /// Requests that this worker has in flight at `slot`: exact.
    #[inline]
    pub fn in_flight_here(&self, slot: Slot) -> u32 {
        self.mine.get(slot.index()).map_or(0, |m| m.in_flight)
    }

    /// How often this worker picked `slot` of late: each pick counts 1 and fades with a time constant of 1 s.
    #[inline]
    pub fn recent_picks(&self, slot: Slot, now: Instant) -> f32 {
        self.mine.get(slot.index()).map_or(0.0, |m| m.picks * decay(now.since(m.picks_at), PICKS_TAU_NS))
    }

    /// Whether the endpoint is at its limit. Requests that started before it had one count too.
    #[inline]
    pub fn is_full(&self, member: &Member) -> bool {
        let max = member.in_flight_max;
        max != 0 && (self.counts.held(member.slot).load(Relaxed) >= max || self.in_flight(member.slot) >= max)
    }

    /// Takes a place under the endpoint's limit, exactly: over all workers never more than the limit hold one.
    /// `true` without a limit.
    #[inline]
    pub(crate) fn try_hold(&self, member: &Member) -> bool {
        if member.in_flight_max == 0 {
            return true;
        }
        let below = |held: u32| (held < member.in_flight_max).then_some(held + 1);
        // Relaxed: only the number itself is shared; nothing else is published by it.
        !self.is_full(member) && self.counts.held(member.slot).fetch_update(Relaxed, Relaxed, below).is_ok()
    }

    /// Gives back a place taken by [`try_hold`](Self::try_hold) of an endpoint with a limit.
    #[inline]
    pub(crate) fn release(&self, slot: Slot) {
        self.counts.held(slot).fetch_sub(1, Relaxed);
    }

    #[inline]
    pub(crate) fn on_start(&mut self, slot: Slot, now: Instant) {
        self.count(slot, 1);
        let mine = &mut self.mine[slot.index()];
        mine.in_flight += 1;
        mine.picks = mine.picks * decay(now.since(mine.picks_at), PICKS_TAU_NS) + 1.0;
        mine.picks_at = now;
    }

    #[inline]
    pub(crate) fn on_end(&mut self, slot: Slot) {
        self.count(slot, u32::MAX); // wraps: minus one
        self.mine[slot.index()].in_flight -= 1;
    }

    #[inline]
    fn count(&self, slot: Slot, add: u32) {
        let row = &self.counts.chunks[slot.index() / CHUNK].shards[self.shard];
        for count in [&row.0[slot.index() % CHUNK], &self.counts.totals[self.shard].0] {
            if self.sole_writer {
                count.store(count.load(Relaxed).wrapping_add(add), Relaxed);
            } else {
                count.fetch_add(add, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointSpec;

    fn member(slot: u32, in_flight_max: u32) -> Member {
        Member { slot: Slot(slot), id: EndpointId(u64::from(slot)), weight: 1, in_flight_max }
    }

    fn loads(counts: &Counts, worker: u32, slots: u32) -> Loads {
        let specs: Vec<_> = (0..slots).map(|i| (Slot(i), EndpointSpec::new(&i.to_string()))).collect();
        let set = EndpointSet::new(&specs);
        let counts = counts.grown_to(set.slots());
        let mut loads = Loads::new(counts.clone(), worker);
        loads.on_set(&set, &counts);
        loads
    }

    #[test]
    fn threads_that_share_shards_lose_no_count() {
        let counts = Counts::new(16).grown_to(3);
        std::thread::scope(|scope| {
            for worker in 0..16 {
                let mut mine = loads(&counts, worker, 3);
                scope.spawn(move || {
                    for i in 0..3000u64 {
                        mine.on_start(Slot((i % 3) as u32), Instant(i));
                        if i % 2 == 0 {
                            mine.on_end(Slot((i % 3) as u32));
                        }
                    }
                });
            }
        });
        assert_eq!((0..3).map(|i| counts.in_flight(Slot(i))).collect::<Vec<_>>(), [8000, 8000, 8000]);
        assert_eq!(counts.in_flight_total(), 24_000);
    }

    #[test]
    fn a_limit_is_exact_over_threads() {
        let counts = Counts::new(4).grown_to(1);
        let got: usize = std::thread::scope(|scope| {
            let tries = |worker| {
                let mine = loads(&counts, worker, 1);
                scope.spawn(move || (0..1000).filter(|_| mine.try_hold(&member(0, 777))).count())
            };
            let running: Vec<_> = (0..4).map(tries).collect();
            running.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(got, 777);
        let mine = loads(&counts, 0, 1);
        assert!(mine.is_full(&member(0, 777)));
        mine.release(Slot(0));
        assert!(!mine.is_full(&member(0, 777)) && mine.try_hold(&member(0, 777)));
    }

    #[test]
    fn recent_picks_fade_with_one_second() {
        let mut mine = loads(&Counts::new(1), 0, 1);
        mine.on_start(Slot(0), Instant(0));
        mine.on_start(Slot(0), Instant(0));
        let after = mine.recent_picks(Slot(0), Instant(SECOND_NS));
        assert!((after - 2.0 * (-1.0f32).exp()).abs() < 1e-3, "{after}");
        assert_eq!(mine.recent_picks(Slot(0), Instant(0)), 2.0, "reading changed it");
    }
}
