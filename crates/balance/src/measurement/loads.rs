//! Requests in flight at each endpoint, from this worker and its siblings, and how far this worker's picks of the
//! endpoint are ahead of its share.
//!
//! Counts are sharded by worker: up to [`SHARDS_MAX`] workers each write a separate shard (a plain load and store),
//! more of them share shards by atomic add. So a start or an end touches a line that no other worker writes, and a
//! reader sums at most eight numbers. Measured on a single thread (on two): a count with a single writer takes 6-8 ns
//! (15-29), a shared count 15-18 (30-51), an `Arc` guard 26-31 (49-108).

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::observed::{Observed, Watch, Writer};
use crate::measurement::report::{LoadReport, Refused};
use crate::measurement::reported::{Heard, Others, Reported};
use crate::measurement::request::{End, Outcome};
use crate::measurement::ticket::Hold;
use crate::structures::atomics::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use crate::structures::row::{CHUNK, Row};
use crate::structures::time::Instant;
use std::sync::Arc;

/// Largest number of shards. More would lengthen every read, for machines where sharing costs little per worker.
pub const SHARDS_MAX: usize = 8;

/// Virtual time in which an endpoint gets as many turns as its weight. The rounding of `ROUND / weight` is below 2^-16
/// of a share for weights up to 65,535. Virtual time wraps after 2^32 rounds; only differences are ever used.
const ROUND: u64 = 1 << 32;

/// Counts of a pool that all workers of the process share. Clones refer to the same counts.
#[derive(Clone, Debug)]
pub struct Counts {
    chunks: Vec<Arc<Chunk>>,
    totals: Arc<[Padded]>,
    /// Sum of requests that run outside this process at all slots.
    external_total: Arc<AtomicU32>,
    heard: Arc<Heard>,
    workers: u32,
    /// Settings of further records about requests.
    watch: Watch,
}

/// Shared state of the slots of a row.
#[derive(Debug)]
struct Chunk {
    shards: Box<[Row<AtomicU32>]>,
    /// False until anything runs outside this process, so that picks need not read the row below.
    has_external: AtomicBool,
    /// Connections that the kernel forwards by itself.
    external: Row<AtomicU32>,
    /// Requests that count towards a limit. Written only for endpoints with a limit.
    held: Row<AtomicU32>,
    observed: Observed,
    reported: Reported,
}

#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU32);

impl Counts {
    /// Returns the counts for `workers` workers, without slots. With a single worker no atomic operation locks its
    /// cache line, so the balancers of that worker must be used by a single thread at a time.
    pub fn new(workers: u32) -> Counts {
        let shards = (workers.max(1) as usize).min(SHARDS_MAX);
        let totals = (0..shards).map(|_| Padded(AtomicU32::new(0))).collect();
        let external_total = Arc::new(AtomicU32::new(0));
        Counts { chunks: Vec::new(), totals, external_total, heard: Arc::default(), workers, watch: Watch::default() }
    }

    /// Returns the same counts, which also record the data that `watch` selects.
    pub(crate) fn watching(&self, watch: Watch) -> Counts {
        Counts { watch, ..self.clone() }
    }

    /// Returns the same counts with room for at least `slots` slots.
    pub fn grown_to(&self, slots: usize) -> Counts {
        let mut grown = self.clone();
        while grown.chunks.len() * CHUNK < slots {
            let shards = self.totals.iter().map(|_| Row::new()).collect();
            let observed = Observed::new(self.totals.len());
            let reported = Reported::new();
            let (has_external, external) = (AtomicBool::new(false), Row::new());
            grown.chunks.push(Arc::new(Chunk { shards, has_external, external, held: Row::new(), observed, reported }));
        }
        grown
    }

