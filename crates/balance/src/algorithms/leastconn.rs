//! Least connections: the endpoint with the fewest requests in flight per weight.
//!
//! Source: HAProxy `leastconn` for the aim; LSQ (Vargaftik, Keslassy and Orda 2020) for the requests of other workers.
//! Use it for long or uneven requests. With many independent balancers the endpoints have to report their requests in
//! flight: otherwise each balancer knows only its own requests, and all would choose the same idle endpoint at once.
//!
//! Counts requests at L7 and connections at L4. This worker's own requests are exact. The requests of sibling workers,
//! and endpoints' reports about other balancers, are read at a few endpoints per pick: no lock, and no scan of all. An
//! endpoint that reports clearly longer times than others of its weight counts as busier.

mod params;
#[cfg(test)]
mod tests;

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::loads::Loads;
use crate::measurement::report::LoadReport;
use crate::parts::load_order::{LoadOrder, Standing};
use crate::parts::peer_load::{PeerLoad, UNKNOWN};
use crate::parts::probe_budget::ProbeBudget;
use crate::parts::slowness::Slowness;
use crate::seam::balancer::End;
use crate::seam::explain::{By, EXPLAINED_MAX, LoadParts};
use crate::seam::params::Params;
use crate::seam::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises, Seat};
use crate::structures::time::Instant;

/// Row of the registry for `leastconn`.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "leastconn",
    aliases: &["least_conn", "least_request", "leastrequest"],
    summary: "picks the endpoint with the fewest requests in flight per weight; equally loaded endpoints take turns, \
              and an endpoint that reports high latency counts as busier",
    docs: include_str!("docs/leastconn.md"),
    source: "HAProxy, balance leastconn; Vargaftik, Keslassy and Orda, LSQ: Load Balancing in Large-Scale \
             Heterogeneous Systems with Multiple Dispatchers (2020)",
    needs: Needs { key: false, in_flight: true, ends: true, latency: false, probes: false },
    asks: true,
    promises: Promises { shares_when_idle: true, shares_when_busy: true, ..Promises::NONE },
    params: params::ALL,
    table: None,
    prepare: None,
    new: |params, seat| Ok(Box::new(LeastConn::new(params, seat))),
};

/// Fewest picks between searches for slow endpoints. In larger pools there are as many picks between
/// searches as endpoints, so that the cost of a pick stays at some nanoseconds. A search goes over all endpoints once
/// per class of weight: up to 8 times, and with more weights once per doubling of weight.
const LOOK_EVERY_MIN: usize = 32;

/// Class of endpoints that are not in the set.
const NO_CLASS: u32 = u32::MAX;

struct LeastConn {
    seat: Seat,
    /// Endpoints whose sibling requests are read per pick: in turn, and when about to be picked.
    reads: (u64, u64),
    report_age_max_ns: u64,
    budget: ProbeBudget,
    /// True if an endpoint of the pool has reported its load recently. The next fields are used only then.
    shared: bool,
    peer_load: PeerLoad,
    slowness: Slowness,
    /// Picks until the next search for slow endpoints.
    look_in: usize,
    /// Endpoints that a search found to have become slow, or to be slow no longer.
    changed: Vec<Slot>,
    /// Endpoints that have reported to this worker since its latest pick.
    news: Vec<Slot>,
    /// Endpoints by load, in classes of similar weight; among equals, the endpoint picked longest ago first. Those
    /// found full are removed until they are seen to have room.
    order: LoadOrder,
    /// State of each endpoint, by slot.
    known: Vec<Known>,
    /// First endpoint of each class. Only used during a pick.
    firsts: Vec<Ranked>,
    /// Starts so far, of all endpoints.
    starts: u64,
    /// Index in the set of the endpoint whose sibling requests are read next.
    read_next: usize,
}

#[derive(Clone, Copy)]
struct Known {
    id: EndpointId,
    weight: u32,
    /// Class of the endpoint in `order`.
    class: u32,
    /// Requests in flight there that are not this worker's, when last read.
    elsewhere: u32,
    /// Requests of other balancers, by the endpoint's report; [`UNKNOWN`] if it has not reported recently.
    peer_load: u32,
    /// Part of `elsewhere` that is counted for other balancers: the number in the endpoint's report, or the usual
    /// number.
    others: u32,
    /// Number of its latest start here; 0 for none.
    latest: u64,
}

