//! Retries and hedges: their settings and budget by route and worker, and the tries of a request.

use crate::upstream::pool::WorkerPool;
use evenkeel_balance::hedge::Hedge;
use evenkeel_balance::retry::{Decision, Failed, Failure, Retry, Stop};
use evenkeel_balance::rng::{Rng, mix};
use evenkeel_balance::{Clock, EndpointSet, Instant, Slot, budget::Budget};
use evenkeel_config::plan::{self, RouteTimeouts};
use evenkeel_net::clock::CachedClock;
use evenkeel_net::event_loop::alarm;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The client left before its request was tried again.
pub struct Left;

/// Waits before another try. `gone` is ready when the client has left.
///
/// # Errors
/// The client left; there is nothing to try again.
pub async fn pause(after_ns: u64, mut gone: impl FnMut(&mut Context<'_>) -> Poll<()>) -> Result<(), Left> {
    if after_ns == 0 {
        return Ok(());
    }
    let mut over = pin!(alarm::sleep(Duration::from_nanos(after_ns)));
    poll_fn(|cx| if gone(cx).is_ready() { Poll::Ready(Err(Left)) } else { over.as_mut().poll(cx).map(Ok) }).await
}

/// Retries and hedges of a route on a worker.
pub struct Retries {
    route: Arc<str>,
    plan: plan::Retry,
    budget: RefCell<Budget>,
    hedge: Option<RefCell<Hedge>>,
    rng: RefCell<Rng>,
}

impl Retries {
    /// Creates the state of a route. Its budget is the share of a worker among `workers`.
    pub fn new(route: &plan::Route, core: usize, workers: usize, now: Instant) -> Retries {
        let settings = &route.retry.settings;
        let budget = Budget::new(settings.budget, settings.budget_floor, workers as u32, now);
        let hedge = route.retry.hedge.as_ref().map(|settings| RefCell::new(Hedge::new(settings, now)));
        // Seeded by process and worker, so that their pauses differ.
        let rng = Rng::new(mix(u64::from(std::process::id()) << 16 | core as u64)).into();
        Retries { route: route.name.clone(), plan: route.retry.clone(), budget: budget.into(), hedge, rng }
    }

    /// Name of the route, by which the next plan finds its retries.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// True if a plan's route has the same settings, so that budget and latencies can be kept.
    pub fn is_of(&self, route: &plan::Route) -> bool {
        self.route == route.name && self.plan == route.retry
    }
}

/// Tries of a request, and the decisions between them.
pub struct Tries<'r> {
    retries: &'r Retries,
    pub pool: &'r WorkerPool,
    pub clock: &'r CachedClock,
    /// Hash key for the pool's algorithm; `None` if it uses none, or the request does not have it.
    pub key: Option<u64>,
    retry: Cell<Retry>,
    /// Decision about a response, made while its head was at hand.
    decided: Cell<Option<Decision>>,
    same: Cell<bool>,
    /// True if the next try has to leave the preferred endpoints, for another zone or a lower tier.
    beyond: Cell<bool>,
    /// True once the hedge was counted. A stale idle connection that is replaced begins the try anew, but not the
    /// request.
    hedged: Cell<bool>,
    /// Endpoints that were tried.
    pub tried: RefCell<Vec<Slot>>,
    began: Instant,
}