    /// Requests in flight at `slot`, over all workers of this process, and connections that the kernel forwards to it.
    ///
    /// Relaxed: each count is exact for its writer. A sibling's may be some nanoseconds old, as any count would be by
    /// the time it is used.
    #[inline]
    pub fn in_flight(&self, slot: Slot) -> u32 {
        let Some(chunk) = self.chunks.get(slot.index() / CHUNK) else { return 0 };
        let at = slot.index() % CHUNK;
        let here = match &*chunk.shards {
            [of_all] => of_all.0[at].load(Relaxed),
            shards => summed(shards, at),
        };
        if chunk.has_external.load(Relaxed) { here.wrapping_add(chunk.external.0[at].load(Relaxed)) } else { here }
    }

    /// Sets the connections that the kernel forwards to `slot` by itself. Only a single thread at a time may call this.
    pub(crate) fn set_external(&self, slot: Slot, in_flight: u32) {
        let Some(chunk) = self.chunks.get(slot.index() / CHUNK) else { return };
        let before = chunk.external.0[slot.index() % CHUNK].swap(in_flight, Relaxed);
        self.external_total.fetch_add(in_flight.wrapping_sub(before), Relaxed);
        if in_flight > 0 {
            chunk.has_external.store(true, Relaxed);
        }
    }

    /// Requests in flight in the whole pool, over all workers.
    #[inline]
    pub fn in_flight_total(&self) -> u32 {
        let external = self.external_total.load(Relaxed);
        self.totals.iter().fold(external, |sum, t| sum.wrapping_add(t.0.load(Relaxed)))
    }

    /// Returns the observations of the row that contains `slot`, and the index of the slot in it. The slot must belong
    /// to the pool.
    pub(crate) fn observed(&self, slot: Slot) -> (&Observed, usize) {
        (&self.chunks[slot.index() / CHUNK].observed, slot.index() % CHUNK)
    }

    /// Returns the reports of the row that contains `slot`, and the index of the slot in it. The slot must belong to
    /// the pool.
    #[inline]
    pub(crate) fn reported(&self, slot: Slot) -> (&Reported, usize) {
        (&self.chunks[slot.index() / CHUNK].reported, slot.index() % CHUNK)
    }

    fn held(&self, slot: Slot) -> &AtomicU32 {
        &self.chunks[slot.index() / CHUNK].held.0[slot.index() % CHUNK]
    }
}

/// Sums all shards at an index. Not inlined, as every pick needs it in several places, and long code costs time.
#[inline(never)]
fn summed(shards: &[Row<AtomicU32>], at: usize) -> u32 {
    // Wrapping: with shared shards a start and an end may be seen in either order, but their sum is right.
    shards.iter().fold(0, |sum, row| sum.wrapping_add(row.0[at].load(Relaxed)))
}

/// Operand that subtracts 1 when added: counts wrap.
const MINUS_ONE: u32 = u32::MAX;

/// Adds to a number; cheaper if no other thread writes it.
#[inline]
fn add(number: &AtomicU32, n: u32, sole_writer: bool) {
    if sole_writer {
        number.store(number.load(Relaxed).wrapping_add(n), Relaxed);
    } else {
        number.fetch_add(n, Relaxed);
    }
}

/// The loads of a pool as a worker sees them: the shared counts, and state that only this worker reads and writes.
#[derive(Debug)]
pub struct Loads {
    counts: Counts,
    shard: usize,
    /// True if no other worker writes this shard.
    sole_writer: bool,
    /// True if there is no other worker.
    alone: bool,
    mine: Vec<Mine>,
    /// Virtual time of the latest turn.
    clock: u64,
    /// Longest distance of an endpoint's turn from the clock: four turns of the lightest endpoint.
    slack: u64,
}

/// This worker's state of a slot.
#[derive(Clone, Copy, Debug)]
struct Mine {
    id: EndpointId,
    in_flight: u32,
    /// True if its latest outcome here was a failure.
    failed: bool,
    /// Virtual time between two turns.
    stride: u64,
    /// Virtual time of its next turn.
    due: u64,
}

impl Loads {
    /// Returns the view of worker `worker`, counted from 0.
    pub fn new(counts: Counts, worker: u32) -> Loads {
        let shards = counts.totals.len();
        let sole_writer = counts.workers as usize <= shards;
        let alone = counts.workers <= 1;
        let shard = worker as usize % shards;
        Loads { counts, shard, sole_writer, alone, mine: Vec::new(), clock: 0, slack: 0 }
    }

