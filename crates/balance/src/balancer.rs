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
use crate::queue::{Queue, Waiting};
use crate::rng::{Rng, mix};
use crate::set::{EndpointSet, Slot};
use crate::time::Instant;
use std::sync::Arc;

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
    queue: Arc<Queue>,
    loads: Loads,
    picker: Box<dyn Picker>,
    rng: Rng,
    /// Whether the picker was told of the first set.
    told: bool,
    /// Whether a member of the set has a limit.
    limited: bool,
}

impl Balancer {
    pub(crate) fn new(
        picker: Box<dyn Picker>,
        reader: Reader<View>,
        queue: Arc<Queue>,
        seat: Seat,
        seed: u64,
    ) -> Balancer {
        let loads = Loads::new(reader.get().counts.clone(), seat.worker);
        let rng = Rng::new(seed ^ mix(u64::from(seat.worker)));
        Balancer { reader, queue, loads, picker, rng, told: false, limited: false }
    }

    /// Picks an endpoint for a request and counts the request there.
    ///
    /// # Errors
    /// Why there is none; then nothing is counted. While others wait, an endpoint with a limit counts as full.
    #[inline]
    pub fn start(&mut self, request: &Request<'_>, now: Instant) -> Result<Ticket, NoPick> {
        self.pick(request, false, now, None)
    }

    /// As [`start`](Self::start), for a request that waits in this pool's queue: tries if it is its turn. With a ticket
    /// it has left the queue; without one it keeps its place there, and is woken when it is its turn again.
    ///
    /// # Errors
    /// `AllFull` as long as it is not its turn, and as [`start`](Self::start). Unless the pool changed meanwhile that is
    /// `AllFull` too; whoever does not want to wait for another reason drops `waiting`.
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
        let picked = self.pick(request, false, now, Some(explanation));
        explanation.picked = picked.as_ref().ok().map(Ticket::slot);
        picked
    }

    #[inline]
    fn pick(
        &mut self,
        request: &Request<'_>,
        waited: bool,
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
            if let Some(holds) = self.hold(slot, waited) {
                return Ok(self.count(slot, holds, true, now));
            }
            if !waited && self.queue.depth() != 0 {
                break;
            }
        }
        Err(NoPick::AllFull)
    }

    /// Counts a request at an endpoint that something else chose (sticky session, hedge, queue).
    ///
    /// # Errors
    /// The endpoint has left, or is at its limit, or has one while others wait.
    pub fn start_at(&mut self, slot: Slot, now: Instant) -> Result<Ticket, NoPick> {
        self.refresh(now);
        if self.reader.get().set.get(slot).is_none() {
            return Err(NoPick::Empty);
        }
        let holds = self.hold(slot, false).ok_or(NoPick::AllFull)?;
        Ok(self.count(slot, holds, false, now))
    }

    /// Takes a place at `slot` if it has a limit: `Some(whether one is held)`, or `None` when it is full, or when others
    /// wait for such places and it is not the turn of this one.
    #[inline]
    fn hold(&self, slot: Slot, waited: bool) -> Option<bool> {
        let member = self.reader.get().set.get(slot)?;
        let limited = member.in_flight_max != 0;
        let behind = limited && !waited && self.queue.depth() != 0;
        (!behind && self.loads.try_hold(member)).then_some(limited)
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
        // A request that started before its endpoint had a limit holds no place, but fills it all the same.
        if ticket.holds || self.limited || self.reader.is_stale() {
            self.queue.freed();
        }
    }

    /// Where requests of this pool wait.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
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
        self.limited = view.set.members().iter().any(|m| m.in_flight_max != 0);
        self.loads.on_set(&view.set, &view.counts);
        self.picker.on_set(&view.set, &self.loads, now);
    }
}
