//! The balancer: a worker's access to a pool. `start` picks an endpoint and returns a [`Ticket`], which `end` takes
//! back exactly once.

// Order: again, explore, part, choose_k
mod again;
mod choose_k;
pub mod explore;
pub mod part;

use crate::endpoints::set::{EndpointSet, Slot};
use crate::machines::queue::{Queue, Waiting};
use crate::measurement::loads::Loads;
use crate::measurement::report::{LoadReport, Refused};
pub(crate) use crate::measurement::request::End;
use crate::measurement::request::{Outcome, Request};
use crate::measurement::ticket::{Hold, Ticket};
use crate::seam::explain::Explanation;
use crate::seam::journal::{Journal, Way};
use crate::seam::params::{ParamError, Params};
use crate::seam::picker::{Algorithm, NoPick, PickContext, Picker, Seat};
use crate::seam::recent::{Recent, Recorder};
use crate::seam::tried::{Marks, Tried};
use crate::seam::view::View;
use crate::structures::published::Reader;
use crate::structures::rng::{Rng, mix};
use crate::structures::time::Instant;
use explore::Explorer;
use std::sync::Arc;

/// The balancer of a worker and a pool.
pub struct Balancer {
    reader: Reader<View>,
    queue: Arc<Queue>,
    loads: Loads,
    picker: Box<dyn Picker>,
    /// Pickers of the set's `overflow`, a picker for each, and the function that makes them.
    overflow: Vec<Box<dyn Picker>>,
    new_picker: Box<dyn Fn() -> Result<Box<dyn Picker>, ParamError> + Send>,
    rng: Rng,
    /// Number of sets that the picker has seen.
    sets: u64,
    /// True if a member of the set has a limit.
    limited: bool,
    /// True if a member of the set is on trial.
    has_trials: bool,
    /// Endpoints that the answer in progress contains.
    named: Marks,
    /// Record of everything that picks depend on, if a journal is configured.
    journal: Option<Box<Journal>>,
    /// Name of the pool's algorithm.
    algorithm: &'static str,
    /// Memory of the latest requests, if predictions are wanted.
    recorder: Option<Box<Recorder>>,
    /// Draws of endpoints for a share of the requests, if that is wanted.
    explorer: Option<Box<Explorer>>,
    /// Index among the workers, which seeds the draws of the explorer.
    worker: u32,
}

impl Balancer {
    pub(crate) fn new(
        algorithm: &Algorithm,
        params: &Params,
        reader: Reader<View>,
        queue: Arc<Queue>,
        seat: Seat,
        seed: u64,
    ) -> Result<Balancer, ParamError> {
        let (new, params) = (algorithm.new, params.clone());
        let new_picker = Box::new(move || new(&params, seat));
        let (picker, overflow) = (new_picker()?, Vec::new());
        let loads = Loads::new(reader.get().counts.clone(), seat.worker);
        let rng = Rng::new(seed ^ mix(u64::from(seat.worker)));
        let (sets, limited, has_trials, named, journal, recorder) = (0, false, false, Marks::default(), None, None);
        Ok(Balancer {
            reader,
            queue,
            loads,
            picker,
            overflow,
            new_picker,
            rng,
            sets,
            limited,
            has_trials,
            named,
            journal,
            algorithm: algorithm.name,
            recorder,
            explorer: None,
            worker: seat.worker,
        })
    }

    /// Returns this balancer with a journal, which has to start with its first event.
    pub(crate) fn recorded(self, journal: Journal) -> Balancer {
        Balancer { journal: Some(Box::new(journal)), ..self }
    }

    /// Returns this balancer with a memory of its latest requests.
    pub fn remembering(self) -> Balancer {
        Balancer { recorder: Some(Box::default()), sets: 0, ..self }
    }

    /// Returns the latest requests; `None` if they are not remembered.
    pub fn recent(&self) -> Option<Recent> {
        Some(self.recorder.as_ref()?.recent(&self.reader.get().set))
    }