    /// True if the pool has no other worker.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Switches to the counts of a new set. Slots that kept their endpoint keep their state.
    pub(crate) fn on_set(&mut self, set: &EndpointSet, counts: &Counts) {
        self.counts = counts.clone();
        let members = || set.members().iter().chain(set.overflow().iter().flat_map(EndpointSet::members));
        let lightest = members().map(|m| m.weight).min().unwrap_or(1);
        self.slack = 4 * (ROUND / u64::from(lightest));
        let blank = |id| Mine { id, in_flight: 0, failed: false, stride: 0, due: self.clock };
        if self.mine.len() < set.slots() {
            self.mine.resize(set.slots(), blank(EndpointId(0)));
        }
        for member in members().chain(set.draining()) {
            let mine = &mut self.mine[member.slot.index()];
            if mine.id != member.id {
                // A slot is reused only after its last ticket has ended, so no count is lost here.
                *mine = blank(member.id);
            }
            let stride = ROUND / u64::from(member.weight);
            if mine.stride != stride && mine.stride != 0 {
                // The endpoint keeps its phase: if it was ahead by half a turn, it still is. A factor on all weights,
                // as while endpoints ramp, changes nothing.
                let ahead = i128::from(mine.due.wrapping_sub(self.clock) as i64);
                let scaled = ahead * i128::from(stride) / i128::from(mine.stride);
                mine.due = self.clock.wrapping_add_signed(scaled as i64);
            }
            mine.stride = stride;
        }
    }

    /// Requests in flight at `slot`, over all workers of this process.
    #[inline]
    pub fn in_flight(&self, slot: Slot) -> u32 {
        self.counts.in_flight(slot)
    }

    /// Requests in flight in the whole pool, over all workers.
    #[inline]
    pub fn in_flight_total(&self) -> u32 {
        self.counts.in_flight_total()
    }

    /// Requests that this worker has in flight at `slot`. Exact.
    #[inline]
    pub fn in_flight_here(&self, slot: Slot) -> u32 {
        self.mine.get(slot.index()).map_or(0, |m| m.in_flight)
    }

    /// Requests that other balancers than this process had in flight at `slot`, by its latest report to any worker.
    /// `None` before the first report.
    #[inline]
    pub fn others(&self, slot: Slot, now: Instant) -> Option<Others> {
        let chunk = self.counts.chunks.get(slot.index() / CHUNK)?;
        chunk.reported.others(slot.index() % CHUNK, now)
    }

    /// Time since any endpoint of the pool last reported, in nanoseconds, rounded to milliseconds. `None` before the
    /// first report.
    #[inline]
    pub fn heard_ns_ago(&self, now: Instant) -> Option<u64> {
        self.counts.heard.age_ns(now)
    }

    /// Stores the report of an endpoint of the pool, unless it is refused.
    pub(crate) fn report(&self, slot: Slot, report: &LoadReport, now: Instant) -> Result<(), Refused> {
        let (reported, at) = self.counts.reported(slot);
        reported.accept(at, report, self.in_flight(slot), now)?;
        self.counts.heard.note(now);
        Ok(())
    }

    /// Lead of this worker's picks of `slot` over its share by weight, in virtual time: of two endpoints, the endpoint
    /// with the smaller lead is due. Counts picks and not seconds, so that it means the same at any rate of requests.
    #[inline]
    pub fn ahead(&self, slot: Slot) -> i64 {
        self.mine.get(slot.index()).map_or(0, |m| m.due.wrapping_sub(self.clock) as i64)
    }

    /// Virtual time of this worker's next turn of `slot`, and the virtual time between two turns. The former
    /// wraps: only differences mean anything.
    #[inline]
    pub(crate) fn turn(&self, slot: Slot) -> (u64, u64) {
        self.mine.get(slot.index()).map_or((0, 0), |m| (m.due, m.stride))
    }

