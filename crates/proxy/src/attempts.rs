//! Which endpoints is a request sent to? One after another until one answers, as far as it may be tried again.

use crate::attempt::{self, Failed};
use crate::client::Client;
use crate::end::Cause;
use crate::event_loop::alarm;
use crate::http1::Body;
use crate::http1::response::{Asked, Towards};
use crate::outgoing::Outgoing;
use crate::pick::{self, InFlight, NoPlace};
use crate::record::Record;
use crate::retries::{Retries, Tries};
use crate::session::Session;
use crate::talk::Answered;
use crate::upstream::WorkerPool;
use evenkeel_balance::retry::Decision;
use evenkeel_balance::{Clock, NoPick};
use evenkeel_config::plan::RouteTimeouts;
use std::time::Duration;

/// A request that was read and routed.
pub struct Opened<'r> {
    pub pool: &'r WorkerPool,
    /// What its route may try again.
    pub retries: &'r Retries,
    pub key: Option<u64>,
    /// Where its client was before, if it has to go there again.
    pub session: Option<Session>,
    pub towards: Towards,
    /// Whether the client wants to send another request.
    pub more_wanted: bool,
    pub asked: Asked,
    pub idempotent: bool,
    /// Whether the endpoint's connection must not carry another request.
    pub close: bool,
    pub timeouts: RouteTimeouts,
    /// The tick by which all must be over.
    pub deadline: u64,
    /// What of the body is still to come.
    pub body: Body,
    /// The head for the endpoint, unless it is in the buffer.
    pub head: Vec<u8>,
    /// Bytes at the front of the buffer that go to the endpoint: the head, and what came with it of the body.
    pub send: usize,
}

/// What we say in an endpoint's place.
pub struct Reply {
    pub status: u16,
    pub why: String,
    /// Seconds after which asking again makes sense.
    pub retry_after: Option<u64>,
}

impl Reply {
    pub fn new(status: u16, why: String) -> Reply {
        Reply { status, why, retry_after: None }
    }
}

/// Sends the request, and relays the response of the endpoint that answers.
///
/// # Errors
/// What the client is to be told instead; `None` if there is nobody to be told, or a response had begun.
pub async fn send<'r>(
    client: &'r Client<'_>,
    record: &mut Record<'_>,
    opened: &mut Opened<'r>,
    out: &mut Outgoing<'_>,
) -> Result<Answered, Option<Reply>> {
    let tries = Tries::begin(opened.retries, opened.key, client.worker.clock.now());
    let mut last: Option<Reply> = None;
    loop {
        let ticket = match place(client, record, opened, &tries) {
            Ok(ticket) => ticket,
            Err(why) => {
                let (pool, deadline) = (opened.pool, opened.deadline);
                match pick::wait(client, pool, &tries, why, deadline, &record.phase, &record.queue_ns).await {
                    Ok(ticket) => ticket,
                    Err(none) => return Err(unplaced(record, pool, none, last)),
                }
            }
        };
        if let Some(pool) = record.rules.pools.get(record.route) {
            client.worker.prober.after_start(pool, &client.worker.clock);
        }
        let slot = ticket.slot();
        record.endpoint = Some(ticket.endpoint.clone());
        record.tries += 1;
        let failed = match attempt::run(client, record, opened, out, &tries, ticket).await {
            Ok(answered) => return Ok(answered),
            Err(failed) => failed,
        };
        match decide(client, opened, out, &tries, &failed) {
            Some(Decision::Again { after_ns, .. }) => {
                opened.pool.stats.retries.add(1);
                tries.tried.borrow_mut().push(slot);
                last = failed.reply;
                if after_ns > 0 {
                    alarm::sleep(Duration::from_nanos(after_ns)).await;
                }
            }
            stop => {
                if let Some(Decision::Stop(why)) = stop {
                    opened.pool.stats.retries_refused[why as usize].add(1);
                }
                record.blame(failed.cause);
                return Err(failed.reply);
            }
        }
    }
}

/// What a client is told whose request has no place, after what it would be told of the try before.
#[cold]
fn unplaced(record: &Record<'_>, pool: &WorkerPool, none: NoPlace, last: Option<Reply>) -> Option<Reply> {
    let reply = none.reply(pool);
    record.blame(match (&reply, &last) {
        (None, _) => Cause::Client,
        (_, None) => Cause::Proxy,
        (_, Some(_)) => Cause::Endpoint,
    });
    reply.map(|reply| last.unwrap_or(reply))
}

/// Whether there is another try; `None` for what no retry mends.
fn decide(
    client: &Client<'_>,
    opened: &Opened<'_>,
    out: &mut Outgoing<'_>,
    tries: &Tries<'_>,
    failed: &Failed,
) -> Option<Decision> {
    let failure = failed.failure?;
    // A status was decided about while its response was at hand.
    if let Some(decision) = tries.take_decision() {
        return Some(if out.again() { decision } else { Decision::Stop(evenkeel_balance::retry::Stop::BodyGone) });
    }
    let replayable = out.is_whole() || (opened.body.is_done() && out.again());
    let left_ns = client.timer.left_ns(opened.deadline);
    Some(tries.decide(failure, opened.idempotent, replayable, left_ns, client.worker.clock.now()))
}

/// A place at an endpoint: where the session was, or a picked one.
fn place<'r>(
    client: &'r Client<'_>,
    record: &Record<'_>,
    opened: &Opened<'r>,
    tries: &Tries<'_>,
) -> Result<InFlight<'r>, NoPick> {
    let pool = opened.pool;
    if let Some(session) = opened.session.as_ref().filter(|_| record.tries == 0)
        && let Some(ticket) = session.at(&client.worker.clock, pool)
    {
        return Ok(ticket);
    }
    pick::place(client, pool, tries)
}
