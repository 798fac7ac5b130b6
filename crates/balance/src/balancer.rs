//! Which endpoint gets this request? [`Balancer`], one worker's hold on one pool: `start` gives a [`Ticket`], `end`
//! takes it back, exactly once.
//!
//! A ticket has no `Drop`: shells own cancellation, by a guard whose drop calls `end(Cancelled)`, so that this crate
//! needs no reference counting on the hot path.

use crate::explain::Explanation;
use crate::loads::Loads;
use crate::picker::{NoPick, PickContext, Picker, Seat};
use crate::pool::View;
use crate::published::Reader;
use crate::rng::{Rng, mix};
use crate::set::{EndpointSet, Slot};
use crate::time::Instant;

/// What a pick may depend on besides the loads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The hash of what the request is keyed by, for algorithms that need one.
    pub key: Option<u64>,
    /// Endpoints that this request has tried already.
    pub tried: &'a [Slot],
}

/// One request in flight. Must be given back to the [`Balancer`] that made it.
#[derive(Debug)]
#[must_use = "a ticket that is not ended counts as a request in flight for ever"]
pub struct Ticket {
    slot: Slot,
    /// Whether it holds a place under the endpoint's limit; the limit may change while it is out.
    holds: bool,
    began: Instant,
    answered: Option<Instant>,
}

impl Ticket {
    /// The endpoint's slot.
    #[inline]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// When the request started.
    #[inline]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Notes that the first byte of the response came at `now`. The latency that algorithms see ends there: the rest
    /// of a large or streaming body says more about the client than about the endpoint.
    #[inline]
    pub fn answered(&mut self, now: Instant) {
        self.answered = Some(now);
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint answered.
    Success,
    /// It refused, reset, timed out or answered with a server error.
    Failure {
        /// What its Retry-After asked for, nanoseconds.
        retry_after_ns: Option<u64>,
    },
    /// Whoever asked went away.
    Cancelled,
}

/// What a picker is told of an end.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// From the start to the first byte of the response, or to the end where there was none; nanoseconds.
    pub latency_ns: u64,
    /// When it ended.
    pub now: Instant,
}

/// What an endpoint says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// Requests in flight there, from all balancers.
    pub in_flight: u32,
    /// What a request would take at about this load, nanoseconds.
    pub latency_ns: u64,
}

/// One worker x one pool.
pub struct Balancer {
    reader: Reader<View>,
    loads: Loads,
    picker: Box<dyn Picker>,
    rng: Rng,
    /// Whether the picker was told of the first set.
    told: bool,
}

impl Balancer {
    pub(crate) fn new(picker: Box<dyn Picker>, reader: Reader<View>, seat: Seat, seed: u64) -> Balancer {
        let loads = Loads::new(reader.get().counts.clone(), seat.worker);
        let rng = Rng::new(seed ^ mix(u64::from(seat.worker)));
        Balancer { reader, loads, picker, rng, told: false }
    }

    /// Picks an endpoint for a request and counts the request there.
    ///
    /// # Errors
    /// Why there is none; then nothing is counted.
    #[inline]
    pub fn start(&mut self, request: &Request<'_>, now: Instant) -> Result<Ticket, NoPick> {
        self.pick(request, now, None)
    }

    /// As [`start`](Self::start), and tells why.
    ///
    /// # Errors
    /// As [`start`](Self::start); the explanation is filled then too.
    pub fn start_explained(
        &mut self,
        request: &Request<'_>,
        now: Instant,
        explanation: &mut Explanation,
    ) -> Result<Ticket, NoPick> {
        self.refresh(now);
        explanation.begin(&self.reader.get().set, &self.loads, request.tried);
        let picked = self.pick(request, now, Some(explanation));
        explanation.picked = picked.as_ref().ok().map(Ticket::slot);
        picked
    }

    #[inline]
    fn pick(
        &mut self,
        request: &Request<'_>,
        now: Instant,
        mut trace: Option<&mut Explanation>,
    ) -> Result<Ticket, NoPick> {
        self.refresh(now);
        // A sibling worker may take the last place between a choice and the hold: then that endpoint shows as full, and
        // the next choice goes elsewhere. So after one turn for each endpoint all have been full.
        for _ in 0..=self.reader.get().set.len() {
            let set = &self.reader.get().set;
            let mut cx = PickContext {
                set,
                loads: &self.loads,
                now,
                rng: &mut self.rng,
                key: request.key,
                tried: request.tried,
                trace: trace.as_deref_mut(),
            };
            let slot = self.picker.choose(&mut cx)?;
            if let Some(holds) = hold(set, &self.loads, slot) {
                return Ok(self.count(slot, holds, true, now));
            }
        }
        Err(NoPick::AllFull)
    }

    /// Counts a request at an endpoint that something else chose (sticky session, hedge, queue).
    ///
    /// # Errors
    /// The endpoint has left, or is at its limit.
    pub fn start_at(&mut self, slot: Slot, now: Instant) -> Result<Ticket, NoPick> {
        self.refresh(now);
        let set = &self.reader.get().set;
        if set.get(slot).is_none() {
            return Err(NoPick::Empty);
        }
        let holds = hold(set, &self.loads, slot).ok_or(NoPick::AllFull)?;
        Ok(self.count(slot, holds, false, now))
    }

    #[inline]
    fn count(&mut self, slot: Slot, holds: bool, turn: bool, now: Instant) -> Ticket {
        self.loads.on_start(slot, turn);
        self.picker.on_start(slot, &self.loads, now);
        Ticket { slot, holds, began: now, answered: None }
    }

    /// Gives a ticket back.
    #[inline]
    pub fn end(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) {
        // Counted down before the place is free, so that a limit is never refused by a count that is about to fall.
        self.loads.on_end(ticket.slot);
        if ticket.holds {
            self.loads.release(ticket.slot);
        }
        let latency_ns = ticket.answered.unwrap_or(now).since(ticket.began);
        self.picker.on_end(ticket.slot, &End { outcome, latency_ns, now }, &self.loads);
    }

    /// The next endpoint to ask for its load, if the algorithm wants one asked. To be called after each start until it
    /// gives `None`.
    pub fn poll_probe(&mut self, now: Instant) -> Option<Slot> {
        self.refresh(now);
        let set = &self.reader.get().set;
        let mut cx =
            PickContext { set, loads: &self.loads, now, rng: &mut self.rng, key: None, tried: &[], trace: None };
        self.picker.poll_probe(&mut cx)
    }

    /// Passes on what an endpoint said of itself.
    pub fn report(&mut self, slot: Slot, report: &LoadReport, now: Instant) {
        self.picker.on_report(slot, report, now);
    }

    /// What is known of the endpoints.
    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    /// The set as of the last start.
    pub fn set(&self) -> &EndpointSet {
        &self.reader.get().set
    }

    /// Takes up the newest set, as every start does: for shells whose pools may get no request for long, as a set is kept
    /// while somebody has it.
    #[inline]
    pub fn refresh(&mut self, now: Instant) {
        if self.reader.refresh() || !self.told {
            self.take_set(now);
        }
    }

    #[cold]
    fn take_set(&mut self, now: Instant) {
        self.told = true;
        let view = self.reader.get();
        self.loads.on_set(&view.set, &view.counts);
        self.picker.on_set(&view.set, &self.loads, now);
    }
}

/// Takes a place at `slot` if it has a limit: `Some(whether one is held)`, or `None` when it is full.
#[inline]
fn hold(set: &EndpointSet, loads: &Loads, slot: Slot) -> Option<bool> {
    let member = set.get(slot)?;
    loads.try_hold(member).then_some(member.in_flight_max != 0)
}
