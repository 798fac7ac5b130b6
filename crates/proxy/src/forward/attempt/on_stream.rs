//! Attempt of a request at an endpoint over HTTP/2: a stream on a connection shared with other requests.

use crate::body::downstream::Downstream;
use crate::body::fault::Fault;
use crate::body::message::Message;
use crate::forward::Forward;
use crate::forward::attempt::moves::Moves;
use crate::forward::attempt_end::{Failed, answered, began, failed, failed_within};
use crate::forward::relay::fill::Relayed;
use crate::forward::relay::{Answered, Relay, Terms};
use crate::observe::end::Phase;
use crate::record::grpc::Call;
use crate::side::fill::Source;
use crate::upstream::connections::{UpstreamConn, unreachable};
use crate::upstream::pick::InFlight;
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries;
use crate::upstream::stream::Begun;
use evenkeel_config::plan::RouteTimeouts;
use evenkeel_net::deadline::Elapsed;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

impl<'r, D: Downstream> Forward<'_, 'r, D> {
    /// Sends the request to an endpoint. A request that the endpoint has not processed is sent again after a pause,
    /// unless another endpoint can take it. An idempotent request is also sent again if its reused connection was lost.
    ///
    /// # Errors
    /// The failure, and the response for the client if there is no retry.
    pub(super) async fn attempt_on_stream(&mut self, mut ticket: InFlight<'r>) -> Result<Answered, Failed> {
        let (timer, opened) = (self.down.timer(), self.opened);
        let deadline = opened.route.deadline;
        let slot = ticket.slot();
        let mut moves = Moves::default();
        loop {
            self.record.phase.set(Phase::Connect);
            let timeouts = self.tries.timeouts(opened.route.timeouts);
            let limits = Limits::new(timeouts, ticket.pool, moves.are_some(), deadline);
            let Begun { stream, reused, connect_ns } = match begin(self, &ticket, limits).await {
                Ok(begun) => begun,
                Err(NotBegun::Fault(fault)) => return Err(failed(self.record, ticket, fault)),
                Err(NotBegun::Unreachable(error)) => return Err(unreachable(ticket, error).into()),
            };
            self.record.note_connected(connect_ns);
            self.record.phase.set(Phase::Head);
            let repeatable = opened.idempotent || self.tries.may_repeat(self.record.call.get() != Call::Not);
            let mut at = UpstreamConn { ticket, transport: stream };
            if let Some(delay_ns) = self.hedge_after() {
                // Boxed: only routes with hedging need room for it.
                at = match Box::pin(self.hedge(at, delay_ns)).await {
                    Ok(at) => at,
                    Err((first, fault)) => return Err(failed(self.record, first.ticket, fault)),
                };
            }
            let stream = at.transport;
            ticket = at.ticket;
            let second = ticket.slot() != slot;
            let terms = Terms { timeouts, tries: repeatable.then_some(&self.tries), is_reused: reused };
            let relay = Relay::new(self.client, timer, self.record, opened, terms);
            let fault = match relay.parts(self.down, &stream, &mut ticket, self.out).await {
                Ok(Relayed::Answered(done)) => {
                    answered(self.record, ticket, done, (!second).then_some(&self.tries));
                    return Ok(done);
                }
                Ok(Relayed::Fills(fills)) => {
                    began(self.record, &ticket, (!second).then_some(&self.tries));
                    let from = (Source::Stream(stream), ticket);
                    let filled = Box::pin(relay.fill(self.down, self.out, *fills, from)).await;
                    return filled.map_err(|fault| failed_within(self.record, fault));
                }
                Err(fault) => fault,
            };
            let may_repeat = reused && opened.idempotent;
            let is_running = ticket.endpoint.sessions.is_running();
            let has_other = || self.tries.has_other(ticket.slot());
            let pause_ns = moves.after(fault, &stream, may_repeat, is_running, has_other);
            let left_ns = timer.left_ns(deadline).unwrap_or(u64::MAX);
            let Some(pause_ns) = pause_ns.filter(|pause_ns| *pause_ns < left_ns && self.out.is_whole()) else {
                return Err(failed(self.record, ticket, fault));
            };
            // Frees the stream's place for others during the pause.
            drop(stream);
            if retries::pause(pause_ns, |cx| self.poll_left(cx)).await.is_err() {
                return Err(failed(self.record, ticket, Fault::ClientGone));
            }
        }
    }

    /// Delay in nanoseconds after which a second endpoint gets the request, too; `None` for never.
    fn hedge_after(&self) -> Option<u64> {
        let may_hedge = self.out.rest.is_here()
            && self.out.is_small()
            && self.out.message().is_some_and(Message::goes_at_once)
            && self.opened.idempotent;
        if !may_hedge {
            return None;
        }
        self.tries.hedge_after(self.down.timer().left_ns(self.opened.route.deadline))
    }
}

