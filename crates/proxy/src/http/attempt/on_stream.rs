//! How does an endpoint do with a request that goes on a stream of its own, beside others on the same connection?

use crate::http::down::Downstream;
use crate::http::exchange::Opened;
use crate::http::fault::Fault;
use crate::http::grpc::Call;
use crate::http::hedge;
use crate::http::outgoing::Outgoing;
use crate::http::record::Record;
use crate::http::relay::{Answered, Relay};
use crate::http::tried::{Failed, answered, failed};
use crate::listener::client::Client;
use crate::observe::end::Phase;
use crate::upstream::connections::{UpstreamConn, Wanted, unreachable};
use crate::upstream::pick::InFlight;
use crate::upstream::retries::Tries;
use crate::upstream::stream::Begun;
use evenkeel_net::deadline::Elapsed;
use std::cell::Cell;
use std::io;
use std::pin::pin;

/// How often one try goes on to another connection, as that which it was sent on ended before the endpoint looked at it.
const MOVES_MAX: u32 = 3;

/// Sends the request to one endpoint, which takes messages. If its connection ends without the endpoint having looked at the
/// request, another one takes it, and so does it where asking twice does no harm.
///
/// # Errors
/// How it failed.
pub async fn run<'r, D: Downstream>(
    client: &'r Client<'_>,
    down: &D,
    record: &mut Record<'_>,
    opened: &mut Opened<'r>,
    out: &mut Outgoing<'_>,
    tries: &Tries<'r>,
    mut ticket: InFlight<'r>,
) -> Result<Answered, Failed> {
    let (core, timer, pool, deadline) = (client.core, down.timer(), opened.route.pool, opened.route.deadline);
    let wanted = Wanted { core, peer: &client.peer, origin: record.origin, pool };
    let slot = ticket.slot();
    let mut moves = 0;
    loop {
        record.phase.set(Phase::Connect);
        let timeouts = tries.timeouts(opened.route.timeouts);
        let connect_by = timer.tick_after(timeouts.connect).min(deadline);
        // Held as long as all that was taken of the request from the client is kept; then there is no other try.
        let Some(message) = out.message() else { return Err(failed(record, pool, ticket, Fault::NoResponse)) };
        let beginning = wanted.stream(&ticket.endpoint, message, timeouts.connect);
        let begun = timer.limit_by(connect_by, pin!(beginning)).await;
        let Begun { mut stream, reused, connect_ns } =
            match begun.map_err(|Elapsed| None).and_then(|begun| begun.map_err(Some)) {
                Ok(begun) => begun,
                Err(None) if ticket.endpoint.sessions.is_full(&pool.http2.get()) => {
                    let why = "as many requests as may are on each of its connections (`http2` of the pool)";
                    let error = io::Error::new(io::ErrorKind::ResourceBusy, why);
                    return Err(unreachable(pool, ticket, Some(error)).into());
                }
                Err(error) => return Err(unreachable(pool, ticket, error).into()),
            };
        if connect_ns.is_some() {
            record.connect_ns.set(connect_ns);
        }
        record.phase.set(Phase::Head);
        let repeatable = opened.idempotent || tries.may_repeat(record.call.get() != Call::Not);
        if opened.body.is_done()
            && out.is_small()
            && opened.idempotent
            && let Some(delay_ns) = tries.hedge_after(timer.left_ns(deadline))
        {
            let first = UpstreamConn { ticket, transport: stream };
            match Box::pin(hedge::race(&wanted, down, record, opened, out, tries, first, delay_ns)).await {
                Ok(first) => UpstreamConn { ticket, transport: stream } = first,
                Err((first, fault)) => return Err(failed(record, pool, first.ticket, fault)),
            }
        }
        let second = ticket.slot() != slot;
        let cookie = opened.route.session.as_ref().and_then(|session| session.cookie_for(core, &ticket));
        let relay = Relay {
            client,
            timer,
            record,
            upstream: &stream,
            asked: opened.asked,
            towards: opened.towards,
            timeouts,
            deadline,
            client_due: Cell::new(0),
            body_due: Cell::new(!opened.body.is_done()),
            tries: repeatable.then_some((tries, opened.idempotent)),
            body_gone: Cell::new(false),
            cookie: cookie.as_deref(),
            half_closed: Cell::new(false),
            is_reused: reused,
        };
        let relayed = down.relay_parts(&relay, &mut ticket, &mut opened.body, out).await;
        let moved = moves < MOVES_MAX && out.is_whole();
        match relayed {
            Err(Fault::Unseen) if moved => moves += 1,
            Err(Fault::NoResponse) if moved && reused && opened.idempotent => moves += 1,
            Err(fault) => return Err(failed(record, pool, ticket, fault)),
            Ok(done) => {
                answered(client, record, pool, ticket, done, (!second).then_some(tries));
                return Ok(done);
            }
        }
    }
}