    /// Explains the pick that a request would get now. Counts nothing, and leaves the random generator and the journal
    /// alone.
    ///
    /// # Errors
    /// The reason why it would get none.
    #[cold]
    pub fn would_pick(
        &mut self,
        request: &Request<'_>,
        now: Instant,
        explanation: &mut Explanation,
    ) -> Result<Slot, NoPick> {
        self.refresh(now);
        explanation.begin(&self.reader.get().set, &self.loads, request.key, request.tried);
        explanation.explored_share = self.explored_share();
        let (rng, set, loads) = (self.rng.clone(), &self.reader.get().set, &self.loads);
        let overflow = self.overflow.iter_mut().zip(set.overflow());
        let mut picked = Err(NoPick::Empty);
        for (level, (picker, set)) in std::iter::once((&mut self.picker, set)).chain(overflow).enumerate() {
            if level > 0 {
                explanation.go_on(set, loads, request.tried, level);
            }
            let (trace, tried, mut rng) = (Some(&mut *explanation), Tried::List(request.tried), rng.clone());
            let mut cx = PickContext { set, loads, now, rng: &mut rng, key: request.key, tried, trace };
            picked = picker.choose(&mut cx);
            if !matches!(picked, Err(NoPick::AllTried | NoPick::AllFull)) {
                break;
            }
        }
        explanation.picked = picked.ok();
        picked
    }