/// Limits on the time until a request has a stream at its endpoint.
#[derive(Clone, Copy)]
struct Limits {
    connect: Duration,
    /// Longest wait for a stream while all connections are at their limit of concurrent streams.
    place: Duration,
    deadline: u64,
}

impl Limits {
    /// `was_there`: the endpoint had the request before. Then it may wait for a stream as long as for a response.
    fn new(timeouts: RouteTimeouts, pool: &WorkerPool, was_there: bool, deadline: u64) -> Limits {
        let place = timeouts.response.filter(|_| was_there).unwrap_or_else(|| pool.queue_time());
        Limits { connect: timeouts.connect, place, deadline }
    }
}

/// Reason why a request got no stream.
enum NotBegun {
    /// The client is gone, or not all of the request is kept.
    Fault(Fault),
    /// No connection or stream; without an error, none in time.
    Unreachable(Option<io::Error>),
}

/// Opens a stream and begins the request on it.
async fn begin<D: Downstream>(
    forward: &Forward<'_, '_, D>,
    ticket: &InFlight<'_>,
    limits: Limits,
) -> Result<Begun, NotBegun> {
    let (down, out) = (forward.down, &*forward.out);
    let message = out.message().ok_or(NotBegun::Fault(Fault::NoResponse))?;
    let head = out.endpoint_head().ok_or(NotBegun::Fault(Fault::NoResponse))?;
    let (pool, endpoint) = (ticket.pool, &ticket.endpoint);
    let mut beginning = pin!(endpoint.sessions.stream(pool.way(endpoint), &head, message, limits.connect));
    let timer = down.timer();
    let by = |limit| timer.tick_after(limit).min(limits.deadline);
    let (connect_by, place_by) = (by(limits.connect), by(limits.place));
    let mut begun = timer.limit_by(connect_by, beginning.as_mut()).await;
    let is_full = || endpoint.sessions.is_full(&pool.plan().http2);
    if begun.is_err() && place_by > connect_by && is_full() {
        let waiting = poll_fn(|cx| match beginning.as_mut().poll(cx) {
            Poll::Pending => forward.poll_left(cx).map(|()| None),
            begun => begun.map(Some),
        });
        begun = match timer.limit_by(place_by, pin!(waiting)).await {
            Ok(None) => return Err(NotBegun::Fault(Fault::ClientGone)),
            Ok(Some(begun)) => Ok(begun),
            Err(Elapsed) => Err(Elapsed),
        };
    }
    match begun {
        Ok(begun) => begun.map_err(|error| NotBegun::Unreachable(Some(error))),
        Err(Elapsed) if is_full() => {
            let why = "each of its connections is at its limit of concurrent requests (`http2` of the pool)";
            let error = io::Error::new(io::ErrorKind::ResourceBusy, why);
            Err(NotBegun::Unreachable(Some(error)))
        }
        Err(Elapsed) => Err(NotBegun::Unreachable(None)),
    }
}
