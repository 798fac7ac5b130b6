//! A pool beside a plain model of it. A [`World`] holds both and compares them at every step. The model is a list of
//! specs and one count per endpoint, too simple to be wrong.

use super::rows::Row;
use evenkeel_balance::{
    Balancer, EndpointId, EndpointSpec, Exclusion, Explanation, Instant, LoadReport, NoPick, Outcome, Pool, Request,
    Rng, Seat, Slot, Ticket,
};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

/// Time from a probe to an endpoint's answer, nanoseconds.
const PROBE_NS: u64 = 100_000;

/// A request in flight, with its endpoint and worker in the model.
pub struct Running {
    pub ticket: Ticket,
    pub id: EndpointId,
    pub worker: usize,
}

/// A pool, its workers, and a plain model of their state.
pub struct World<'r> {
    pub row: &'r Row,
    pub seed: u64,
    pub scenario: String,
    pub pool: Pool,
    pub now: Instant,
    pub specs: Vec<EndpointSpec>,
    pub balancers: Vec<Balancer>,
    pub running: VecDeque<Running>,
    /// Generator for the scenario's own choices, apart from those of the balancers.
    pub rng: Rng,
    /// True if every start asks for an explanation.
    pub explain: bool,
    /// True if endpoints answer probes.
    pub answers: bool,
    /// Number of picks whose explanation has a rule that leads to the pick.
    pub explained: Cell<u64>,
    in_flight: BTreeMap<EndpointId, u32>,
    owner: BTreeMap<usize, EndpointId>,
    probes: VecDeque<(Instant, usize, Slot)>,
}

/// Endpoints called e0, e1, ... with these weights.
pub fn weighted(weights: &[u32]) -> Vec<EndpointSpec> {
    weights.iter().enumerate().map(|(i, &w)| EndpointSpec::new(&format!("e{i}")).weight(w)).collect()
}

impl<'r> World<'r> {
    pub fn new(row: &'r Row, workers: u32, specs: Vec<EndpointSpec>, seed: u64, scenario: impl Into<String>) -> Self {
        let mut pool = Pool::new(workers);
        pool.update(&specs, Instant(0));
        let balancers = (0..workers).map(|worker| row.balancer(&pool, Seat { worker, workers }, seed)).collect();
        let mut world = World {
            row,
            seed,
            scenario: scenario.into(),
            pool,
            now: Instant(0),
            specs,
            balancers,
            running: VecDeque::new(),
            rng: Rng::new(seed ^ 0x5eed),
            explain: false,
            answers: true,
            explained: Cell::new(0),
            in_flight: BTreeMap::new(),
            owner: BTreeMap::new(),
            probes: VecDeque::new(),
        };
        world.note_owners();
        world
    }

    /// Fails, with everything needed to run the scenario again.
    pub fn fail(&self, what: &str) -> ! {
        panic!("row {}, seed {}, scenario \"{}\", at {} ns: {what}", self.row, self.seed, self.scenario, self.now.0)
    }

