//! What would other algorithms have picked? Shadows: further pickers beside the one of a pool, which see the same starts,
//! ends and reports, and move nothing.
//!
//! Each has counts of its own: a sampled request counts where the shadow would have sent it, from its start to its end, all
//! others where they are. So with a sample of 1 a shadow sees the loads that its own picks would have led to, as far as that
//! can be known: a request that was moved ends when the real one does, though the other endpoint may be slower or faster.
//!
//! A shadow of the pool's own algorithm draws the same random numbers as the pick beside it, and so makes the same picks. Others
//! draw their own: an algorithm that draws none would have them draw the same ones again and again.

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Slot};
use crate::measurement::loads::{Counts, Loads};
use crate::measurement::report::LoadReport;
use crate::measurement::request::{End, Outcome, Request};
use crate::measurement::ticket::Hold;
use crate::seam::params::{ParamError, Params};
use crate::seam::picker::{Algorithm, PickContext, Picker, Seat};
use crate::seam::tried::Tried;
use crate::structures::published::Published;
use crate::structures::rng::{Rng, mix};
use crate::structures::time::Instant;
use std::sync::Arc;

/// Most shadows of a pool.
pub const SHADOWS_MAX: usize = 4;

/// Sampled requests in flight at once at one worker; others count where they are.
const MOVED_MAX: usize = Hold::MARK_MAX as usize - 1;

/// A request that counts where it is, at all shadows.
const IN_PLACE: u32 = Hold::MARK_MAX;

/// Algorithms that run beside that of a pool, for all its workers: they share counts.
#[derive(Clone, Debug)]
pub struct Cast {
    roles: Vec<Role>,
    sample: f64,
}

#[derive(Clone, Debug)]
struct Role {
    algorithm: &'static Algorithm,
    params: Params,
    counts: Arc<Published<Counts>>,
}

