//! Requests of this proxy, sent within retry rules: the endpoints of a pool are tried in turn until a response comes.

use super::attempt::{self, Answer, Terms};
use super::request::SideRequest;
use crate::load::probe::Prober;
use crate::observe::timing::Timing;
use crate::upstream::pick::{self, Wait};
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::{self, Retries, Tries};
use evenkeel_balance::Clock;
use evenkeel_balance::retry::{Decision, Failed};
use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Pool that gets requests of this proxy, and the rules for them.
pub struct Destination {
    pub pool: Rc<WorkerPool>,
    pub prober: Rc<Prober>,
    pub retries: Retries,
    /// Longest time until the whole response is there.
    pub timeout: Duration,
    /// Most bytes of the body of a response that are read.
    pub answer_max: u64,
}

/// Sends a request, whose hash key for the pool's algorithm is `key`, and returns the response. If this future is
/// dropped before, the request counts as cancelled.
///
/// # Errors
/// The reason in words why no complete response came in time.
pub async fn send(to: &Destination, request: &mut SideRequest, key: Option<u64>) -> Result<Answer, String> {
    let (core, pool) = (to.prober.core(), &*to.pool);
    let (clock, timer) = (&core.clock, core.wheel.timer());
    let deadline = timer.tick_after(to.timeout);
    let terms = Terms { core, timer: &timer, deadline, answer_max: to.answer_max, keeps_body: true };
    let tries = Tries::begin(&to.retries, pool, clock, key);
    let (phase, timing) = (Cell::default(), Cell::new(Timing::new(clock.now())));
    let mut last: Option<String> = None;
    loop {
        let ticket = match pick::place(&tries) {
            Ok(ticket) => ticket,
            Err(why) => {
                let wait = Wait { timer: &timer, deadline, phase: &phase, timing: &timing, why: None };
                let placed = wait.place(&tries, why, |_| Poll::Pending).await;
                // The reason of the attempt before is more precise than the lack of an endpoint for another attempt.
                placed.map_err(|none| last.take().or(none.count(pool)).unwrap_or_default())?
            }
        };
        to.prober.after_start(&to.pool);
        let slot = ticket.slot();
        let failed = match attempt::run(terms, ticket, request).await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        // As for requests of clients: a request that an endpoint has not processed costs neither an attempt nor retry
        // budget.
        let after_ns = if failed.is_unprocessed && tries.has_other(slot) {
            0
        } else {
            let decide = |failure| {
                let (idempotent, left_ns) = (request.is_idempotent(), timer.left_ns(deadline));
                let beyond = tries.has_beyond(slot);
                tries.decide(&Failed { failure, idempotent, replayable: true, left_ns, beyond })
            };
            match failed.failure.map(decide) {
                Some(Decision::Again { after_ns, .. }) => after_ns,
                Some(Decision::Stop(_)) | None => return Err(failed.why),
            }
        };
        last = Some(failed.why);
        tries.tried.borrow_mut().push(slot);
        pool.stats.retries.add(1);
        // Only clients leave: this future is dropped then.
        let _ = retries::pause(after_ns, |_| Poll::Pending).await;
    }
}
