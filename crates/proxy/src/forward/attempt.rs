//! Attempt of a request at one endpoint over HTTP/1: connects, sends the request, relays the response. [`on_stream`] is
//! the variant for HTTP/2.

mod moves;
mod on_stream;

use crate::body::downstream::Downstream;
use crate::body::fault::Fault;
use crate::forward::attempt_end::{self, Failed, failed};
use crate::forward::hedge;
use crate::forward::outgoing::Outgoing;
use crate::forward::relay::{Answered, Relay, Shape, Terms};
use crate::listener::client::Client;
use crate::observe::end::Phase;
use crate::pipeline::route::Opened;
use crate::record::Record;
use crate::record::grpc::Call;
use crate::upstream::connections::{Acquired, UpstreamConn, Wanted, unreachable};
use crate::upstream::h1_endpoint::H1Endpoint;
use crate::upstream::pick::InFlight;
use crate::upstream::retries::Tries;
use evenkeel_balance::Clock;
use evenkeel_net::boxed::reused;
use evenkeel_net::deadline::Elapsed;
use std::pin::pin;

/// Sends the request to one endpoint. If an idle connection turns out to be closed, a new one is opened; once the
/// request was sent on it, only if the request is idempotent.
///
/// # Errors
/// The failure, and the response for the client if there is no retry.
pub async fn run<'r, D: Downstream>(
    client: &'r Client<'_>,
    down: &D,
    record: &mut Record<'_>,
    opened: &mut Opened<'r>,
    out: &mut Outgoing<'_>,
    tries: &Tries<'r>,
    mut ticket: InFlight<'r>,
) -> Result<Answered, Failed> {
    if out.message().is_some() {
        return reused(|| on_stream::run(client, down, record, opened, out, tries, ticket)).await;
    }
    let (core, timer, pool, deadline) = (client.core, down.timer(), opened.route.pool, opened.route.deadline);
    let wanted = Wanted { core, peer: Some(&client.peer), origin: record.origin, pool };
    let slot = ticket.slot();
    let mut idle = pool.take_idle(&ticket.endpoint, core.clock.now());
    loop {
        record.phase.set(Phase::Connect);
        out.write();
        let is_reused = idle.is_some();
        let timeouts = tries.timeouts(opened.route.timeouts);
        let connect_by = timer.tick_after(timeouts.connect).min(deadline);
        let acquiring = wanted.acquire(&ticket.endpoint, idle.take(), out.unsent());
        let acquired = timer.limit_by(connect_by, pin!(acquiring)).await;
        let Acquired { mut transport, sent, connect_ns } =
            match acquired.map_err(|Elapsed| None).and_then(|acquired| acquired.map_err(Some)) {
                Ok(acquired) => acquired,
                // The endpoint had closed the idle connection and took nothing: open a new one.
                Err(Some(_)) if is_reused => continue,
                Err(error) => return Err(unreachable(ticket, error).into()),
            };
        record.note_connected(connect_ns);
        out.advance(sent);
        record.phase.set(Phase::Head);
        let repeatable = opened.is_here()
            && out.is_small()
            && (opened.idempotent || tries.may_repeat(record.call.get() != Call::Not));
        if repeatable
            && opened.idempotent
            && out.unsent().is_empty()
            && let Some(delay_ns) = tries.hedge_after(timer.left_ns(deadline))
        {
            out.let_go(true);
            // Boxed: only routes with hedging need room for it.
            let first = UpstreamConn { ticket, transport };
            match Box::pin(hedge::race(&wanted, down, record, opened, out, tries, first, delay_ns)).await {
                Ok(first) => UpstreamConn { ticket, transport } = first,
                Err((first, fault)) => return Err(failed(record, first.ticket, fault)),
            }
        }
        let second = ticket.slot() != slot;
        let terms = Terms { timeouts, tries: repeatable.then_some(tries), is_reused };
        let relay = Relay::new(client, timer, record, opened, terms);
        let relayed = match Shape::of(down, opened.route.wants_body) {
            Shape::Bytes(connection) => {
                relay.bytes(connection, &transport, &mut ticket, &mut opened.body, out, repeatable).await
            }
            Shape::Parts => {
                let in_chunks = opened.is_length_open();
                let up = H1Endpoint::new(&transport, core, opened.asked, relay.leniency(), in_chunks);
                let up = &up;
                // In memory of its own: requests relayed as bytes need no room for it.
                reused(|| relay.parts(down, up, &mut ticket, opened, out, repeatable)).await
            }
        };
        let answered = match relayed {
            Err(Fault::NoResponse | Fault::Stray) if is_reused && repeatable && opened.idempotent && out.again() => {
                continue;
            }
            Err(fault) => {
                if let Fault::Refused { reusable: true, kept_secs, .. } = fault
                    && !opened.close
                {
                    pool.keep_idle(&ticket.endpoint, transport, kept_secs, core.clock.now());
                }
                return Err(failed(record, ticket, fault));
            }
            Ok(answered) => answered,
        };
        // First, as the end of this one may let a request begin that waits.
        if answered.reusable && opened.body.is_done() && !opened.close {
            pool.keep_idle(&ticket.endpoint, transport, answered.kept_secs, core.clock.now());
        }
        attempt_end::answered(record, ticket, answered, (!second).then_some(tries));
        return Ok(answered);
    }
}