    /// Virtual time of the latest turn. Wraps.
    #[inline]
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// True if the endpoint is at its limit. Requests that started before it had a limit count too.
    #[inline]
    pub fn is_full(&self, member: &Member) -> bool {
        member.in_flight_max != 0 && self.is_at_limit(member)
    }

    /// Compares with the limit. Not inlined, as every pick needs it for two endpoints.
    #[inline(never)]
    fn is_at_limit(&self, member: &Member) -> bool {
        let max = member.in_flight_max;
        self.counts.held(member.slot).load(Relaxed) >= max || self.in_flight(member.slot) >= max
    }

    /// Counts a request towards the limit of an endpoint, and returns false if it is [full](Self::is_full). The limit
    /// is exact: never exceeded over all workers.
    #[inline]
    pub(crate) fn try_hold(&self, member: &Member) -> bool {
        let one_more = |held: u32| (held < member.in_flight_max).then_some(held + 1);
        let held = self.counts.held(member.slot);
        // Relaxed: only the number itself is shared; no other data is published by it.
        let after = if self.alone {
            one_more(held.load(Relaxed)).inspect(|&after| held.store(after, Relaxed))
        } else {
            held.fetch_update(Relaxed, Relaxed, one_more).ok().map(|before| before + 1)
        };
        let Some(after) = after else { return false };
        if self.counts.watch.peaks {
            let (observed, at) = self.counts.observed(member.slot);
            observed.on_hold(at, after);
        }
        true
    }

    /// Counts a start. `turn`: the endpoint was picked, and so had its turn, rather than chosen otherwise.
    #[inline]
    pub(crate) fn on_start(&mut self, slot: Slot, turn: bool) {
        self.count(&self.counts.chunks[slot.index() / CHUNK], slot.index() % CHUNK, 1);
        let mine = &mut self.mine[slot.index()];
        mine.in_flight += 1;
        // An endpoint that was slow or full for long returns at most a few turns behind, or it would win every tie
        // until it had made up for all it missed. The same bound holds for an endpoint that is ahead through sticky
        // sessions.
        let slack = self.slack as i64;
        let ahead = (mine.due.wrapping_sub(self.clock) as i64).clamp(-slack, slack);
        mine.due = self.clock.wrapping_add_signed(ahead + mine.stride as i64);
        if turn && ahead > 0 {
            self.clock = self.clock.wrapping_add_signed(ahead);
        }
    }

    /// Returns the outcome as it counts for algorithms and load reports, by the settings of the pool.
    #[inline]
    pub(crate) fn judged(&self, outcome: Outcome) -> Outcome {
        self.counts.watch.judged(outcome)
    }

    /// Counts an end, releases the held count, and records the outcome if that is wanted. Returns true if control has
    /// something to decide.
    #[inline]
    pub(crate) fn on_end(&mut self, slot: Slot, hold: Hold, end: &End) -> bool {
        let (chunk, at) = (&*self.counts.chunks[slot.index() / CHUNK], slot.index() % CHUNK);
        // Counted down before the hold is given back, so that a limit is never refused by a count that is about to
        // fall.
        self.count(chunk, at, MINUS_ONE);
        if hold.is_limited() {
            add(&chunk.held.0[at], MINUS_ONE, self.alone);
        }
        let mine = &mut self.mine[slot.index()];
        mine.in_flight -= 1;
        let failed = self.counts.watch.judged(end.outcome).is_failure();
        // A bit of this worker alone, so that successes in a row touch no shared memory.
        if (failed | mine.failed) && end.outcome != Outcome::Cancelled {
            mine.failed = failed;
            chunk.reported.on_outcome(at, failed, end.now);
        }
        let writer = Writer { shard: self.shard, sole: self.sole_writer };
        let watch = &self.counts.watch;
        watch.on && chunk.observed.on_end(at, hold.trial(), end.outcome, end.latency_ns, watch, writer)
    }

