//! Least connections: the endpoint with the fewest requests in flight per weight.
//! Source: HAProxy `leastconn` in its aim; LSQ (Vargaftik, Keslassy and Orda 2020) for what other workers do.
//! Use when few balancers see long or uneven requests. Not when many independent balancers share endpoints: they herd.
//!
//! Counts requests at L7 and connections at L4. This worker's own requests are exact. Those of sibling workers are read
//! at two endpoints a pick, the next one in turn and the one about to be picked: no lock, and no scan of all.

use crate::balancer::End;
use crate::buckets::Buckets;
use crate::endpoint::EndpointId;
use crate::heap::IndexedHeap;
use crate::loads::Loads;
use crate::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises, Seat};
use crate::set::{EndpointSet, Member, Slot};
use crate::time::Instant;

/// The row of the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "leastconn",
    aliases: &["least_conn", "least_request", "leastrequest"],
    summary: "the endpoint with the fewest requests in flight per weight, of equal ones the one whose turn it is",
    docs: include_str!("docs/leastconn.md"),
    source: "HAProxy, balance leastconn; Vargaftik, Keslassy and Orda, LSQ: Load Balancing in Large-Scale \
             Heterogeneous Systems with Multiple Dispatchers (2020)",
    needs: Needs { key: false, in_flight: true, latency: false, probes: false },
    promises: Promises {
        shares_when_idle: true,
        shares_when_busy: true,
        shares_whatever_the_load: false,
        affinity: false,
    },
    params: &[],
    table: None,
    new: |_, seat| Ok(Box::new(LeastConn { seat, ..LeastConn::default() })),
};

/// Virtual time counts in 1 / 2^32 of a round of turns, so that 2^16 rounds fit beside the level.
const TURN_BITS: u32 = 48;
const LEVEL_MAX: u64 = (1 << (64 - TURN_BITS)) - 1;

/// Most candidates that an explanation lists.
const EXPLAINED_MAX: usize = 16;

#[derive(Default)]
struct LeastConn {
    seat: Seat,
    order: Order,
    /// By slot.
    known: Vec<Known>,
    /// Virtual time is counted from here in the order of unequal weights.
    epoch: u64,
    /// Starts so far.
    starts: u64,
    /// The place in the set of the endpoint whose sibling requests are read next.
    read_next: usize,
}

#[derive(Clone, Copy)]
struct Known {
    id: EndpointId,
    /// Its weight in units of the lightest, inverted, times 2^32, rounded up; 0 when it is not in the set.
    grain: u64,
    /// What sibling workers had in flight there when we last looked.
    siblings: u32,
    /// The number of its latest start here; 0 for none.
    latest: u64,
}

/// Endpoints by load. Those found full are taken out until they are seen to have room.
enum Order {
    /// With equal weights: by load, and of equal ones the one picked longest ago.
    Equal(Buckets),
    /// With unequal weights: by [`place`].
    Weighted(IndexedHeap<u64>),
}

impl Default for Order {
    fn default() -> Order {
        Order::Equal(Buckets::default())
    }
}

impl Order {
    fn new(set: &EndpointSet) -> Order {
        if set.weights_equal() {
            let mut buckets = Buckets::default();
            buckets.clear(set.slots());
            Order::Equal(buckets)
        } else {
            let mut heap = IndexedHeap::default();
            heap.clear(set.slots());
            Order::Weighted(heap)
        }
    }

    fn remove(&mut self, slot: Slot) {
        match self {
            Order::Equal(buckets) => buckets.remove(slot.0),
            Order::Weighted(heap) => heap.remove(slot.0),
        }
    }

    fn has(&self, slot: Slot) -> bool {
        match self {
            Order::Equal(buckets) => buckets.has(slot.0),
            Order::Weighted(heap) => heap.key(slot.0).is_some(),
        }
    }

    #[inline]
    fn first(&mut self) -> Option<Slot> {
        match self {
            Order::Equal(buckets) => buckets.first(),
            Order::Weighted(heap) => heap.first(),
        }
        .map(Slot)
    }

    fn first_where(&mut self, mut admits: impl FnMut(Slot) -> bool) -> Option<Slot> {
        match self {
            Order::Equal(buckets) => buckets.first_where(|s| admits(Slot(s))),
            Order::Weighted(heap) => heap.first_where(|s| admits(Slot(s))),
        }
        .map(Slot)
    }
}