    pub fn ensure(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    /// Requests in flight at an endpoint, by the model.
    pub fn in_flight(&self, id: EndpointId) -> u32 {
        self.in_flight.get(&id).copied().unwrap_or(0)
    }

    /// Endpoints that the model would give requests to.
    pub fn eligible(&self) -> Vec<EndpointSpec> {
        let usable = |s: &&EndpointSpec| s.weight > 0 && !s.drain;
        let tier = self.specs.iter().filter(usable).map(|s| s.priority).min();
        self.specs.iter().filter(usable).filter(|s| Some(s.priority) == tier).cloned().collect()
    }

    /// Endpoints that a request looks at: the first tier, and while that is tried or full the next ones, up to one with
    /// room.
    fn looked_at(&self, tried: &[Slot]) -> Vec<EndpointSpec> {
        let mut usable: Vec<EndpointSpec> = self.specs.iter().filter(|s| s.weight > 0 && !s.drain).cloned().collect();
        usable.sort_by_key(|s| s.priority); // stable
        let mut seen = Vec::new();
        for tier in usable.chunk_by(|a, b| a.priority == b.priority) {
            let untried: Vec<_> = tier.iter().filter(|s| !tried.contains(&self.slot(s.id))).collect();
            seen.extend_from_slice(tier);
            if untried.iter().any(|s| !self.is_full(s)) {
                break;
            }
        }
        seen
    }

    fn is_full(&self, spec: &EndpointSpec) -> bool {
        spec.in_flight_max != 0 && self.in_flight(spec.id) >= spec.in_flight_max
    }

    pub fn slot(&self, id: EndpointId) -> Slot {
        self.pool.slot_of(id).unwrap_or_else(|| self.fail("a configured endpoint has no slot"))
    }

    pub fn reload(&mut self, specs: Vec<EndpointSpec>) {
        self.pool.update(&specs, self.now);
        self.specs = specs;
        self.note_owners();
    }

    fn note_owners(&mut self) {
        let mut seen = BTreeMap::new();
        for spec in &self.specs {
            let slot = self.slot(spec.id).index();
            self.ensure(seen.insert(slot, spec.id).is_none(), || format!("slot {slot} has two endpoints"));
            let before = self.owner.get(&slot).copied().filter(|&id| id != spec.id && self.in_flight(id) > 0);
            self.ensure(before.is_none(), || format!("slot {slot} was reused while tickets of its endpoint were out"));
        }
        self.owner.extend(seen);
    }

    /// Lets time pass, and endpoints answer the probes that are due.
    pub fn advance(&mut self, ns: u64) {
        self.now = self.now.after(ns);
        while let Some(&(due, worker, slot)) = self.probes.front().filter(|p| p.0 <= self.now) {
            self.probes.pop_front();
            let in_flight = self.owner.get(&slot.index()).map_or(0, |&id| self.in_flight(id));
            let report = LoadReport::new(in_flight, 1_000_000 * u64::from(in_flight + 1));
            self.balancers[worker].report(slot, &report, due).ok();
        }
    }

    /// Starts one request, and checks every promise that holds for all rows. Returns its endpoint or the refusal.
    pub fn start(&mut self, worker: usize, key: Option<u64>, tried: &[Slot]) -> Result<EndpointId, NoPick> {
        let request = Request { key, tried, beyond: false };
        let now = self.now;
        let mut why = Explanation::default();
        let balancer = &mut self.balancers[worker];
        let started = if self.explain {
            balancer.start_explained(&request, now, &mut why)
        } else {
            balancer.start(&request, now)
        };
        if self.explain {
            self.check_explanation(&why, tried, started.as_ref().ok().map(Ticket::slot));
        }
        self.check_refusal(tried, started.as_ref().err().copied());
        let picked = match started {
            Ok(ticket) => Ok(self.note_start(worker, ticket, tried)),
            Err(e) => Err(e),
        };
        self.poll_probes(worker);
        picked
    }

    /// Starts a request at an endpoint as a sticky session or a hedge would.
    pub fn start_at(&mut self, worker: usize, id: EndpointId) -> Result<(), NoPick> {
        let slot = self.slot(id);
        let drains = |s: &&EndpointSpec| s.drain && s.keeps_sessions && s.weight > 0;
        let draining = self.specs.iter().find(|s| s.id == id).filter(drains).cloned();
        let picked = self.eligible().into_iter().find(|s| s.id == id);
        let want_draining = if picked.is_some() { None } else { draining };
        let eligible = picked.or(want_draining.clone());
        let want = match &eligible {
            None => Some(NoPick::Empty),
            Some(spec) if self.is_full(spec) => Some(NoPick::AllFull),
            Some(_) => None,
        };
        let started = self.balancers[worker].start_at(slot, self.now);
        let got = started.as_ref().err().copied();
        self.ensure(got == want, || format!("start_at {slot:?} gave {got:?}, the model says {want:?}"));
        let ticket = started?;
        self.ensure(ticket.slot() == slot, || "start_at went elsewhere".into());
        match want_draining {
            Some(spec) => self.note_session(worker, ticket, &spec),
            None => _ = self.note_start(worker, ticket, &[]),
        }
        self.poll_probes(worker);
        Ok(())
    }

    fn poll_probes(&mut self, worker: usize) {
        // No algorithm has a reason to send more probes per request than there are endpoints, plus one.
        let most = self.specs.len() + 1;
        let mut sent = 0;
        while let Some(slot) = self.balancers[worker].poll_probe(self.now) {
            sent += 1;
            self.ensure(sent <= most, || format!("asked for {sent} probes after one start"));
            let owner = self.owner.get(&slot.index()).copied();
            let known = self.eligible().iter().any(|s| Some(s.id) == owner);
            self.ensure(known, || format!("probes {slot:?}, which is not eligible"));
            if self.answers {
                self.probes.push_back((self.now.after(PROBE_NS), worker, slot));
            }
        }
    }

    fn note_start(&mut self, worker: usize, ticket: Ticket, tried: &[Slot]) -> EndpointId {
        let slot = ticket.slot();
        self.ensure(!tried.contains(&slot), || format!("picked {slot:?}, which was tried"));
        let owner = self.owner.get(&slot.index()).copied();
        let looked_at = self.looked_at(tried);
        let tier = looked_at.last().map(|s| s.priority);
        let Some(spec) = looked_at.into_iter().find(|s| Some(s.id) == owner && Some(s.priority) == tier) else {
            self.fail(&format!("picked {slot:?}, which is not eligible"));
        };
        self.note_session(worker, ticket, &spec);
        spec.id
    }

    /// Records a start at an endpoint that no request is picked for.
    fn note_session(&mut self, worker: usize, ticket: Ticket, spec: &EndpointSpec) {
        let slot = ticket.slot();
        self.ensure(self.slot(spec.id) == slot, || format!("{slot:?} is not the slot of its endpoint"));
        let full = self.is_full(spec);
        self.ensure(!full, || format!("over the limit: {} in flight, {spec:?}", self.in_flight(spec.id)));
        self.ensure(ticket.began() == self.now, || "the ticket began at another moment".into());
        *self.in_flight.entry(spec.id).or_default() += 1;
        self.running.push_back(Running { ticket, id: spec.id, worker });
        self.check_counts();
    }

    /// Ends one request in flight.
    pub fn end(&mut self, index: usize, outcome: Outcome) {
        let mut request = self.running.remove(index).expect("the scenario ends only what runs");
        *self.in_flight.entry(request.id).or_default() -= 1;
        if outcome == Outcome::Success && self.now.0.is_multiple_of(2) {
            request.ticket.answered(self.now);
        }
        self.balancers[request.worker].end(request.ticket, outcome, self.now);
        self.check_counts();
    }

    pub fn end_all(&mut self) {
        while !self.running.is_empty() {
            self.end(0, Outcome::Success);
        }
    }

    /// Checks that the pool's counts are the model's, seen from the control side and from every worker.
    pub fn check_counts(&self) {
        let total: u32 = self.in_flight.values().sum();
        for balancer in &self.balancers {
            let seen = balancer.loads().in_flight_total();
            self.ensure(seen == total, || format!("a worker counts {seen} in flight, the model {total}"));
        }
        for spec in &self.specs {
            let (seen, want) = (self.pool.in_flight(self.slot(spec.id)), self.in_flight(spec.id));
            self.ensure(seen == want, || format!("the pool counts {seen} in flight, the model {want}, at {spec:?}"));
        }
    }

    fn check_refusal(&self, tried: &[Slot], got: Option<NoPick>) {
        let eligible = self.eligible();
        let anywhere = self.looked_at(tried);
        let room = anywhere.iter().any(|s| !tried.contains(&self.slot(s.id)) && !self.is_full(s));
        let untried: Vec<_> = anywhere.iter().filter(|s| !tried.contains(&self.slot(s.id))).collect();
        let want = match () {
            () if eligible.is_empty() => Some(NoPick::Empty),
            () if untried.is_empty() => Some(NoPick::AllTried),
            () if !room => Some(NoPick::AllFull),
            () => None,
        };
        self.ensure(got == want, || format!("start gave {got:?}, the model says {want:?}; tried {tried:?}"));
    }

    /// Checks an explanation. To be called before the start is counted.
    fn check_explanation(&self, why: &Explanation, tried: &[Slot], picked: Option<Slot>) {
        self.ensure(why.picked == picked, || format!("explains another pick than {picked:?}: {why:?}"));
        let eligible = self.looked_at(tried);
        let mut want: Vec<(EndpointId, Exclusion)> = Vec::new();
        for spec in &self.specs {
            let reason = match () {
                () if spec.drain => Exclusion::Draining,
                () if spec.weight == 0 => Exclusion::WeightZero,
                () if !eligible.iter().any(|s| s.id == spec.id) => Exclusion::LowerPriority,
                () if tried.contains(&self.slot(spec.id)) => Exclusion::Tried,
                () if self.is_full(spec) && picked != Some(self.slot(spec.id)) => Exclusion::Full,
                () => continue,
            };
            want.push((spec.id, reason));
        }
        let mut got: Vec<_> = why.excluded.iter().map(|&(_, id, reason)| (id, reason)).collect();
        got.sort_by_key(|e| e.0);
        want.sort_by_key(|e| e.0);
        self.ensure(got == want, || format!("excluded {got:?}, the model says {want:?}"));
        for c in &why.candidates {
            self.ensure(self.owner.get(&c.slot.index()) == Some(&c.id), || {
                format!("candidate {c:?} is no endpoint of the pool")
            });
            let is_picked = picked == Some(c.slot);
            self.ensure(!is_picked || !got.iter().any(|e| e.0 == c.id), || {
                format!("{c:?} is both picked and excluded")
            });
            let seen = (c.in_flight, Some(c.weight));
            let model = (self.in_flight(c.id), self.specs.iter().find(|s| s.id == c.id).map(|s| s.weight));
            self.ensure(seen == model, || format!("candidate {c:?}, the model says {model:?}"));
            self.ensure(c.score.is_none_or(f64::is_finite), || format!("candidate {c:?} has no finite score"));
        }
        if let Some(slot) = picked {
            let among = why.candidates.iter().any(|c| c.slot == slot);
            self.ensure(among, || format!("picked {slot:?}, which is not among the candidates: {why:?}"));
            self.ensure(!why.rule.is_empty(), || "names no rule".into());
            let follows = why.by.decide(&why.candidates);
            self.ensure(follows == picked, || format!("the rule as stated picks {follows:?}: {why:?}"));
            self.explained.set(self.explained.get() + 1);
        }
    }
}