impl Cast {
    /// These algorithms, beside `sample` of the picks (0 to 1), for so many workers. More than [`SHADOWS_MAX`] are left out.
    pub fn new(algorithms: &[(&'static Algorithm, &Params)], sample: f64, workers: u32) -> Cast {
        let role = |&(algorithm, params): &(&'static Algorithm, &Params)| Role {
            algorithm,
            params: params.clone(),
            counts: Arc::new(Published::new(Counts::new(workers))),
        };
        Cast { roles: algorithms.iter().take(SHADOWS_MAX).map(role).collect(), sample }
    }

    /// `own`: the name of the pool's algorithm.
    pub(crate) fn play(&self, own: &str, seat: Seat) -> Result<Shadows, ParamError> {
        let shadow = |(role, at): (&Role, u64)| {
            let Role { algorithm, params, counts } = role.clone();
            let picker = (algorithm.new)(&params, seat)?;
            let loads = Loads::new(Counts::clone(&counts.current()), seat.worker);
            let rng = (algorithm.name != own).then(|| Rng::new(mix(at << 32 | u64::from(seat.worker)) ^ 0x5ad1));
            Ok(Shadow { algorithm, picker, loads, counts, rng, seen: Seen::default() })
        };
        Ok(Shadows {
            shadows: self.roles.iter().zip(0..).map(shadow).collect::<Result<_, ParamError>>()?,
            sampled_below: (self.sample.clamp(0.0, 1.0) * 4_294_967_296.0) as u64,
            sampler: Rng::new(mix(u64::from(seat.worker) ^ 0x5ad0)),
            rng: Rng::new(0),
            moved: Vec::new(),
            free: Vec::new(),
            starts: 0,
            sampled: 0,
            real: Seen::default(),
        })
    }
}

/// What one worker's shadows do.
pub(crate) struct Shadows {
    shadows: Vec<Shadow>,
    /// A number of 32 bits below this is a sample.
    sampled_below: u64,
    sampler: Rng,
    /// The balancer's generator as it was before the pick at hand.
    rng: Rng,
    /// By the mark of a request less one: where the shadows have it.
    moved: Vec<[(Slot, EndpointId); SHADOWS_MAX]>,
    free: Vec<u32>,
    starts: u64,
    sampled: u64,
    /// The picks of the pool's own algorithm that were compared.
    real: Seen,
}

struct Shadow {
    algorithm: &'static Algorithm,
    picker: Box<dyn Picker>,
    loads: Loads,
    counts: Arc<Published<Counts>>,
    /// Its own generator, unless it follows that of the balancer.
    rng: Option<Rng>,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    agreed: u64,
    apart: u64,
    met: u64,
    /// By slot: whose it is, and its picks.
    picks: Vec<(EndpointId, u64)>,
}

impl Seen {
    fn pick(&mut self, slot: Slot, met: u32) {
        self.met += u64::from(met);
        if let Some((_, picks)) = self.picks.get_mut(slot.index()) {
            *picks += 1;
        }
    }

    fn on_set(&mut self, set: &EndpointSet) {
        self.picks.resize(set.slots().max(self.picks.len()), (EndpointId(0), 0));
        for m in std::iter::once(set).chain(set.overflow()).flat_map(EndpointSet::members) {
            let of_slot = &mut self.picks[m.slot.index()];
            if of_slot.0 != m.id {
                *of_slot = (m.id, 0);
            }
        }
    }
}

impl Shadows {
    #[cold]
    pub(crate) fn on_set(&mut self, set: &EndpointSet, now: Instant) {
        self.real.on_set(set);
        for Shadow { picker, loads, counts, seen, .. } in &mut self.shadows {
            counts.change(|counts| counts.grown_to(set.slots()));
            let counts = counts.current();
            for m in std::iter::once(set).chain(set.overflow()).flat_map(EndpointSet::members) {
                let (reported, at) = counts.reported(m.slot);
                reported.now_of(at, m.id);
            }
            loads.on_set(set, &counts);
            picker.on_set(set, loads, now);
            seen.on_set(set);
        }
    }

    /// A pick begins, with this generator.
    #[cold]
    pub(crate) fn before(&mut self, rng: &Rng) {
        self.rng = rng.clone();
    }

    /// A request was picked for `slot`, which had `met` in flight before. `first`: it is of the first set, whose picks alone are
    /// compared. Returns the mark by which its end is told.
    #[cold]
    pub(crate) fn picked(
        &mut self,
        set: &EndpointSet,
        request: &Request<'_>,
        slot: Slot,
        met: u32,
        now: Instant,
    ) -> u32 {
        self.starts += 1;
        let is_sample = (self.sampler.next_u64() >> 32) < self.sampled_below;
        let first = set.position_of(slot).is_some();
        if !is_sample || !first || self.moved.len() - self.free.len() >= MOVED_MAX {
            return self.started(slot, true, now);
        }
        self.sampled += 1;
        self.real.pick(slot, met);
        let mut moved = [(slot, EndpointId(0)); SHADOWS_MAX];
        for (shadow, moved) in self.shadows.iter_mut().zip(&mut moved) {
            let (loads, tried, mut same) = (&shadow.loads, Tried::List(request.tried), self.rng.clone());
            let rng = shadow.rng.as_mut().unwrap_or(&mut same);
            let mut cx = PickContext { set, loads, now, rng, key: request.key, tried, trace: None };
            match shadow.picker.choose(&mut cx) {
                Ok(chosen) => {
                    shadow.seen.pick(chosen, shadow.loads.in_flight(chosen));
                    shadow.seen.agreed += u64::from(chosen == slot);
                    moved.0 = chosen;
                }
                Err(_) => shadow.seen.apart += 1,
            }
            moved.1 = shadow.loads.id_of(moved.0);
            shadow.start(moved.0, true, now);
        }
        match self.free.pop() {
            Some(at) => {
                self.moved[at as usize] = moved;
                at + 1
            }
            None => {
                self.moved.push(moved);
                self.moved.len() as u32
            }
        }
    }

    /// The pool's own algorithm found no endpoint. Shadows that see each pick look too, as a look may be what an algorithm
    /// reads other workers' counts at.
    #[cold]
    pub(crate) fn refused(&mut self, set: &EndpointSet, request: &Request<'_>, now: Instant) {
        if self.sampled_below < 1 << 32 {
            return;
        }
        for shadow in &mut self.shadows {
            let (loads, tried, mut rng) = (&shadow.loads, Tried::List(request.tried), self.rng.clone());
            let mut cx = PickContext { set, loads, now, rng: &mut rng, key: request.key, tried, trace: None };
            let _ = shadow.picker.choose(&mut cx);
        }
    }

    /// A request started at `slot`, and counts there. `turn`: whether the algorithm picked it.
    #[cold]
    pub(crate) fn started(&mut self, slot: Slot, turn: bool, now: Instant) -> u32 {
        self.shadows.iter_mut().for_each(|shadow| shadow.start(slot, turn, now));
        IN_PLACE
    }

    /// The request with this mark ended.
    #[cold]
    pub(crate) fn ended(&mut self, mark: u32, slot: Slot, end: &End) {
        if mark == IN_PLACE {
            return self.shadows.iter_mut().for_each(|shadow| shadow.end(slot, end));
        }
        let moved = self.moved[mark as usize - 1];
        self.free.push(mark - 1);
        for (shadow, (moved, id)) in self.shadows.iter_mut().zip(moved) {
            if shadow.loads.id_of(moved) != id {
                // No real request kept the slot for its endpoint. Until here another one that has it counted as busier.
                shadow.loads.on_end_of_gone(moved);
                shadow.picker.learn(slot, end);
            } else if moved == slot {
                shadow.end(slot, end);
            } else {
                // How long it would have taken there is not known; how long it took elsewhere says something about that one.
                shadow.end(moved, &End { outcome: Outcome::Cancelled, latency_ns: 0, now: end.now });
                shadow.picker.learn(slot, end);
            }
        }
    }

    /// The balancer asked its algorithm for a probe. What shadows would ask is answered only if the pool asks it too.
    #[cold]
    pub(crate) fn probe(&mut self, set: &EndpointSet, rng: &Rng, now: Instant) {
        for shadow in self.shadows.iter_mut().filter(|shadow| shadow.algorithm.asks) {
            let (loads, mut rng) = (&shadow.loads, rng.clone());
            let mut cx = PickContext { set, loads, now, rng: &mut rng, key: None, tried: Tried::NONE, trace: None };
            let _ = shadow.picker.poll_probe(&mut cx);
        }
    }

    /// An endpoint reported its load while it had `in_flight` of this process: shadows get what it would have reported.
    #[cold]
    pub(crate) fn report(&mut self, slot: Slot, report: &LoadReport, in_flight: u32, now: Instant) {
        for Shadow { picker, loads, .. } in &mut self.shadows {
            let would = report.in_flight.saturating_add(loads.in_flight(slot)).saturating_sub(in_flight);
            let report = LoadReport { in_flight: would, ..*report };
            if loads.report(slot, &report, now).is_ok() {
                picker.on_report(slot, &report, now);
            }
        }
    }

    pub(crate) fn shown(&self, set: &EndpointSet) -> Vec<Shown> {
        let shown = |shadow: &Shadow| {
            let of = |seen: &Seen, slot: Slot| seen.picks.get(slot.index()).map_or(0, |(_, picks)| *picks);
            let endpoint = |m: &crate::Member| ShownEndpoint {
                slot: m.slot,
                id: m.id,
                weight: m.weight,
                real: of(&self.real, m.slot),
                picks: of(&shadow.seen, m.slot),
                in_flight: shadow.loads.in_flight(m.slot),
            };
            Shown {
                algorithm: shadow.algorithm,
                starts: self.starts,
                sampled: self.sampled,
                agreed: shadow.seen.agreed,
                apart: shadow.seen.apart,
                met_real: self.real.met,
                met: shadow.seen.met,
                endpoints: set.members().iter().map(endpoint).collect(),
            }
        };
        self.shadows.iter().map(shown).collect()
    }
}

impl Shadow {
    fn start(&mut self, slot: Slot, turn: bool, now: Instant) {
        self.loads.on_start(slot, turn);
        self.picker.on_start(slot, &self.loads, now);
    }

    fn end(&mut self, slot: Slot, end: &End) {
        self.loads.on_end(slot, Hold::NONE, end);
        self.picker.on_end(slot, end, &self.loads);
    }
}

/// What one shadow of one worker has seen and done.
#[derive(Clone, Debug)]
pub struct Shown {
    /// What it is.
    pub algorithm: &'static Algorithm,
    /// Picks of the pool's own algorithm.
    pub starts: u64,
    /// How many of them were compared.
    pub sampled: u64,
    /// Where it would have picked the same.
    pub agreed: u64,
    /// Where it had no pick, as its counts say that all endpoints are full.
    pub apart: u64,
    /// The sum, over the picks compared, of the requests in flight at the picked endpoint before.
    pub met_real: u64,
    /// The same of its own picks, by its own counts: what they would have met.
    pub met: u64,
    /// By endpoint, those of the first set.
    pub endpoints: Vec<ShownEndpoint>,
}

/// One endpoint, of one shadow.
#[derive(Clone, Copy, Debug)]
pub struct ShownEndpoint {
    /// Its slot.
    pub slot: Slot,
    /// Its identity.
    pub id: EndpointId,
    /// Its weight in the set.
    pub weight: u32,
    /// The picks of it that were compared.
    pub real: u64,
    /// The shadow's picks of it.
    pub picks: u64,
    /// What the shadow thinks is in flight there, over all workers.
    pub in_flight: u32,
}

/// What a shadow of this algorithm would know and cannot.
pub fn unknown(algorithm: &Algorithm) -> &'static str {
    let needs = algorithm.needs;
    match () {
        () if needs.probes => {
            "answers to its own probes: it hears what the pool's own algorithm asks for, and falls back to its counts; and \
             whether endpoints would take longer or shorter with its picks"
        }
        () if needs.latency => {
            "how long its own picks would have taken: it learns latencies only where requests really went, at the loads \
             that they really met"
        }
        () if needs.in_flight => {
            "whether endpoints would take longer or shorter with its picks: a request that it moves ends when the real one does"
        }
        () => "nothing: its picks do not depend on what requests do",
    }
}