impl Picker for LeastConn {
    #[inline]
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        let watches = self.seat.workers > 1;
        if watches {
            self.read_one_more(cx);
        }
        let mut slot = self.least(cx)?;
        // If more is in flight there than we thought, the next one gets the request; unseen load of that one shows
        // when it comes up itself.
        if watches && self.read(slot, cx.loads) {
            slot = self.least(cx)?;
        }
        if cx.trace.is_some() {
            self.explain(cx, slot);
        }
        Ok(slot)
    }

    fn on_set(&mut self, set: &EndpointSet, loads: &Loads, _now: Instant) {
        let absent = Known { id: EndpointId(0), grain: 0, siblings: 0, latest: 0 };
        let old = std::mem::replace(&mut self.known, vec![absent; set.slots()]);
        self.order = Order::new(set);
        self.epoch = epoch(loads);
        let lightest = u64::from(set.members().iter().map(|m| m.weight).min().unwrap_or(1));
        // Workers start at different places, or all would hit the same endpoint first.
        let at = u64::from(self.seat.worker) * set.len() as u64 / u64::from(self.seat.workers);
        let (early, late) = set.members().split_at(at as usize % set.len().max(1));
        let mut slots: Vec<_> = late.iter().chain(early).collect();
        for m in &slots {
            let before = old.get(m.slot.index()).filter(|k| k.id == m.id);
            let latest = before.map_or(0, |k| k.latest);
            let siblings = siblings_at(m.slot, loads);
            self.known[m.slot.index()] =
                Known { id: m.id, grain: (lightest << 32).div_ceil(u64::from(m.weight)), siblings, latest };
        }
        slots.sort_by_key(|m| self.known[m.slot.index()].latest);
        slots.iter().for_each(|m| self.put(m.slot, loads));
    }

    #[inline]
    fn on_start(&mut self, slot: Slot, loads: &Loads, _now: Instant) {
        self.starts += 1;
        if loads.clock().wrapping_sub(self.epoch) > 1 << (TURN_BITS - 1) {
            self.begin_epoch(loads);
        }
        if let Some(known) = self.known.get_mut(slot.index()) {
            known.latest = self.starts;
            self.put(slot, loads);
        }
    }

    #[inline]
    fn on_end(&mut self, slot: Slot, _end: &End, loads: &Loads) {
        self.put(slot, loads);
    }
}

impl LeastConn {
    /// Every 2^15 rounds of turns.
    #[cold]
    fn begin_epoch(&mut self, loads: &Loads) {
        self.epoch = epoch(loads);
        for slot in (0..self.known.len() as u32).map(Slot) {
            if self.order.has(slot) {
                self.put(slot, loads);
            }
        }
    }

    /// Puts an endpoint of the set where it belongs.
    #[inline]
    fn put(&mut self, slot: Slot, loads: &Loads) {
        let Some(known) = self.known.get(slot.index()).filter(|k| k.grain > 0) else { return };
        let load = loads.in_flight_here(slot).saturating_add(known.siblings);
        match &mut self.order {
            Order::Equal(buckets) => buckets.put(slot.0, load, known.latest),
            Order::Weighted(heap) => {
                let (due, stride) = loads.turn(slot);
                let turn = due.wrapping_sub(self.epoch).wrapping_add(u64::from(load).wrapping_mul(stride));
                heap.put(slot.0, place(load, known.grain, turn as i64));
            }
        }
    }

    /// Reads the sibling requests of each endpoint in turn, one a pick: none is believed for longer than n picks.
    #[inline]
    fn read_one_more(&mut self, cx: &PickContext<'_>) {
        if self.read_next >= cx.set.len() {
            self.read_next = 0;
        }
        let Some(m) = cx.set.members().get(self.read_next) else { return };
        self.read_next += 1;
        if !self.read(m.slot, cx.loads) && !self.order.has(m.slot) && !cx.loads.is_full(m) {
            self.put(m.slot, cx.loads);
        }
    }

    /// Reads what sibling workers have in flight at one endpoint; whether that is news.
    #[inline]
    fn read(&mut self, slot: Slot, loads: &Loads) -> bool {
        let siblings = siblings_at(slot, loads);
        let known = &mut self.known[slot.index()];
        let news = siblings != known.siblings;
        if news {
            known.siblings = siblings;
            self.put(slot, loads);
        }
        news
    }

    /// The first in order that may be picked.
    #[inline]
    fn least(&mut self, cx: &PickContext<'_>) -> Result<Slot, NoPick> {
        let admits = |slot: &Slot| cx.set.get(*slot).is_some_and(|m| cx.admits(m));
        match self.order.first().filter(admits) {
            Some(slot) => Ok(slot),
            None => self.look_further(cx),
        }
    }