    /// Picks an endpoint for a request and counts the request there.
    ///
    /// # Errors
    /// The reason why no endpoint was picked; nothing is counted then. While other requests wait, an endpoint with a
    /// limit counts as full.
    // Always inlined, as is everything it calls: request and ticket are too large for registers, and reading them as a
    // whole right after they were written in parts stalls on the stores. Planes call it in very few places.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    pub fn start(&mut self, request: &Request<'_>, now: Instant) -> Result<Ticket, NoPick> {
        self.pick(request, false, now, None)
    }

    /// Starts a request that waits in this pool's queue, as [`start`](Self::start) does, if it is the request's turn.
    /// With a ticket the request has left the queue; without a ticket it keeps its place, and is woken at its next
    /// turn.
    ///
    /// # Errors
    /// `AllFull` until it is the request's turn, and then those of [`start`](Self::start), which is `AllFull` as well
    /// unless the pool has changed. A caller that does not want to wait for another reason drops `waiting`.
    pub fn start_waited(
        &mut self,
        request: &Request<'_>,
        waiting: &mut Waiting,
        now: Instant,
    ) -> Result<Ticket, NoPick> {
        let turn = waiting.turn().ok_or(NoPick::AllFull)?;
        let picked = self.pick(request, true, now, None);
        if picked.is_ok() {
            turn.took();
        } else if request.tried.is_empty() {
            turn.all_full();
        }
        picked
    }

    /// Explains the pick of [`start_waited`](Self::start_waited).
    ///
    /// # Errors
    /// Errors of [`start_waited`](Self::start_waited). The explanation is filled in that case too.
    #[cold]
    pub fn start_waited_explained(
        &mut self,
        request: &Request<'_>,
        waiting: &mut Waiting,
        now: Instant,
        explanation: &mut Explanation,
    ) -> Result<Ticket, NoPick> {
        let turn = waiting.turn().ok_or(NoPick::AllFull)?;
        let picked = self.pick_explained(request, true, now, explanation);
        if picked.is_ok() {
            turn.took();
        } else if request.tried.is_empty() {
            turn.all_full();
        }
        picked
    }

    /// Explains the pick of [`start`](Self::start).
    ///
    /// # Errors
    /// Errors of [`start`](Self::start). The explanation is filled in that case too.
    pub fn start_explained(
        &mut self,
        request: &Request<'_>,
        now: Instant,
        explanation: &mut Explanation,
    ) -> Result<Ticket, NoPick> {
        self.pick_explained(request, false, now, explanation)
    }

    pub(crate) fn pick_explained(
        &mut self,
        request: &Request<'_>,
        waited: bool,
        now: Instant,
        explanation: &mut Explanation,
    ) -> Result<Ticket, NoPick> {
        self.refresh(now);
        explanation.begin(&self.reader.get().set, &self.loads, request.key, request.tried);
        let picked = self.pick(request, waited, now, Some(explanation));
        explanation.explored_share = self.explored_share();
        explanation.picked = picked.as_ref().ok().map(Ticket::slot);
        picked
    }

    #[expect(clippy::inline_always, reason = "as for `start`")]
    #[inline(always)]
    fn pick(
        &mut self,
        request: &Request<'_>,
        waited: bool,
        now: Instant,
        mut trace: Option<&mut Explanation>,
    ) -> Result<Ticket, NoPick> {
        if self.explorer.is_some()
            && let Some(ticket) = self.explore(request, waited, now, trace.as_deref_mut())
        {
            return Ok(ticket);
        }
        let mut chosen = match request.tried.is_empty() {
            true => self.choose(request, waited, now, trace),
            false => self.choose_again(request, waited, now, trace),
        };
        if let Ok((slot, hold)) = &mut chosen {
            if let Some(recorder) = &mut self.recorder {
                *hold = hold.marked(recorder.picked(&self.reader.get().set, request, *slot, now));
            }
            self.count(*slot, true, now);
        }
        if self.journal.is_some() {
            self.record_pick(request, waited, chosen.map(|(slot, _)| slot), now);
        }
        chosen.map(|(slot, hold)| Ticket::new(slot, hold, now))
    }

    #[cold]
    fn record_pick(&mut self, request: &Request<'_>, waited: bool, picked: Result<Slot, NoPick>, now: Instant) {
        let Some(journal) = &mut self.journal else { return };
        let total = self.loads.in_flight_total().wrapping_sub(u32::from(picked.is_ok()));
        journal.pick(request, way(&self.queue, waited), total, picked, now);
    }

    /// Chooses an endpoint and takes a place there, if it has a limit.
    #[expect(clippy::inline_always, reason = "as for `start`")]
    #[inline(always)]
    fn choose(
        &mut self,
        request: &Request<'_>,
        waited: bool,
        now: Instant,
        mut trace: Option<&mut Explanation>,
    ) -> Result<(Slot, Hold), NoPick> {
        self.refresh(now);
        let (set, loads, key, tried) = (&self.reader.get().set, &self.loads, request.key, Tried::List(request.tried));
        let mut cx = PickContext { set, loads, now, rng: &mut self.rng, key, tried, trace: trace.as_deref_mut() };
        let turns = match self.picker.choose(&mut cx) {
            Ok(slot) => match hold(set, loads, &self.queue, waited, slot) {
                Some(hold) => return Ok((slot, hold)),
                None if is_behind(&self.queue, waited) => 0,
                None => set.len(),
            },
            Err(NoPick::AllFull) => 0,
            Err(NoPick::AllTried) if !set.overflow().is_empty() => 0,
            Err(why) => return Err(why),
        };
        self.choose_on(turns, request, waited, now, trace)
    }

    /// Chooses again if the chosen endpoint has no room or all were tried: another of the set, within `turns` choices,
    /// or else an overflow set.
    #[cold]
    fn choose_on(
        &mut self,
        turns: usize,
        request: &Request<'_>,
        waited: bool,
        now: Instant,
        mut trace: Option<&mut Explanation>,
    ) -> Result<(Slot, Hold), NoPick> {
        let (set, loads, key, tried) = (&self.reader.get().set, &self.loads, request.key, request.tried);
        // A sibling worker may fill the endpoint between a choice and the hold. Then it shows as full, and the next
        // choice differs. So after a turn per endpoint, and another turn, all of them have been full.
        let overflow = self.overflow.iter_mut().zip(set.overflow()).map(|(picker, set)| (picker, set, set.len() + 1));
        let sets = std::iter::once((&mut self.picker, set, turns)).chain(overflow);
        for (i, (picker, set, turns)) in sets.enumerate() {
            if let Some(trace) = trace.as_deref_mut().filter(|_| i > 0) {
                trace.go_on(set, loads, tried, i);
            }
            for _ in 0..turns {
                let mut trace = trace.as_deref_mut();
                if let Some(trace) = &mut trace {
                    trace.again();
                }
                let tried = Tried::List(tried);
                let mut cx = PickContext { set, loads, now, rng: &mut self.rng, key, tried, trace };
                let Ok(slot) = picker.choose(&mut cx) else { break };
                if let Some(hold) = hold(set, loads, &self.queue, waited, slot) {
                    return Ok((slot, hold));
                }
                if is_behind(&self.queue, waited) {
                    break;
                }
            }
        }
        let mut members = std::iter::once(set).chain(set.overflow()).flat_map(EndpointSet::members);
        Err(if members.all(|m| tried.contains(&m.slot)) { NoPick::AllTried } else { NoPick::AllFull })
    }

    /// Starts a request at an endpoint that was chosen otherwise (sticky session, hedge, queue).
    ///
    /// # Errors
    /// `Empty` if the endpoint has left; `AllFull` if it is at its limit, or has a limit while others wait.
    pub fn start_at(&mut self, slot: Slot, now: Instant) -> Result<Ticket, NoPick> {
        self.refresh(now);
        let set = &self.reader.get().set;
        let hold = match set.for_session(slot) {
            None => Err(NoPick::Empty),
            Some(member) if self.loads.is_full(member) => Err(NoPick::AllFull),
            Some(_) => hold(set, &self.loads, &self.queue, false, slot).ok_or(NoPick::AllFull),
        };
        if let Some(journal) = &mut self.journal {
            journal.at(slot, way(&self.queue, false), hold.map(|_| slot), now);
        }
        let mut hold = hold?;
        if let Some(explorer) = &mut self.explorer {
            explorer.picked();
        }
        if let Some(recorder) = &mut self.recorder {
            hold = hold.marked(recorder.given(slot, now));
        }
        self.count(slot, false, now);
        Ok(Ticket::new(slot, hold, now))
    }

    /// Counts a start. `turn`: the algorithm picked the endpoint.
    #[expect(clippy::inline_always, reason = "as for `start`")]
    #[inline(always)]
    fn count(&mut self, slot: Slot, turn: bool, now: Instant) {
        self.loads.on_start(slot, turn);
        self.picker.on_start(slot, &self.loads, now);
        if !self.overflow.is_empty() {
            self.notify_overflow(slot, |picker, loads| picker.on_start(slot, loads, now));
        }
    }

    /// Ends a request and gives its ticket back. Returns true if the control side has something to decide: then
    /// [`Pool::poll`](crate::Pool::poll) should be called soon, on its thread.
    #[inline]
    pub fn end(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) -> bool {
        let (slot, hold) = (ticket.slot, ticket.hold);
        let end = End { outcome, latency_ns: ticket.latency_ns(now), now };
        let decides = self.loads.on_end(slot, hold, &end);
        let end = End { outcome: self.loads.judged(outcome), ..end };
        if let Some(journal) = &mut self.journal {
            journal.end(slot, hold.is_limited(), &end);
        }
        self.picker.on_end(slot, &end, &self.loads);
        if hold.mark() != 0
            && let Some(recorder) = &mut self.recorder
        {
            recorder.ended(hold.mark(), slot, ticket.began, &end);
        }
        if !self.overflow.is_empty() {
            self.notify_overflow(slot, |picker, loads| picker.on_end(slot, &end, loads));
        }
        // A request that started before its endpoint had a limit does not count towards it, but fills it all the same.
        if hold.is_limited() || self.limited || self.reader.is_stale() {
            self.queue.freed(self.loads.is_alone());
        }
        decides
    }

    /// Notifies the overflow's pickers of an event at an endpoint, unless that is in the set itself, as most are.
    #[inline]
    fn notify_overflow(&mut self, slot: Slot, event: impl Fn(&mut dyn Picker, &Loads)) {
        if self.reader.get().set.position_of(slot).is_none() {
            self.overflow.iter_mut().for_each(|picker| event(&mut **picker, &self.loads));
        }
    }

    /// Queue in which requests of this pool wait.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Returns the name of the pool's algorithm.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    /// Returns the next endpoint to ask for its load; `None` if the algorithm wants none asked. Shells that can probe
    /// call this after each start until it returns `None`. An algorithm works without that, unless it needs probes.
    pub fn poll_probe(&mut self, now: Instant) -> Option<Slot> {
        self.refresh(now);
        let set = &self.reader.get().set;
        let mut cx = PickContext {
            set,
            loads: &self.loads,
            now,
            rng: &mut self.rng,
            key: None,
            tried: Tried::NONE,
            trace: None,
        };
        let asks = self.picker.poll_probe(&mut cx);
        if let Some(journal) = &mut self.journal {
            journal.probe(asks, now);
        }
        asks
    }

    /// Accepts an endpoint's report of its load, from the answer to a probe or from a response.
    ///
    /// # Errors
    /// The reason why the report is ignored, which the caller only counts: the request whose response carried it is
    /// fine. If the slot has been reused for another endpoint this is not [`Refused::Gone`]: shells end probes with
    /// their endpoint.
    pub fn report(&mut self, slot: Slot, report: &LoadReport, now: Instant) -> Result<(), Refused> {
        self.refresh(now); // first, as a journal has a set before the events under that set
        if let Some(journal) = &mut self.journal {
            journal.report(slot, report, now);
        }
        report.is_plausible()?;
        let set = &self.reader.get().set;
        if !std::iter::once(set).chain(set.overflow()).any(|set| set.get(slot).is_some()) {
            return Err(Refused::Gone);
        }
        self.loads.report(slot, report, now)?;
        self.picker.on_report(slot, report, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.reported();
        }
        self.overflow.iter_mut().for_each(|picker| picker.on_report(slot, report, now));
        Ok(())
    }

    /// Flushes the lines that the journal's sink still holds.
    pub fn flush_journal(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.flush();
        }
    }

    /// True if this balancer writes a journal, whose lines may wait to be flushed.
    pub fn writes_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Stops writing the journal: another balancer of the pool begins a journal.
    pub fn end_journal(&mut self) {
        self.journal = None;
    }

    /// Loads of the endpoints, as this worker sees them.
    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Endpoint set as of the last start.
    pub fn set(&self) -> &EndpointSet {
        &self.reader.get().set
    }

    /// Switches to the newest set, as every start does. For shells whose pools may have no request for a long time: an
    /// old set stays in memory as long as a worker uses it.
    #[inline]
    pub fn refresh(&mut self, now: Instant) {
        if self.reader.refresh() || self.sets == 0 {
            self.take_set(now);
        }
    }

    #[cold]
    fn take_set(&mut self, now: Instant) {
        self.sets += 1;
        let view = self.reader.get();
        if let Some(journal) = &mut self.journal {
            journal.set(&view.set, now);
        }
        self.limited = view.set.members().iter().any(|m| m.in_flight_max != 0);
        self.has_trials = view.set.members().iter().any(|m| m.trial != 0);
        self.loads.on_set(&view.set, &view.counts);
        self.picker.on_set(&view.set, &self.loads, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.on_set(&view.set);
        }
        let overflow = view.set.overflow();
        self.overflow.truncate(overflow.len());
        while self.overflow.len() < overflow.len() {
            self.overflow.push((self.new_picker)().expect("a picker was made with these parameters before"));
        }
        for (picker, set) in self.overflow.iter_mut().zip(overflow) {
            picker.on_set(set, &self.loads, now);
        }
    }
}

/// True if other requests wait for an endpoint and come before this request.
#[inline]
fn is_behind(queue: &Queue, waited: bool) -> bool {
    !waited && queue.depth() != 0
}

#[inline]
fn way(queue: &Queue, waited: bool) -> Way {
    match waited {
        true => Way::Waited,
        false if is_behind(queue, false) => Way::Behind,
        false => Way::Free,
    }
}

/// Counts a request towards the limit of `slot`, if any. The slot was not full just now. `None` if a sibling
/// worker was faster, or if others wait for it.
#[inline]
fn hold(set: &EndpointSet, loads: &Loads, queue: &Queue, waited: bool, slot: Slot) -> Option<Hold> {
    let member = set.for_session(slot)?;
    let got = member.in_flight_max == 0 || (!is_behind(queue, waited) && loads.try_hold(member));
    got.then(|| Hold::at(member))
}