#[derive(Clone, Copy)]
struct Ranked {
    slot: Slot,
    load: u32,
    weight: u32,
}

impl Ranked {
    /// True if `other`, with another request, would still have no more per weight than this endpoint has without it. A
    /// smaller difference is an artefact of whole requests. Treating it as load would break the shares at low load,
    /// where a single request at an endpoint of weight 10 would always lose to none at one of weight 1. With equal
    /// weights this means that this endpoint has more in flight.
    #[inline]
    fn yields_to(&self, other: &Ranked) -> bool {
        (u64::from(other.load) + 1) * u64::from(self.weight) <= u64::from(self.load) * u64::from(other.weight)
    }
}

impl Picker for LeastConn {
    #[inline]
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        // Reports that only come with responses are recent for endpoints that answer fast, and old for the others: in
        // simulations with sidecars they are worse than no reports at all. So they count only where endpoints are
        // asked.
        let fresh = self.report_age_max_ns;
        let shared =
            self.budget.asked_within(fresh, cx.now) && cx.loads.heard_ns_ago(cx.now).is_some_and(|ago| ago <= fresh);
        if shared != self.shared {
            self.share(shared, cx);
        }
        if shared {
            self.look(cx);
        }
        let (in_turn, again) = if self.seat.workers > 1 || shared { self.reads } else { (0, 0) };
        while let Some(slot) = self.news.pop() {
            self.read(slot, cx.loads, cx.now);
        }
        for _ in 0..in_turn {
            self.read_one_more(cx);
        }
        let mut slot = self.least(cx)?;
        // If more is in flight there than was known, the next endpoint gets the request; its unseen load is read when
        // it becomes the first itself.
        for _ in 0..again {
            if !self.read(slot, cx.loads, cx.now) {
                break;
            }
            slot = self.least(cx)?;
        }
        if cx.trace.is_some() {
            self.explain(cx, slot);
        }
        Ok(slot)
    }

    fn on_set(&mut self, set: &EndpointSet, loads: &Loads, now: Instant) {
        let absent = Known {
            id: EndpointId(0),
            weight: 0,
            class: NO_CLASS,
            elsewhere: 0,
            peer_load: UNKNOWN,
            others: 0,
            latest: 0,
        };
        let old = std::mem::replace(&mut self.known, vec![absent; set.slots()]);
        self.order = LoadOrder::new(set, loads.clock());
        // Workers start at different places of the round, or all would hit the same endpoint first.
        let at = u64::from(self.seat.worker) * set.len() as u64 / u64::from(self.seat.workers);
        let (early, late) = set.members().split_at(at as usize % set.len().max(1));
        let mut slots: Vec<_> = late.iter().chain(early).collect();
        for m in &slots {
            let before = old.get(m.slot.index()).filter(|k| k.id == m.id);
            let latest = before.map_or(0, |k| k.latest);
            let class = self.order.class(m.weight);
            self.known[m.slot.index()] = Known { id: m.id, weight: m.weight, class, latest, ..absent };
        }
        let known = &self.known;
        self.slowness.on_set(set.slots(), |slot| old.get(slot).is_some_and(|k| k.id == known[slot].id));
        self.look_in = 0;
        self.peer_load = PeerLoad::default();
        self.news.clear(); // all are read below
        slots.sort_by_key(|m| self.known[m.slot.index()].latest);
        // Twice, as the usual load is not known yet the first time.
        for _ in 0..2 {
            slots.iter().for_each(|m| _ = self.read(m.slot, loads, now));
        }
        slots.iter().for_each(|m| self.put(m.slot, loads));
    }

    #[inline]
    fn on_start(&mut self, slot: Slot, loads: &Loads, _now: Instant) {
        self.starts += 1;
        self.budget.on_start();
        if self.order.is_past(loads.clock()) {
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

    fn on_report(&mut self, slot: Slot, report: &LoadReport, now: Instant) {
        self.slowness.on_report(slot, report, now);
        // If reports arrive without any pick, those left out here are read in turn.
        if self.is_in_set(slot) && self.news.len() < self.known.len() {
            self.news.push(slot);
        }
    }

    fn poll_probe(&mut self, cx: &mut PickContext<'_>) -> Option<Slot> {
        if !self.budget.is_due(cx) || !self.budget.may_send(cx.now) {
            return None;
        }
        // First the endpoint to be picked next, whose load matters most as the next request depends on it. Then any, so
        // that an endpoint that has become less busy is found. Simulated with 100 balancers at 90 % load and two probes
        // per request, by requests in flight alone: p99 113 ms for any two, 128 in turn, 104 for the next two, 100 for
        // the next endpoint and any.
        let next = if self.budget.is_first() { self.least(cx).ok() } else { None };
        match next {
            Some(slot) => self.budget.ask(slot),
            None => self.budget.ask_any(cx),
        }
    }
}

impl LeastConn {
    fn new(params: &Params, seat: Seat) -> LeastConn {
        let reads = params.int("sibling_reads");
        // Most reads are of endpoints about to be picked. Simulated with 64 workers and four reads: p99 91 ms with half
        // of them in turn, 90 with a single endpoint, 101 with three.
        let in_turn = reads.div_ceil(4);
        LeastConn {
            seat,
            reads: (in_turn, reads - in_turn),
            report_age_max_ns: params.duration_ns("report_age_max"),
            budget: ProbeBudget::new(params.float("samples"), params.int("probe_rate_max")),
            shared: false,
            peer_load: PeerLoad::default(),
            slowness: Slowness::new(params.float("slow_factor")),
            look_in: 0,
            changed: Vec::new(),
            news: Vec::new(),
            order: LoadOrder::default(),
            known: Vec::new(),
            firsts: Vec::new(),
            starts: 0,
            read_next: 0,
        }
    }

    fn is_in_set(&self, slot: Slot) -> bool {
        self.known.get(slot.index()).is_some_and(|k| k.class != NO_CLASS)
    }

    /// Switches when endpoints start to report their requests in flight, or when none does any more: from then on only
    /// the requests of this process count. O(n).
    #[cold]
    fn share(&mut self, shared: bool, cx: &PickContext<'_>) {
        self.shared = shared;
        self.look_in = 0;
        if !shared && self.slowness.is_any() {
            self.slowness.clear();
            cx.set.members().iter().for_each(|m| self.put(m.slot, cx.loads));
        }
        for _ in 0..2 {
            cx.set.members().iter().for_each(|m| _ = self.read(m.slot, cx.loads, cx.now));
        }
    }

    /// Searches for slow endpoints, if enough picks have passed since the last search.
    #[inline]
    fn look(&mut self, cx: &PickContext<'_>) {
        match self.look_in.checked_sub(1) {
            Some(left) => self.look_in = left,
            None => self.look_now(cx),
        }
    }

    #[cold]
    fn look_now(&mut self, cx: &PickContext<'_>) {
        self.look_in = cx.set.len().max(LOOK_EVERY_MIN);
        for class in 0..self.order.classes() {
            let known = &self.known;
            let alike = cx.set.members().iter().map(|m| m.slot).filter(|s| known[s.index()].class == class);
            self.slowness.look(alike, cx.now, &mut self.changed);
        }
        let mut changed = std::mem::take(&mut self.changed);
        for slot in changed.drain(..) {
            if self.is_in_order(slot) {
                self.put(slot, cx.loads);
            }
        }
        self.changed = changed; // keeps the allocation
    }

    /// Requests in flight at an endpoint, or more if it is slow.
    #[inline]
    fn load(&self, slot: Slot, loads: &Loads) -> u32 {
        let in_flight = loads.in_flight_here(slot).saturating_add(self.known[slot.index()].elsewhere);
        self.slowness.load(slot, in_flight)
    }

    /// Places all endpoints again, every 2^15 rounds of turns.
    #[cold]
    fn begin_epoch(&mut self, loads: &Loads) {
        self.order.begin_epoch(loads.clock());
        for slot in (0..self.known.len() as u32).map(Slot) {
            if self.is_in_order(slot) {
                self.put(slot, loads);
            }
        }
    }

    /// Moves an endpoint of the set to its place in the order.
    #[inline]
    fn put(&mut self, slot: Slot, loads: &Loads) {
        let Some(known) = self.known.get(slot.index()).filter(|k| k.class != NO_CLASS) else { return };
        let load = self.slowness.load(slot, loads.in_flight_here(slot).saturating_add(known.elsewhere));
        let at = Standing { load, weight: known.weight, latest: known.latest, turn: loads.turn(slot) };
        self.order.put(slot.0, known.class, &at);
    }

    fn is_in_order(&self, slot: Slot) -> bool {
        self.order.has(slot.0, self.known[slot.index()].class)
    }

    /// Reads the sibling requests of the next endpoint in turn. With a read per pick, no number is older than n picks.
    #[inline]
    fn read_one_more(&mut self, cx: &PickContext<'_>) {
        if self.read_next >= cx.set.len() {
            self.read_next = 0;
        }
        let Some(m) = cx.set.members().get(self.read_next) else { return };
        self.read_next += 1;
        if !self.read(m.slot, cx.loads, cx.now) && !self.is_in_order(m.slot) && !cx.loads.is_full(m) {
            self.put(m.slot, cx.loads);
        }
    }

    /// Reads the requests of others at an endpoint. Returns true if their number has changed.
    #[inline]
    fn read(&mut self, slot: Slot, loads: &Loads, now: Instant) -> bool {
        let mut elsewhere = if self.reads.0 > 0 { siblings_at(slot, loads) } else { 0 };
        if self.shared {
            elsewhere = elsewhere.saturating_add(self.others_at(slot, loads, now));
        }
        let known = &mut self.known[slot.index()];
        let news = elsewhere != known.elsewhere;
        if news {
            known.elsewhere = elsewhere;
            self.put(slot, loads);
        }
        news
    }

    /// Returns the requests of other balancers at an endpoint: the number in its report, or else the usual number.
    fn others_at(&mut self, slot: Slot, loads: &Loads, now: Instant) -> u32 {
        let known = &mut self.known[slot.index()];
        let peer_load = loads.others(slot, now).filter(|others| others.age_ns <= self.report_age_max_ns);
        let peer_load = peer_load.map_or(UNKNOWN, |others| others.in_flight);
        self.peer_load.replace(known.peer_load, peer_load, known.weight);
        known.peer_load = peer_load;
        known.others = if peer_load == UNKNOWN { self.peer_load.usual(known.weight) } else { peer_load };
        known.others
    }

    /// Returns the first endpoint in order that may be picked.
    #[inline]
    fn least(&mut self, cx: &PickContext<'_>) -> Result<Slot, NoPick> {
        let first = match self.order.classes() {
            1 => self.order.first(0).map(Slot),
            _ => self.across(cx.loads, |order, class| order.first(class)),
        };
        let admits = |slot: &Slot| cx.set.get(*slot).is_some_and(|m| cx.admits(m));
        match first.filter(admits) {
            Some(slot) => Ok(slot),
            None => self.look_further(cx),
        }
    }

    /// Compares the first endpoints of all classes: keeps those that yield to none, and returns the endpoint whose turn
    /// it is by weight. O(classes).
    #[inline]
    fn across(&mut self, loads: &Loads, first: impl Fn(&mut LoadOrder, u32) -> Option<u32>) -> Option<Slot> {
        self.firsts.clear();
        let mut bar: Option<Ranked> = None;
        for class in 0..self.order.classes() {
            let Some(slot) = first(&mut self.order, class).map(Slot) else { continue };
            let new = Ranked { slot, load: self.load(slot, loads), weight: self.known[slot.index()].weight };
            self.firsts.push(new);
            // The lowest (load + 1) / weight: an endpoint that yields to any other yields to this endpoint.
            let after = |r: &Ranked, other: u32| (u64::from(r.load) + 1) * u64::from(other);
            if bar.is_none_or(|old| after(&new, old.weight) < after(&old, new.weight)) {
                bar = Some(new);
            }
        }
        let bar = bar?;
        let stays = self.firsts.iter().filter(|f| !f.yields_to(&bar));
        stays.min_by_key(|f| loads.ahead(f.slot)).map(|f| f.slot)
    }

    /// Searches past the first endpoints: skips those tried, and removes those that are full so that later picks do not
    /// walk over them again. Each removal is paid for by the start that filled the endpoint.
    #[cold]
    fn look_further(&mut self, cx: &PickContext<'_>) -> Result<Slot, NoPick> {
        let untried = |order: &mut LoadOrder, class| order.first_where(class, |s| !cx.tried.contains(Slot(s)));
        while let Some(slot) = self.across(cx.loads, untried) {
            if cx.set.get(slot).is_some_and(|m| !cx.loads.is_full(m)) {
                return Ok(slot);
            }
            self.order.remove(slot.0, self.known[slot.index()].class);
        }
        // Some that were removed may have room again, as siblings ended requests. O(n), at saturation only.
        let open = cx.set.members().iter().filter(|m| cx.admits(m));
        let least = open.min_by(|a, b| self.per_weight(a, cx).total_cmp(&self.per_weight(b, cx)));
        least.map(|m| m.slot).ok_or_else(|| cx.refusal())
    }

    fn per_weight(&self, m: &Member, cx: &PickContext<'_>) -> f64 {
        f64::from(self.load(m.slot, cx.loads)) / f64::from(m.weight)
    }

    /// Explains the pick: lists the first of each class, as they were compared, and the endpoints behind the pick in
    /// its class.
    #[cold]
    fn explain(&mut self, cx: &mut PickContext<'_>, picked: Slot) {
        if !self.is_in_order(picked) {
            return self.explain_least(cx);
        }
        let class = self.known[picked.index()].class;
        let of_class = |slot: Slot| (slot, self.known[slot.index()].class);
        let mut listed = match self.order.classes() {
            1 => vec![(picked, class)],
            _ => self.firsts.iter().map(|first| of_class(first.slot)).collect(),
        };
        let firsts = listed.len();
        while listed.len() < EXPLAINED_MAX.max(firsts) {
            let is_next = |s: u32| {
                listed.iter().all(|(slot, _)| slot.0 != s) && cx.set.get(Slot(s)).is_some_and(|m| cx.admits(m))
            };
            let Some(next) = self.order.first_where(class, is_next) else { break };
            listed.push((Slot(next), class));
        }
        let Some(trace) = cx.trace.as_deref_mut() else { return };
        trace.by = By::Classes;
        trace.rule = match (listed.len() > 1, self.slowness.is_any()) {
            (false, false) => "fewest in flight per weight",
            (false, true) => "fewest in flight per weight, slow ones counted as busier",
            (true, false) => "its turn, among those with the fewest in flight per weight",
            (true, true) => "its turn, among those with the fewest in flight per weight, slow ones counted as busier",
        };
        for (i, (slot, class)) in listed.into_iter().enumerate() {
            let Some(m) = cx.set.get(slot) else { continue };
            let load = self.load(slot, cx.loads);
            trace.candidate(m, cx.loads, Some(f64::from(load) / f64::from(m.weight)));
            trace.told(f64::from(load), 0);
            trace.counted(self.parts(slot, cx.loads));
            trace.placed(class, i.saturating_sub(firsts - 1) as u32);
        }
    }

    /// Returns the load of an endpoint by the source of the counts, before slowness.
    fn parts(&self, slot: Slot, loads: &Loads) -> LoadParts {
        let known = &self.known[slot.index()];
        let others = self.shared.then_some(known.others);
        let siblings = known.elsewhere.saturating_sub(others.unwrap_or(0));
        LoadParts { here: loads.in_flight_here(slot), siblings, others }
    }

    /// Explains a pick for which every endpoint in order was full or tried.
    #[cold]
    fn explain_least(&self, cx: &mut PickContext<'_>) {
        let mut open: Vec<&Member> = cx.set.members().iter().filter(|m| cx.admits(m)).collect();
        open.sort_by(|a, b| self.per_weight(a, cx).total_cmp(&self.per_weight(b, cx)));
        let scores: Vec<f64> = open.iter().map(|m| self.per_weight(m, cx)).collect();
        let Some(trace) = cx.trace.as_deref_mut() else { return };
        trace.by = By::Lowest;
        trace.rule = "fewest in flight per weight of the few with room, the first listed of equal ones";
        let mut scores = scores.into_iter();
        trace.list(open.into_iter(), |trace, m| {
            trace.candidate(m, cx.loads, scores.next());
            trace.told(f64::from(self.load(m.slot, cx.loads)), 0);
            trace.counted(self.parts(m.slot, cx.loads));
        });
    }
}

#[inline]
fn siblings_at(slot: Slot, loads: &Loads) -> u32 {
    let siblings = loads.in_flight(slot).wrapping_sub(loads.in_flight_here(slot));
    // A start and an end at siblings may be seen in either order: a negative number counts as 0.
    if siblings > u32::MAX / 2 { 0 } else { siblings }
}
