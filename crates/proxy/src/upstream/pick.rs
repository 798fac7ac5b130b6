//! Picks of endpoints for requests, with or without waiting, and the guard that returns the ticket at the end.

use crate::body::fault::Fault;
use crate::core::Core;
use crate::observe::end::Phase;
use crate::observe::stats;
use crate::observe::timing::Timing;
use crate::upstream::pool::{Endpoint, WorkerPool};
use crate::upstream::retries::Tries;
use evenkeel_balance::queue::{Full, Waiting};
use evenkeel_balance::{Clock, Exclusion, Explanation, FailureKind, Instant, NoPick, Outcome, Request, Slot, Ticket};
use evenkeel_net::clock::CachedClock;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_wire::head::Fields;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A request in flight at an endpoint, with its ticket. Dropped without [`end`](Self::end), it counts as cancelled, as
/// when the client leaves and the future that serves it is dropped.
pub struct InFlight<'r> {
    clock: &'r CachedClock,
    pub pool: &'r WorkerPool,
    /// The endpoint, held as its pool may release it meanwhile.
    pub endpoint: Rc<Endpoint>,
    ticket: Option<Ticket>,
    /// Number of endpoints that its endpoint was drawn from; 0 if it was picked.
    pub drawn_from: u32,
}

impl<'r> InFlight<'r> {
    /// Picks an endpoint.
    ///
    /// # Errors
    /// No endpoint can be picked.
    pub fn start(clock: &'r CachedClock, pool: &'r WorkerPool, request: &Request<'_>) -> Result<InFlight<'r>, NoPick> {
        let mut balancer = pool.balancer.borrow_mut();
        let ticket = balancer.start(request, clock.now())?;
        Ok(InFlight::new(clock, pool, ticket, balancer.drawn_from()))
    }

    /// Like [`start`](Self::start), and writes an explanation of the pick to `why`.
    ///
    /// # Errors
    /// No endpoint can be picked.
    #[cold]
    pub fn start_explained(
        clock: &'r CachedClock,
        pool: &'r WorkerPool,
        request: &Request<'_>,
        why: &mut Explanation,
    ) -> Result<InFlight<'r>, NoPick> {
        let mut balancer = pool.balancer.borrow_mut();
        let ticket = balancer.start_explained(request, clock.now(), why)?;
        Ok(InFlight::new(clock, pool, ticket, balancer.drawn_from()))
    }

    /// Takes a place at the endpoint in this slot, for a sticky session.
    ///
    /// # Errors
    /// The endpoint is not eligible, or has no room.
    pub fn start_at(clock: &'r CachedClock, pool: &'r WorkerPool, slot: Slot) -> Result<InFlight<'r>, NoPick> {
        let ticket = pool.balancer.borrow_mut().start_at(slot, clock.now())?;
        Ok(InFlight::new(clock, pool, ticket, 0))
    }

    fn new(clock: &'r CachedClock, pool: &'r WorkerPool, ticket: Ticket, drawn_from: u32) -> InFlight<'r> {
        let endpoint = pool.endpoints.at(ticket.slot());
        endpoint.stats.active.add(1);
        InFlight { clock, pool, endpoint, ticket: Some(ticket), drawn_from }
    }

    fn ticket(&self) -> &Ticket {
        self.ticket.as_ref().expect("the ticket is taken only by end and drop")
    }

    /// Slot of the endpoint in its pool.
    pub fn slot(&self) -> Slot {
        self.ticket().slot()
    }

    /// Notes that the first byte of the response has arrived.
    pub fn answered(&mut self, now: Instant) {
        if let Some(ticket) = &mut self.ticket {
            ticket.answered(now);
        }
    }

    /// Time of the pick, from which latency counts.
    pub fn began(&self) -> Instant {
        self.ticket().began()
    }

    /// Current time of the worker's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Time from the pick to the first byte of the response, or to now if there was none, in nanoseconds.
    pub fn latency_ns(&self) -> u64 {
        self.ticket().latency_ns(self.clock.now())
    }

    /// Returns the ticket with the outcome of the request.
    pub fn end(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// Ends a request that was answered with this status, and counts it at the endpoint.
    #[inline]
    pub fn finish(self, outcome: Outcome, status: u16) {
        let endpoint = self.endpoint.clone();
        endpoint.stats.latency.record(self.latency_ns());
        self.end(outcome);
        endpoint.stats.requests[stats::class(status)].add(1);
    }

    /// Ends a request by a fault, and counts it at the endpoint.
    pub fn give_up(self, fault: Fault) -> Rc<Endpoint> {
        let endpoint = self.endpoint.clone();
        self.end(fault.outcome());
        endpoint.stats.requests[stats::class(fault.status())].add(1);
        if let Some(kind) = fault.error_kind() {
            endpoint.stats.errors[kind as usize].add(1);
        }
        endpoint
    }

    fn give_back(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            self.pool.take_back(ticket, &self.endpoint, outcome, self.clock.now());
        }
    }
}

