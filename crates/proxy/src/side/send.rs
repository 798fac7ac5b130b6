//! Requests of this proxy, sent within retry rules: the endpoints of a pool are tried in turn until a response comes.

use super::attempt::{self, Answer, Reads, Terms};
use super::fill::Rest;
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
    /// Longest time until everything is there that is read of the response.
    pub timeout: Duration,
}

/// Sends a request, whose hash key for the pool's algorithm is `key`, and returns the response with at most this many bytes
/// of its body. If this future is dropped before, the request counts as cancelled.
///
/// # Errors
/// The reason in words why no complete response came in time.
pub async fn send(
    to: &Destination,
    request: &mut SideRequest,
    key: Option<u64>,
    answer_max: u64,
) -> Result<Answer, String> {
    let (answer, rest) = attempts(to, request, key, Reads::Whole(answer_max)).await?;
    rest.end();
    Ok(answer)
}

/// Like [`send`], but returns as soon as the head of the response has arrived, with the rest of the response.
///
/// # Errors
/// The reason in words why no head came in time.
pub async fn begin(to: &Destination, request: &mut SideRequest, key: Option<u64>) -> Result<(Answer, Rest), String> {
    attempts(to, request, key, Reads::Head).await
}

async fn attempts(
    to: &Destination,
    request: &mut SideRequest,
    key: Option<u64>,
    reads: Reads,
) -> Result<(Answer, Rest), String> {
    let (core, pool) = (to.prober.core(), &*to.pool);
    let (clock, timer) = (&core.clock, core.wheel.timer());
    let deadline = timer.tick_after(to.timeout);
    let terms = Terms { core, pool: &to.pool, timer: &timer, deadline, reads };
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
            Ok(read) => return Ok(read),
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
