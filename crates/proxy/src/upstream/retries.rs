//! What may one route's requests try again on one worker, and what has one request tried?

use crate::upstream::pool::WorkerPool;
use evenkeel_balance::hedge::Hedge;
use evenkeel_balance::retry::{Decision, Failed, Failure, Retry};
use evenkeel_balance::rng::{Rng, mix};
use evenkeel_balance::{EndpointSet, Instant, Slot, budget::Budget};
use evenkeel_config::plan::{self, RouteTimeouts};
use evenkeel_net::event_loop::alarm;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The client went away before its request was tried again.
pub struct Left;

/// The pause before another try, which ends when `gone` says that the client is.
///
/// # Errors
/// It is: nothing is tried again.
pub async fn pause(after_ns: u64, mut gone: impl FnMut(&mut Context<'_>) -> Poll<()>) -> Result<(), Left> {
    if after_ns == 0 {
        return Ok(());
    }
    let mut over = pin!(alarm::sleep(Duration::from_nanos(after_ns)));
    poll_fn(|cx| if gone(cx).is_ready() { Poll::Ready(Err(Left)) } else { over.as_mut().poll(cx).map(Ok) }).await
}

/// The retries and hedges of one route on one worker.
pub struct Retries {
    route: Arc<str>,
    plan: plan::Retry,
    budget: RefCell<Budget>,
    hedge: Option<RefCell<Hedge>>,
    rng: RefCell<Rng>,
}

impl Retries {
    /// None yet.
    pub fn new(route: &plan::Route, core: usize, workers: usize, now: Instant) -> Retries {
        let settings = &route.retry.settings;
        let budget = Budget::new(settings.budget, settings.budget_floor, workers as u32, now);
        let hedge = route.retry.hedge.as_ref().map(|settings| RefCell::new(Hedge::new(settings, now)));
        // Not the same pauses on every worker and in every process.
        let rng = Rng::new(mix(u64::from(std::process::id()) << 16 | core as u64)).into();
        Retries { route: route.name.clone(), plan: route.retry.clone(), budget: budget.into(), hedge, rng }
    }

    /// The name of the route.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// Whether it is what a plan says of a route: then it goes on, with what it has earned and seen.
    pub fn is_of(&self, route: &plan::Route) -> bool {
        self.route == route.name && self.plan == route.retry
    }
}

/// The tries of one request.
pub struct Tries<'r> {
    retries: &'r Retries,
    /// What the pool's algorithm is keyed by, if it is.
    pub key: Option<u64>,
    retry: Cell<Retry>,
    /// Made while the response that it is about was at hand.
    decided: Cell<Option<Decision>>,
    same: Cell<bool>,
    /// True if the next try has to go beyond the endpoints that requests go to first.
    beyond: Cell<bool>,
    /// Whether its hedge was counted: a replaced idle connection begins the try anew, but not the request.
    hedged: Cell<bool>,
    /// Where it was sent to, or tried to be.
    pub tried: RefCell<Vec<Slot>>,
    began: Instant,
}

impl<'r> Tries<'r> {
    /// A request that begins.
    pub fn begin(retries: &'r Retries, key: Option<u64>, now: Instant) -> Tries<'r> {
        retries.budget.borrow_mut().earn(now);
        let (retry, decided, same, beyond, hedged, tried) = Default::default();
        Tries { retries, key, retry, decided, same, beyond, hedged, tried, began: now }
    }

    /// Whether one that is not idempotent may be sent twice, after some failure. `is_call`: of gRPC.
    pub fn may_repeat(&self, is_call: bool) -> bool {
        let settings = &self.retries.plan.settings;
        settings.non_idempotent || (is_call && settings.on.grpc != 0)
    }

    /// Whether an endpoint that was tried may be asked again if no other is left.
    pub fn same_will_do(&self) -> bool {
        self.same.get()
    }

    /// True if the next try has to go beyond the endpoints that requests go to first.
    pub fn is_beyond(&self) -> bool {
        self.beyond.get()
    }

    /// Decides after a try at `here` that failed; the retry counts as taken.
    #[cold]
    pub fn decide(
        &self,
        (pool, here): (&WorkerPool, Slot),
        failure: Failure,
        idempotent: bool,
        replayable: bool,
        left_ns: Option<u64>,
        now: Instant,
    ) -> Decision {
        let (settings, mut retry) = (&self.retries.plan.settings, self.retry.get());
        let mut tried = self.tried.borrow_mut();
        tried.push(here);
        let beyond = pool.balancer.borrow_mut().has_beyond(&tried, now);
        tried.pop(); // it becomes one that was tried with the next try
        let failed = Failed { failure, idempotent, replayable, left_ns, beyond };
        let (mut budget, mut rng) = (self.retries.budget.borrow_mut(), self.retries.rng.borrow_mut());
        let decision = retry.decide(settings, &failed, &mut budget, &mut rng, now);
        self.retry.set(retry);
        if let Decision::Again { same, leaves, .. } = decision {
            self.same.set(same);
            self.beyond.set(leaves);
        }
        decision
    }

    /// True if another endpoint than that of `here` has room and was not tried.
    pub fn has_other(&self, pool: &WorkerPool, here: Slot) -> bool {
        let (balancer, tried) = (pool.balancer.borrow(), self.tried.borrow());
        let set = balancer.set();
        let mut members = std::iter::once(set).chain(set.overflow()).flat_map(EndpointSet::members);
        members.any(|m| m.slot != here && !tried.contains(&m.slot) && !balancer.loads().is_full(m))
    }

    /// Whether what a response says is tried again, if anything else allows it.
    pub fn minds(&self, failure: Failure) -> bool {
        self.retries.plan.settings.on.admit(failure)
    }

    /// Keeps what was decided about a response while it was at hand.
    pub fn note(&self, decision: Decision) {
        self.decided.set(Some(decision));
    }

    /// What was [noted](Self::note), once.
    pub fn take_decision(&self) -> Option<Decision> {
        self.decided.take()
    }

    /// The timeouts of one try.
    pub fn timeouts(&self, whole: RouteTimeouts) -> RouteTimeouts {
        let Some(try_ns) = self.retries.plan.settings.try_timeout_ns else { return whole };
        let of_try = Duration::from_nanos(try_ns);
        let response = Some(whole.response.map_or(of_try, |time| time.min(of_try)));
        RouteTimeouts { connect: whole.connect.min(of_try), response, ..whole }
    }

    /// After how many nanoseconds a second endpoint is asked too; `None` for never. Once for each request: a retry is
    /// not hedged.
    pub fn hedge_after(&self, left_ns: Option<u64>) -> Option<u64> {
        let first = |_: &&RefCell<Hedge>| self.tried.borrow().is_empty() && !self.hedged.replace(true);
        let hedge = self.retries.hedge.as_ref().filter(first)?;
        hedge.borrow_mut().begin(true, left_ns, self.began)
    }

    /// Whether the budget allows to ask a second endpoint now.
    pub fn hedge(&self, now: Instant) -> bool {
        self.retries.hedge.as_ref().is_some_and(|hedge| hedge.borrow_mut().send(now))
    }

    /// No second endpoint can be asked: the budget takes its token back.
    pub fn cancel_hedge(&self) {
        if let Some(hedge) = &self.retries.hedge {
            hedge.borrow_mut().cancel();
        }
    }

    /// Takes the latency of a first copy.
    pub fn on_answer(&self, latency_ns: u64, now: Instant) {
        if let Some(hedge) = &self.retries.hedge {
            hedge.borrow_mut().record(latency_ns, now);
        }
    }
}