/// A request in flight that belongs to no client's request. Dropped before it is taken, it counts as cancelled.
pub struct OwnedInFlight {
    core: Rc<Core>,
    pub pool: Rc<WorkerPool>,
    pub endpoint: Rc<Endpoint>,
    ticket: Option<Ticket>,
}

impl OwnedInFlight {
    /// Keeps a request in flight at an endpoint of this pool.
    pub fn new(mut of: InFlight<'_>, pool: &Rc<WorkerPool>, core: &Rc<Core>) -> OwnedInFlight {
        OwnedInFlight {
            core: core.clone(),
            pool: pool.clone(),
            endpoint: of.endpoint.clone(),
            ticket: of.ticket.take(),
        }
    }

    /// Takes it, to end it; `None` if it was taken before.
    pub fn take(&mut self) -> Option<InFlight<'_>> {
        let ticket = Some(self.ticket.take()?);
        let (clock, pool, endpoint) = (&self.core.clock, &self.pool, self.endpoint.clone());
        Some(InFlight { clock, pool, endpoint, ticket, drawn_from: 0 })
    }
}

impl Drop for OwnedInFlight {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl WorkerPool {
    /// Returns a ticket to the balancer, and takes the request out of the endpoint's count.
    pub fn take_back(&self, ticket: Ticket, endpoint: &Endpoint, outcome: Outcome, now: Instant) {
        endpoint.stats.active.sub(1);
        if self.balancer.borrow_mut().end(ticket, outcome, now) {
            self.control.poke(&self.name);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.give_back(Outcome::Cancelled);
    }
}

/// The outcome of a response for the balancer: server errors and "too many requests" count as failures, or an endpoint
/// that refuses fast would look like the fastest.
pub fn outcome(status: u16, fields: &Fields<'_, '_>) -> Outcome {
    let Some(kind) = FailureKind::of_status(status) else { return Outcome::Success };
    let after = fields.first("retry-after");
    let seconds = after.and_then(|v| std::str::from_utf8(v).ok()?.trim().parse::<u32>().ok());
    Outcome::Failure { kind, retry_after_ns: seconds.map(|s| u64::from(s) * 1_000_000_000) }
}

/// Reason why a request gets no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// No endpoint can be picked, and waiting would not help.
    Pick(NoPick),
    /// The pool's queue is full; the value is the reason to queue.
    QueueFull(NoPick),
    /// The wait in the queue was too long; the value is the reason to queue.
    Waited(NoPick),
    /// The client left while it was queued.
    ClientGone,
}

impl NoPlace {
    /// Status for the client. A pool without any endpoint has a configured status.
    #[cold]
    pub fn status(self, pool: &WorkerPool) -> u16 {
        let balancer = pool.balancer.borrow();
        let has_none = balancer.set().is_empty() && balancer.set().excluded().is_empty();
        if self == NoPlace::Pick(NoPick::Empty) && has_none { pool.plan().empty_status.unwrap_or(503) } else { 503 }
    }

    /// Counts it, and returns the text for the client; `None` if that has left.
    #[cold]
    pub fn count(self, pool: &WorkerPool) -> Option<String> {
        Some(match self {
            NoPlace::Pick(why) => no_pick_text(pool, why),
            NoPlace::QueueFull(why) => {
                pool.stats.queue_rejected[0].add(1);
                format!("{}; the queue is full", no_pick_text(pool, why))
            }
            NoPlace::Waited(why) => {
                pool.stats.queue_rejected[1].add(1);
                format!("{}; none became available in time", no_pick_text(pool, why))
            }
            NoPlace::ClientGone => return None,
        })
    }
}

/// Picks an endpoint for a request, without waiting.
///
/// # Errors
/// No endpoint can be picked now; [`Wait::place`] may help.
pub fn place<'r>(tries: &Tries<'r>) -> Result<InFlight<'r>, NoPick> {
    let (clock, pool, key, beyond) = (tries.clock, tries.pool, tries.key, tries.is_beyond());
    let mut placed = InFlight::start(clock, pool, &Request { key, tried: &tries.tried.borrow(), beyond });
    if matches!(placed, Err(NoPick::AllTried)) && tries.same_will_do() {
        // After the pause of a retry, an endpoint that has failed may work again, and is better than none.
        placed = InFlight::start(clock, pool, &Request { key, ..Request::default() });
    }
    placed
}