impl<'r> Tries<'r> {
    /// Begins the tries of a request, which earns the route some budget.
    pub fn begin(retries: &'r Retries, pool: &'r WorkerPool, clock: &'r CachedClock, key: Option<u64>) -> Tries<'r> {
        let began = clock.now();
        retries.budget.borrow_mut().earn(began);
        let (retry, decided, same, beyond, hedged, tried) = Default::default();
        Tries { retries, pool, clock, key, retry, decided, same, beyond, hedged, tried, began }
    }

    /// True if the settings may allow a request that is not idempotent to be sent twice. `is_call`: it is a gRPC call.
    pub fn may_repeat(&self, is_call: bool) -> bool {
        let settings = &self.retries.plan.settings;
        settings.non_idempotent || (is_call && settings.on.grpc != 0)
    }

    /// True if an endpoint that was tried may be tried again if no other is left.
    pub fn same_will_do(&self) -> bool {
        self.same.get()
    }

    /// True if the next try has to leave the preferred endpoints, for another zone or a lower tier.
    pub fn is_beyond(&self) -> bool {
        self.beyond.get()
    }

    /// Decides on a retry after a failed try. A retry is taken from the budget; a refusal is counted.
    #[cold]
    pub fn decide(&self, failed: &Failed) -> Decision {
        let (settings, mut retry) = (&self.retries.plan.settings, self.retry.get());
        let (mut budget, mut rng) = (self.retries.budget.borrow_mut(), self.retries.rng.borrow_mut());
        let decision = retry.decide(settings, failed, &mut budget, &mut rng, self.clock.now());
        self.retry.set(retry);
        match decision {
            Decision::Again { same, leaves, .. } => {
                self.same.set(same);
                self.beyond.set(leaves);
            }
            Decision::Stop(why) => self.count_refused(why),
        }
        decision
    }

    /// Counts a retry that is refused.
    #[cold]
    pub fn count_refused(&self, why: Stop) {
        self.pool.stats.retries_refused[why as usize].add(1);
    }

    /// True if endpoints beyond the preferred endpoints could serve the request after a failed try at `here`.
    #[cold]
    pub fn has_beyond(&self, here: Slot) -> bool {
        let mut tried = self.tried.borrow_mut();
        tried.push(here);
        let has_beyond = self.pool.balancer.borrow_mut().has_beyond(&tried, self.clock.now());
        tried.pop(); // the next try adds it again
        has_beyond
    }

    /// True if an endpoint other than `here` has room and was not tried.
    pub fn has_other(&self, here: Slot) -> bool {
        let (balancer, tried) = (self.pool.balancer.borrow(), self.tried.borrow());
        let set = balancer.set();
        let mut members = std::iter::once(set).chain(set.overflow()).flat_map(EndpointSet::members);
        members.any(|m| m.slot != here && !tried.contains(&m.slot) && !balancer.loads().is_full(m))
    }

    /// True if the settings allow another try at an endpoint that has answered with a status.
    pub fn may_return(&self) -> bool {
        self.retries.plan.settings.same_endpoint
    }

    /// True if the settings list this failure for retries.
    pub fn minds(&self, failure: Failure) -> bool {
        self.retries.plan.settings.on.admit(failure)
    }

    /// Keeps a decision about a response until the try has ended.
    pub fn note(&self, decision: Decision) {
        self.decided.set(Some(decision));
    }

    /// Takes the decision kept by [`note`](Self::note).
    pub fn take_decision(&self) -> Option<Decision> {
        self.decided.take()
    }

    /// Timeouts of a try: the timeouts of the route, cut to the timeout of a try.
    pub fn timeouts(&self, whole: RouteTimeouts) -> RouteTimeouts {
        let Some(try_ns) = self.retries.plan.settings.try_timeout_ns else { return whole };
        let of_try = Duration::from_nanos(try_ns);
        let response = Some(whole.response.map_or(of_try, |time| time.min(of_try)));
        RouteTimeouts { connect: whole.connect.min(of_try), response, ..whole }
    }

    /// Delay in nanoseconds after which a second endpoint is asked, too; `None` for never. Only the first try of a
    /// request is hedged.
    pub fn hedge_after(&self, left_ns: Option<u64>) -> Option<u64> {
        let first = |_: &&RefCell<Hedge>| self.tried.borrow().is_empty() && !self.hedged.replace(true);
        let hedge = self.retries.hedge.as_ref().filter(first)?;
        hedge.borrow_mut().begin(true, left_ns, self.began)
    }

    /// Takes a hedge from the budget. Returns true if a second endpoint may be asked now.
    pub fn hedge(&self) -> bool {
        self.retries.hedge.as_ref().is_some_and(|hedge| hedge.borrow_mut().send(self.clock.now()))
    }

    /// Returns the budget of a hedge that was not sent, as no other endpoint has room.
    pub fn cancel_hedge(&self) {
        if let Some(hedge) = &self.retries.hedge {
            hedge.borrow_mut().cancel();
        }
    }

    /// Records the latency of a first copy, from which the delay of hedges is computed.
    pub fn on_answer(&self, latency_ns: u64, now: Instant) {
        if let Some(hedge) = &self.retries.hedge {
            hedge.borrow_mut().record(latency_ns, now);
        }
    }
}
