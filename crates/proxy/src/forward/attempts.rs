//! Attempts of a request: one endpoint after another until one answers, within its retry rules.

use crate::body::downstream::Downstream;
use crate::body::response::Response;
use crate::forward::attempt;
use crate::forward::attempt_end;
use crate::forward::outgoing::Outgoing;
use crate::forward::relay::Answered;
use crate::listener::client::Client;
use crate::observe::end::Cause;
use crate::observe::tries::How;
use crate::pipeline::route::Opened;
use crate::record::Record;
use crate::record::explanation::Explanation;
use crate::upstream::pick::{self, InFlight, NoPlace, Wait};
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::{self, Left, Tries};
use evenkeel_balance::retry::{Decision, Failed, Stop};
use evenkeel_balance::{Clock, NoPick, Outcome, Slot};
use std::time::Duration;

/// Sends the request, and relays the response of the endpoint that answers.
///
/// # Errors
/// The response for the client instead; `None` if it is gone, or if a response had begun.
pub async fn send<'r, D: Downstream>(
    client: &'r Client<'_>,
    down: &D,
    record: &mut Record<'_>,
    opened: &mut Opened<'r>,
    out: &mut Outgoing<'_>,
) -> Result<Answered, Option<Response>> {
    let clock = &client.core.clock;
    record.is_sent = true;
    let tries = Tries::begin(opened.route.retries, opened.route.pool, clock, opened.route.key);
    let mut last: Option<Response> = None;
    loop {
        if is_expired(client, record, opened) {
            record.blame(Cause::Proxy);
            let why = "the client's deadline (`grpc-timeout`) had passed before an endpoint was picked";
            return Err(Some(Response::new(504, why)));
        }
        let (ticket, how) = match place(client, record, opened, &tries) {
            Ok(placed) => placed,
            Err(why) => {
                let deadline = opened.route.deadline;
                let (timer, phase, timing) = (down.timer(), &record.phase, &record.timing);
                let wait = Wait { timer, deadline, phase, timing, why: record.explanation().map(Explanation::pick) };
                match wait.place(&tries, why, |cx| down.poll_gone(cx)).await {
                    Ok(ticket) => (ticket, How::Waited),
                    Err(none) => return Err(unplaced(record, opened.route.pool, none, last)),
                }
            }
        };
        let target = record.rules.target(record.route);
        let drawn = || target.pools().find(|pool| std::ptr::eq(&***pool, opened.route.pool));
        if let Some(pool) = target.only().or_else(drawn) {
            record.rules.prober.after_start(pool);
        }
        let slot = ticket.slot();
        record.endpoint = Some(ticket.endpoint.clone());
        record.note_try_began(opened.route.pool, &ticket, how);
        let call_left = opened.route.call_timeout.map(|limit| {
            let used = Duration::from_nanos(clock.now().since(record.timing.get().began));
            let left = down.timer().left_ns(opened.route.deadline).map_or(limit, Duration::from_nanos);
            limit.saturating_sub(used).min(left)
        });
        opened.route.call_left = call_left;
        if let Err(why) = out.begin_try(record, &ticket.endpoint, call_left) {
            let why = format!("the path cannot follow that of endpoint {}: {why}", ticket.endpoint.name);
            ticket.end(Outcome::Cancelled);
            record.note_try_failed(slot, None, Cause::Proxy, None);
            record.blame(Cause::Proxy);
            return Err(Some(last.unwrap_or_else(|| Response::new(400, why))));
        }
        let failed = match attempt::run(client, down, record, opened, out, &tries, ticket).await {
            Ok(answered) => return record.instead.take().map_or(Ok(answered), |instead| Err(Some(*instead))),
            Err(failed) => failed,
        };
        record.note_try_failed(slot, failed.failure, failed.cause, failed.reply.as_ref());
        // It was to follow the body, which has not come to its end and which the client does not get.
        if let Some(instead) = record.instead.take() {
            return Err(Some(*instead));
        }
        if failed.is_unprocessed && out.is_whole() && tries.has_other(slot) {
            // The endpoint has not processed the request, so another one costs neither an attempt nor retry budget.
            tries.tried.borrow_mut().push(slot);
            last = failed.reply;
            opened.route.pool.stats.retries.add(1);
            continue;
        }
        match decide(down, opened, out, (&tries, slot), &failed) {
            Some(Decision::Again { after_ns, .. }) => {
                tries.tried.borrow_mut().push(slot);
                last = failed.reply;
                if let Err(Left) = retries::pause(after_ns, |cx| down.poll_gone(cx)).await {
                    record.blame(Cause::Client);
                    return Err(None);
                }
                opened.route.pool.stats.retries.add(1);
            }
            Some(Decision::Stop(_)) | None => {
                record.blame(failed.cause);
                return Err(failed.reply);
            }
        }
    }
}

/// True if the client's deadline of a gRPC call has passed. Short timeouts need an exact clock: the cached one lags.
fn is_expired(client: &Client<'_>, record: &Record<'_>, opened: &Opened<'_>) -> bool {
    const SHORT: Duration = Duration::from_millis(100);
    let Some(limit) = opened.route.call_timeout else { return false };
    let now = if limit < SHORT { client.core.clock.read() } else { client.core.clock.now() };
    now.since(record.timing.get().began) >= limit.as_nanos() as u64
}

/// Returns the response to a request for which no endpoint was found: that of the attempt before, if there was one.
#[cold]
fn unplaced(record: &Record<'_>, pool: &WorkerPool, none: NoPlace, last: Option<Response>) -> Option<Response> {
    let reply = none.count(pool).map(|why| Response::new(none.status(pool), why));
    record.blame(match (&reply, &last) {
        (None, _) => Cause::Client,
        (_, None) => Cause::Proxy,
        (_, Some(_)) => Cause::Endpoint,
    });
    reply.map(|reply| last.unwrap_or(reply))
}

/// Decides on a retry; `None` for failures that no retry can fix.
fn decide<D: Downstream>(
    down: &D,
    opened: &Opened<'_>,
    out: &mut Outgoing<'_>,
    (tries, here): (&Tries<'_>, Slot),
    failed: &attempt_end::Failed,
) -> Option<Decision> {
    let failure = failed.failure?;
    // For a status, the decision was made when its response arrived.
    if let Some(decision) = tries.take_decision() {
        if !out.again() {
            tries.count_refused(Stop::BodyGone);
            return Some(Decision::Stop(Stop::BodyGone));
        }
        return Some(decision);
    }
    let replayable = out.is_whole() || (opened.is_here() && out.again());
    let left_ns = down.timer().left_ns(opened.route.deadline);
    let (idempotent, beyond) = (opened.idempotent, tries.has_beyond(here));
    Some(tries.decide(&Failed { failure, idempotent, replayable, left_ns, beyond }))
}

/// Picks an endpoint: that of the session at the first try, else by the algorithm.
fn place<'r>(
    client: &'r Client<'_>,
    record: &Record<'_>,
    opened: &Opened<'r>,
    tries: &Tries<'r>,
) -> Result<(InFlight<'r>, How), NoPick> {
    let pool = opened.route.pool;
    if let Some(session) = record.session.as_ref().filter(|_| record.tries == 0)
        && let Some(ticket) = session.at(&client.core.clock, pool)
    {
        return Ok((ticket, How::Session));
    }
    let ticket = match record.explanation() {
        Some(explanation) => explanation.place(tries),
        None => pick::place(tries),
    };
    Ok((ticket?, How::Picked))
}