/// Arguments of a wait for an endpoint.
pub struct Wait<'w> {
    /// Timer of the request, set to the end of the wait.
    pub timer: &'w Timer,
    /// Tick at which the request ends, whatever its state.
    pub deadline: u64,
    /// Set to [`Phase::Queue`].
    pub phase: &'w Cell<Phase>,
    /// Its `queue_ns` is increased by the wait.
    pub timing: &'w Cell<Timing>,
    /// Destination for an explanation of the pick, if wanted.
    pub why: Option<&'w RefCell<Explanation>>,
}

impl Wait<'_> {
    /// Waits in the queue of the pool for an endpoint. Returns at once if waiting does not help with `why`, the reason why
    /// none was picked before. `gone` is ready when the client has left.
    ///
    /// # Errors
    /// No endpoint became free: see [`NoPlace`].
    pub async fn place<'r>(
        &self,
        tries: &Tries<'r>,
        why: NoPick,
        gone: impl FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> Result<InFlight<'r>, NoPlace> {
        if !why.may_wait() {
            return Err(NoPlace::Pick(why));
        }
        self.phase.set(Phase::Queue);
        let began = tries.clock.now();
        let got = self.queue(tries, why, gone).await;
        // `read` and not `now`: if the worker was woken without having slept, the cached time may be the start of the
        // wait.
        let waited = tries.clock.read().since(began);
        self.timing.update(|timing| Timing { queue_ns: timing.queue_ns + waited, ..timing });
        tries.pool.stats.queue_wait.record(waited);
        got
    }

    /// Waits in the pool's queue until an endpoint is free, for at most the queue timeout.
    ///
    /// # Errors
    /// See [`NoPlace`].
    async fn queue<'r>(
        &self,
        tries: &Tries<'r>,
        why: NoPick,
        mut gone: impl FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> Result<InFlight<'r>, NoPlace> {
        let (timer, clock, pool) = (self.timer, tries.clock, tries.pool);
        let tried = tries.tried.borrow().clone();
        let request = &Request { key: tries.key, tried: &tried, beyond: tries.is_beyond() };
        let mut waiting: Option<Waiting> = None;
        timer.set(timer.tick_after(pool.queue_time()).min(self.deadline));
        let mut trying = pin!(poll_fn(|cx| {
            let mut balancer = pool.balancer.borrow_mut();
            match &mut waiting {
                Some(waiting) => waiting.set_waker(cx.waker()),
                None => match balancer.queue().enter(cx.waker().clone()) {
                    Ok(entered) => waiting = Some(entered),
                    Err(Full) => return Poll::Ready(Err(NoPlace::QueueFull(why))),
                },
            }
            let waiting = waiting.as_mut().expect("it was entered above");
            let started = match self.why {
                None => balancer.start_waited(request, waiting, clock.now()),
                Some(why) => balancer.start_waited_explained(request, waiting, clock.now(), &mut why.borrow_mut()),
            };
            match started {
                Ok(ticket) => return Poll::Ready(Ok((ticket, balancer.drawn_from()))),
                Err(why) if !why.may_wait() => return Poll::Ready(Err(NoPlace::Pick(why))),
                Err(_) => {}
            }
            gone(cx).map(|()| Err(NoPlace::ClientGone))
        }));
        match timer.limit(trying.as_mut()).await {
            Ok(got) => got.map(|(ticket, drawn_from)| InFlight::new(clock, pool, ticket, drawn_from)),
            Err(Elapsed) => Err(NoPlace::Waited(why)),
        }
    }
}

/// Text of a 503: the pool, and the number of its endpoints that are excluded for each reason.
#[cold]
fn no_pick_text(pool: &WorkerPool, why: NoPick) -> String {
    pool.stats.no_pick[why as usize].add(1);
    let balancer = pool.balancer.borrow();
    let (set, excluded) = (balancer.set(), balancer.set().excluded());
    let mut text =
        format!("pool \"{}\": {why}: {} of {} endpoints eligible", pool.name, set.len(), set.len() + excluded.len());
    let reasons = Exclusion::STANDING.map(|reason| {
        let n = excluded.iter().filter(|(_, _, r)| *r == reason).count();
        if n > 0 { format!("{n} {reason}") } else { String::new() }
    });
    let reasons: Vec<_> = reasons.into_iter().filter(|r| !r.is_empty()).collect();
    if !reasons.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, " ({})", reasons.join(", "));
    } else if set.is_empty() {
        text.push_str(" (discovery has found none; see the log)");
    }
    text
}
