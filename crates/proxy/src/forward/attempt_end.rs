//! End of an attempt, answered or failed: updates the endpoint's statistics and the balancer.

use crate::body::fault::Fault;
use crate::body::response::Response;
use crate::forward::relay::Answered;
use crate::observe::end::{Cause, Phase};
use crate::record::Record;
use crate::record::grpc::Call;
use crate::upstream::connections::Unreachable;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::{Endpoint, WorkerPool};
use crate::upstream::retries::Tries;
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{Instant, Slot};
use std::rc::Rc;

/// Failed attempt and its consequences.
pub struct Failed {
    /// Side that ended the attempt.
    pub cause: Cause,
    /// Failure as retry rules classify it, if a retry could help.
    pub failure: Option<Failure>,
    /// True if the endpoint has not processed the request.
    pub is_unprocessed: bool,
    /// Response for the client if there is no retry; `None` if the client is gone, or if a response had begun.
    pub reply: Option<Response>,
}

/// Ends an attempt that was answered. `tries` records the latency for the hedging delay; `None` if the second copy
/// answered, as the race has recorded the latency of the first copy then.
#[inline]
pub(super) fn answered(record: &Record<'_>, ticket: InFlight<'_>, answered: Answered, tries: Option<&Tries<'_>>) {
    if let Some(tries) = tries {
        tries.on_answer(ticket.latency_ns(), ticket.now());
    }
    let (pool, slot, endpoint, now) = (ticket.pool, ticket.slot(), ticket.endpoint.clone(), ticket.now());
    ticket.finish(answered.outcome, record.status.get());
    take_received(record, pool, slot, &endpoint, now);
}

/// Notes that an endpoint has answered whose response a task of the cache reads to its end. `tries` as for [`answered`].
pub(super) fn began(record: &Record<'_>, ticket: &InFlight<'_>, tries: Option<&Tries<'_>>) {
    if let Some(tries) = tries {
        tries.on_answer(ticket.latency_ns(), ticket.now());
    }
    take_received(record, ticket.pool, ticket.slot(), &ticket.endpoint, ticket.now());
}

/// Passes the load report of a response to the balancer, now that the request has ended.
fn take_received(record: &Record<'_>, pool: &WorkerPool, slot: Slot, endpoint: &Rc<Endpoint>, now: Instant) {
    if let Some(received) = record.received.take() {
        pool.take_received(slot, endpoint, received, now);
    }
}

impl From<Unreachable> for Failed {
    fn from(Unreachable { cause, status, why }: Unreachable) -> Failed {
        Failed {
            cause,
            failure: Some(Failure::Connect),
            is_unprocessed: false,
            reply: Some(Response::new(status, why)),
        }
    }
}

/// Ends an attempt whose response has begun and does not reach its end. It does not count against the endpoint.
#[cold]
pub(super) fn failed_within(record: &Record<'_>, fault: Fault) -> Failed {
    if let Some((_, why)) = fault.reply_within() {
        let facts = &record.exchange.facts;
        record.note_reason(&match (facts.pool, &facts.endpoint) {
            (Some(pool), Some(endpoint)) if fault.is_of_endpoint() => {
                format!("pool \"{}\": endpoint {}: {why}", pool.name, endpoint.name)
            }
            _ => why,
        });
    }
    Failed { cause: fault.cause(), failure: None, is_unprocessed: false, reply: None }
}

/// Ends an attempt that failed after the endpoint had got the request, through the fault of either side.
#[cold]
pub(super) fn failed(record: &Record<'_>, ticket: InFlight<'_>, fault: Fault) -> Failed {
    // A response that has begun cannot be replaced: closing the connection shows the client that it is truncated.
    let begun = record.status.get() != 0 && record.phase.get() == Phase::Data;
    let (pool, slot, now) = (ticket.pool, ticket.slot(), ticket.now());
    let endpoint = ticket.give_up(fault);
    take_received(record, pool, slot, &endpoint, now);
    let mut reply = if begun { fault.reply_within() } else { fault.reply() };
    if let (Some((_, why)), Some(rule)) = (&mut reply, record.broken.take()) {
        *why = format!("{why}: {rule}");
    }
    let mut reply = reply.map(|(status, why)| match fault.is_of_endpoint() {
        true => Response::new(status, format!("pool \"{}\": endpoint {}: {why}", pool.name, endpoint.name)),
        false => Response::new(status, why),
    });
    if let Some(reply) = reply.take_if(|_| begun) {
        record.note_reason(&reply.why());
        let call_status = fault.call_status().filter(|_| record.call.get() == Call::Open);
        record.cut.set(call_status.map(|status| Box::new((status, reply))));
    }
    let failure = fault.failure().filter(|_| !begun);
    Failed { cause: fault.cause(), failure, is_unprocessed: !begun && fault.is_unprocessed(), reply }
}