    #[inline]
    fn count(&self, chunk: &Chunk, at: usize, n: u32) {
        add(&chunk.shards[self.shard].0[at], n, self.sole_writer);
        add(&self.counts.totals[self.shard].0, n, self.sole_writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::endpoint::EndpointSpec;
    use crate::machines::slow_start::FULL;

    const END: End = End { outcome: Outcome::Success, latency_ns: 0, now: Instant(0) };

    fn member(slot: u32, in_flight_max: u32) -> Member {
        let id = EndpointId(u64::from(slot));
        Member { slot: Slot(slot), id, weight: 1, in_flight_max, ramp: FULL, trial: 0, tier: 0 }
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
                        mine.on_start(Slot((i % 3) as u32), true);
                        if i % 2 == 0 {
                            mine.on_end(Slot((i % 3) as u32), Hold::at(&member(0, 0)), &END);
                        }
                    }
                });
            }
        });
        assert_eq!((0..3).map(|i| counts.in_flight(Slot(i))).collect::<Vec<_>>(), [8000, 8000, 8000]);
        assert_eq!(counts.in_flight_total(), 24_000);
    }

    #[test]
    fn connections_of_the_kernel_are_in_flight_too() {
        let counts = Counts::new(2).grown_to(3);
        counts.set_external(Slot(1), 7);
        counts.set_external(Slot(2), 3);
        counts.set_external(Slot(1), 5);
        counts.set_external(Slot(900), 5);
        assert_eq!((0..3).map(|i| counts.in_flight(Slot(i))).collect::<Vec<_>>(), [0, 5, 3]);
        assert_eq!(counts.in_flight_total(), 8);
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
        let mut mine = loads(&counts, 0, 1);
        assert!(mine.is_full(&member(0, 777)));
        mine.on_start(Slot(0), true);
        mine.on_end(Slot(0), Hold::at(&member(0, 777)), &END);
        assert!(!mine.is_full(&member(0, 777)) && mine.try_hold(&member(0, 777)));
    }

    #[test]
    fn a_factor_on_all_weights_leaves_every_endpoint_in_turn() {
        let specs = |factor| ["a", "b", "c"].map(|n| EndpointSpec::new(n).weight(factor));
        let set = |factor| EndpointSet::new(&(0..).map(Slot).zip(specs(factor)).collect::<Vec<_>>());
        let counts = Counts::new(1).grown_to(3);
        let mut mine = Loads::new(counts.clone(), 0);
        for (step, factor) in [1, 256, 1, 100, 7].into_iter().enumerate() {
            mine.on_set(&set(factor), &counts);
            let mut turns = [0; 3];
            for _ in 0..30 + step {
                let due = (0..3).map(Slot).min_by_key(|&s| mine.ahead(s)).unwrap();
                turns[due.index()] += 1;
                mine.on_start(due, true);
            }
            assert!(turns.iter().all(|n| (10..=12).contains(n)), "factor {factor}: {turns:?}");
        }
    }

    #[test]
    fn turns_come_by_weight_and_no_endpoint_falls_more_than_four_behind() {
        let specs = [(Slot(0), EndpointSpec::new("a").weight(3)), (Slot(1), EndpointSpec::new("b"))];
        let counts = Counts::new(1).grown_to(2);
        let mut mine = Loads::new(counts.clone(), 0);
        mine.on_set(&EndpointSet::new(&specs), &counts);
        let mut turn = |among: &[u32]| {
            let due = among.iter().map(|&i| Slot(i)).min_by_key(|&s| mine.ahead(s)).unwrap();
            assert_eq!(mine.ahead(due), mine.ahead(due), "reading changed it");
            mine.on_start(due, true);
            due.index()
        };
        let got: Vec<usize> = (0..400).map(|_| turn(&[0, 1])).collect();
        assert_eq!(got.iter().filter(|&&s| s == 0).count(), 300);
        (0..1000).for_each(|_| assert_eq!(turn(&[0]), 0));
        let in_a_row = (0..100).take_while(|_| turn(&[0, 1]) == 1).count();
        assert!((4..=6).contains(&in_a_row), "{in_a_row}");
    }
}