    /// Past those tried, and takes out those that are full, so that no later pick walks over them again. Each removal
    /// is paid for by the start that filled the endpoint.
    #[cold]
    fn look_further(&mut self, cx: &PickContext<'_>) -> Result<Slot, NoPick> {
        while let Some(slot) = self.order.first_where(|s| !cx.tried.contains(&s)) {
            if cx.set.get(slot).is_some_and(|m| !cx.loads.is_full(m)) {
                return Ok(slot);
            }
            self.order.remove(slot);
        }
        // Some that were taken out may have room again by what siblings ended. O(n), at saturation only.
        let open = cx.set.members().iter().filter(|m| cx.admits(m));
        open.min_by_key(|m| self.level(m.slot, cx.loads)).map(|m| m.slot).ok_or_else(|| cx.refusal())
    }

    /// Requests in flight, in whole requests of the lightest endpoint.
    fn level(&self, slot: Slot, loads: &Loads) -> u64 {
        let known = &self.known[slot.index()];
        level(loads.in_flight_here(slot).saturating_add(known.siblings), known.grain)
    }

    /// The picked one, and those that were as little loaded.
    #[cold]
    fn explain(&self, cx: &mut PickContext<'_>, picked: Slot) {
        let least = self.level(picked, cx.loads);
        let equal = |m: &&Member| m.slot != picked && cx.admits(m) && self.level(m.slot, cx.loads) == least;
        let others: Vec<_> = cx.set.members().iter().filter(equal).take(EXPLAINED_MAX - 1).collect();
        if let Some(trace) = cx.trace.as_deref_mut() {
            trace.rule = if others.is_empty() {
                "fewest in flight per weight"
            } else {
                "its turn, among those with the fewest in flight per weight"
            };
            for m in cx.set.get(picked).into_iter().chain(others) {
                trace.candidate(m, cx.loads, Some(self.level(m.slot, cx.loads) as f64));
            }
        }
    }
}

/// In whole requests of the lightest endpoint. Exact below 65,536 requests and weights: the rounding up of the grain
/// adds less than one part of the weight.
#[inline]
fn level(load: u32, grain: u64) -> u64 {
    (u64::from(load) * grain) >> 32
}

/// Where an endpoint stands when weights differ, lowest first.
///
/// Plain load / weight would break the shares at low load: of an endpoint of weight 10 with one request and one of
/// weight 1 with none, the latter would always come first. So load counts in whole requests of the lightest endpoint,
/// rounded down, and below that grain turns decide, where each request in flight sets an endpoint back by one turn.
/// Then idle endpoints take turns exactly by weight, shares follow the weights however many requests overlap, and no
/// endpoint gets ahead of another by more than one request of the lightest.
#[inline]
fn place(load: u32, grain: u64, turn: i64) -> u64 {
    (level(load, grain).min(LEVEL_MAX) << TURN_BITS) | (turn.max(0) as u64).min((1 << TURN_BITS) - 1)
}

/// 256 rounds ago: whoever had no turn for longer is as early as can be.
fn epoch(loads: &Loads) -> u64 {
    loads.clock().wrapping_sub(256 << 32)
}

#[inline]
fn siblings_at(slot: Slot, loads: &Loads) -> u32 {
    let siblings = loads.in_flight(slot).wrapping_sub(loads.in_flight_here(slot));
    // A start and an end at siblings may be seen in either order: below 0 is 0.
    if siblings > u32::MAX / 2 { 0 } else { siblings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balancer, EndpointSpec, Outcome, Params, Pool, Request, Rng, Ticket};

    fn pool(workers: u32, weights: &[u32]) -> Pool {
        let mut pool = Pool::new(workers);
        let spec = |(i, &w): (usize, &u32)| EndpointSpec::new(&i.to_string()).weight(w);
        pool.update(&weights.iter().enumerate().map(spec).collect::<Vec<_>>());
        pool
    }

    fn balancer(pool: &Pool, worker: u32, workers: u32) -> Balancer {
        pool.balancer(&ALGORITHM, &Params::defaults(&[]), Seat { worker, workers }, 1).unwrap()
    }

    fn start(b: &mut Balancer) -> Ticket {
        b.start(&Request::default(), Instant(0)).unwrap()
    }

    fn end(b: &mut Balancer, t: Ticket) {
        b.end(t, Outcome::Success, Instant(0));
    }

    /// The slots of `count` requests that come one at a time.
    fn one_at_a_time(b: &mut Balancer, count: usize) -> Vec<usize> {
        let mut pick = |_| {
            let t = start(b);
            let slot = t.slot().index();
            end(b, t);
            slot
        };
        (0..count).map(&mut pick).collect()
    }

    #[test]
    fn the_interval_between_two_picks_of_one_endpoint_is_the_longest_possible() {
        let pool = pool(1, &[1; 7]);
        let mut b = balancer(&pool, 0, 1);
        let got = one_at_a_time(&mut b, 70);
        assert!(got[7..].iter().zip(&got).all(|(later, earlier)| later == earlier), "{got:?}");
        // Also where requests do not end in the order in which they began.
        let mut held: Vec<_> = (0..7).map(|_| start(&mut b)).collect();
        held.drain(..).rev().for_each(|t| end(&mut b, t));
        assert_eq!(one_at_a_time(&mut b, 7), got[..7]);
    }

    #[test]
    fn weights_hold_exactly_when_all_are_idle() {
        let pool = pool(1, &[10, 1, 1, 1]);
        let got = one_at_a_time(&mut balancer(&pool, 0, 1), 13_000);
        let count = |slot| got.iter().filter(|&&s| s == slot).count();
        assert_eq!([0, 1, 2, 3].map(count), [10_000, 1000, 1000, 1000]);
    }

    #[test]
    fn never_more_in_flight_than_one_request_of_the_lightest_ahead_of_the_least() {
        for weights in [vec![1; 5], vec![10, 1, 1, 1], vec![100, 100, 1], vec![7, 5, 3]] {
            let pool = pool(1, &weights);
            let (mut b, mut rng, mut held) = (balancer(&pool, 0, 1), Rng::new(8), Vec::new());
            let lightest = *weights.iter().min().unwrap();
            for _ in 0..20_000 {
                if rng.below(100) < 52 || held.is_empty() {
                    let level = |s: usize| b.loads().in_flight(Slot(s as u32)) * lightest / weights[s];
                    let least = (0..weights.len()).map(level).min().unwrap();
                    let levels: Vec<_> = (0..weights.len()).map(level).collect();
                    let t = start(&mut b);
                    assert_eq!(levels[t.slot().index()], least, "weights {weights:?}, levels {levels:?}");
                    held.push(t);
                } else {
                    let t = held.swap_remove(rng.below(held.len() as u32) as usize);
                    end(&mut b, t);
                }
            }
            held.into_iter().for_each(|t| end(&mut b, t));
        }
    }

    #[test]
    fn what_siblings_have_in_flight_is_known_and_forgotten_within_n_picks() {
        let pool = pool(2, &[1; 8]);
        let [mut us, mut them] = [0, 1].map(|worker| balancer(&pool, worker, 2));
        one_at_a_time(&mut us, 1);
        let theirs: Vec<_> = (0..50).map(|_| them.start_at(Slot(3), Instant(0)).unwrap()).collect();
        assert!(!one_at_a_time(&mut us, 50).contains(&3), "the one about to be picked is always read");
        theirs.into_iter().for_each(|t| end(&mut them, t));
        assert!(one_at_a_time(&mut us, 16).contains(&3));
    }

    #[test]
    fn workers_start_apart() {
        let pool = pool(4, &[1; 4]);
        let first = |worker| {
            let mut b = balancer(&pool, worker, 4);
            one_at_a_time(&mut b, 1)[0]
        };
        assert_eq!([0, 1, 2, 3].map(first), [0, 1, 2, 3]);
    }

    #[test]
    fn room_made_by_a_sibling_is_found() {
        let mut pool = Pool::new(2);
        let spec = |i: usize| EndpointSpec::new(&i.to_string()).in_flight_max(if i == 0 { 1 } else { 0 });
        pool.update(&(0..4).map(spec).collect::<Vec<_>>());
        let [mut us, mut them] = [0, 1].map(|worker| balancer(&pool, worker, 2));
        let theirs = them.start_at(Slot(0), Instant(0)).unwrap();
        // All have one in flight; the full one would be the first in order.
        let ours: Vec<_> = (0..6).map(|_| start(&mut us)).collect();
        assert!(ours.iter().all(|t| t.slot() != Slot(0)));
        end(&mut them, theirs);
        let next: Vec<_> = (0..4).map(|_| start(&mut us)).collect();
        assert!(next.iter().any(|t| t.slot() == Slot(0)));
        ours.into_iter().chain(next).for_each(|t| end(&mut us, t));
    }
}
