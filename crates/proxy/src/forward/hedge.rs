//! Hedging: sends a copy of the request to a second endpoint if the first takes longer than usual. Most delays before
//! the copy are shorter than a tick of the timer wheel, so they use alarms, which only routes with hedging pay for.

use crate::body::downstream::Downstream;
use crate::body::fault::{Due, Fault};
use crate::forward::outgoing::Outgoing;
use crate::observe::end::Cause;
use crate::observe::tries::{How, TryStart};
use crate::pipeline::route::Opened;
use crate::record::Record;
use crate::upstream::connections::{Acquired, UpstreamConn, Wanted, unreachable};
use crate::upstream::pick::InFlight;
use crate::upstream::pool::Endpoint;
use crate::upstream::retries::Tries;
use crate::upstream::stream::{Begun, EndpointStream};
use evenkeel_balance::{Clock, Outcome, Request};
use evenkeel_net::deadline::Elapsed;
use evenkeel_net::event_loop::alarm;
use evenkeel_net::transport::Transport;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Connection or stream that carries a copy of a request.
pub trait Lane: Sized {
    /// Sends all of the request to the endpoint, and waits until the response begins.
    async fn ask(
        wanted: &Wanted<'_>,
        record: &Record<'_>,
        opened: &Opened<'_>,
        request: &Outgoing<'_>,
        ticket: &InFlight<'_>,
    ) -> Result<Self, Lost>;

    /// Waits until the response begins; `false` if the endpoint closed instead.
    async fn speaks(&self) -> bool;
}

/// Returns the connection whose endpoint answered first, or the only one left; if both were lost, the first, on which
/// the relay finds the failure. `request` must hold all of the request.
///
/// # Errors
/// Neither endpoint answered in time, or the client is gone. Returned with the first connection.
#[expect(clippy::too_many_arguments, reason = "all that a try has, and what it sends")]
pub async fn race<'r, D: Downstream, L: Lane>(
    wanted: &Wanted<'r>,
    down: &D,
    record: &mut Record<'_>,
    opened: &Opened<'r>,
    request: &mut Outgoing<'_>,
    tries: &Tries<'r>,
    first: UpstreamConn<'r, L>,
    delay_ns: u64,
) -> Result<UpstreamConn<'r, L>, (UpstreamConn<'r, L>, Fault)> {
    let (timer, clock, pool) = (down.timer(), &wanted.core.clock, wanted.pool);
    let limit = tries.timeouts(opened.route.timeouts).response;
    timer.set(limit.map_or(u64::MAX, |limit| timer.tick_after(limit)).min(opened.route.deadline));
    let early = timer.limit(pin!(alarm::timeout(Duration::from_nanos(delay_ns), first.transport.speaks()))).await;
    match early {
        Ok(Some(_)) => return Ok(first),
        Ok(None) => {}
        Err(_) => return Err((first, Fault::TimedOut(Due::Response))),
    }
    // The budget is checked before the pick, which counts as load and changes the algorithm's state.
    if !tries.hedge() {
        return Ok(first);
    }
    let asked = Request { key: opened.route.key, tried: &[first.ticket.slot()], beyond: false };
    let second = match record.explanation() {
        None => InFlight::start(clock, pool, &asked),
        Some(explanation) => explanation.start(How::Hedge, clock, pool, &asked),
    };
    let Ok(second) = second else {
        tries.cancel_hedge();
        return Ok(first);
    };
    pool.stats.hedges.add(1);
    tries.tried.borrow_mut().push(second.slot());
    let (first_start, first_endpoint) = (record.current_try, first.ticket.endpoint.clone());
    record.note_try_began(pool, &second, How::Hedge);
    if request.begin_try(record, &second.endpoint, opened.route.call_left).is_err() {
        // The path cannot follow that of the second endpoint, so the first continues alone.
        let second_start = std::mem::replace(&mut record.current_try, first_start);
        record.note_try_ended(&second.endpoint, second_start, Cause::Proxy.label());
        second.end(Outcome::Cancelled);
        restore(request, record, &first_endpoint, opened);
        return Ok(first);
    }
    if request.message().is_none() {
        request.write();
    }
    let mut lost = LostConns::default();
    let racing = first_to_speak(wanted, down, record, opened, request, &first.transport, &second, &mut lost);
    let winner = timer.limit(pin!(racing)).await;
    // The request was sent on both.
    request.let_go(true);
    let end = match winner {
        Ok(Winner::Second(transport)) => {
            let second = UpstreamConn { ticket: second, transport };
            return Ok(second_won(record, tries, first_start, first, second, lost.first));
        }
        Ok(Winner::First) => Ok(first),
        Ok(Winner::ClientGone) => Err((first, Fault::ClientGone)),
        Err(Elapsed) => Err((first, Fault::TimedOut(Due::Response))),
    };
    let lost_by = match &lost.second {
        Some(Lost::Unreachable(_)) => "connect",
        Some(Lost::Closed) => "reset",
        None => "overtaken",
    };
    let second_start = std::mem::replace(&mut record.current_try, first_start);
    restore(request, record, &first_endpoint, opened);
    record.note_try_ended(&second.endpoint, second_start, lost_by);
    match lost.second {
        Some(Lost::Unreachable(error)) => drop(unreachable(second, error)),
        Some(Lost::Closed) => drop(second.give_up(Fault::NoResponse)),
        // The first was faster, or neither answered: the second had less time, so it is not at fault.
        None => drop(second.give_up(Fault::Overtaken)),
    }
    end
}

/// Restores the head of the first try: should that have to be sent again, it is with its own host, path and span.
fn restore(request: &mut Outgoing<'_>, record: &Record<'_>, first: &Endpoint, opened: &Opened<'_>) {
    // Its path was accepted when it began.
    let _ = request.begin_try(record, first, opened.route.call_left);
}

/// Continues with the second connection and gives up the first, unless that was lost before.
fn second_won<'r, L>(
    record: &mut Record<'_>,
    tries: &Tries<'r>,
    first_start: TryStart,
    first: UpstreamConn<'r, L>,
    second: UpstreamConn<'r, L>,
    first_lost: bool,
) -> UpstreamConn<'r, L> {
    tries.on_answer(first.ticket.latency_ns(), second.ticket.began());
    record.pool.iter().for_each(|pool| pool.stats.hedges_won.add(1));
    let lost_by = if first_lost { "reset" } else { "overtaken" };
    record.note_try_ended(&first.ticket.endpoint, first_start, lost_by);
    record.endpoint = Some(second.ticket.endpoint.clone());
    first.ticket.give_up(if first_lost { Fault::NoResponse } else { Fault::Overtaken });
    second
}

enum Winner<L> {
    First,
    Second(L),
    ClientGone,
}

/// Reason that the second copy failed: no connection, or one that closed without a response.
pub enum Lost {
    Unreachable(Option<std::io::Error>),
    Closed,
}

/// Copies that failed: the first closed; the second closed or got no connection.
#[derive(Default)]
struct LostConns {
    first: bool,
    second: Option<Lost>,
}

/// Waits on both until one answers, both are lost or the client is gone.
#[expect(clippy::too_many_arguments, reason = "as above")]
async fn first_to_speak<D: Downstream, L: Lane>(
    wanted: &Wanted<'_>,
    down: &D,
    record: &Record<'_>,
    opened: &Opened<'_>,
    request: &Outgoing<'_>,
    first: &L,
    second: &InFlight<'_>,
    lost: &mut LostConns,
) -> Winner<L> {
    let mut asking = pin!(L::ask(wanted, record, opened, request, second));
    let mut waiting = pin!(first.speaks());
    poll_fn(|cx| {
        if down.poll_gone(cx).is_ready() {
            return Poll::Ready(Winner::ClientGone);
        }
        if !lost.first
            && let Poll::Ready(spoke) = waiting.as_mut().poll(cx)
        {
            if spoke || lost.second.is_some() {
                return Poll::Ready(Winner::First);
            }
            lost.first = true;
        }
        if lost.second.is_none()
            && let Poll::Ready(asked) = asking.as_mut().poll(cx)
        {
            match asked {
                Ok(transport) => return Poll::Ready(Winner::Second(transport)),
                Err(why) => lost.second = Some(why),
            }
            if lost.first {
                return Poll::Ready(Winner::First);
            }
        }
        Poll::Pending
    })
    .await
}

impl Lane for Transport {
    /// Replaces an idle connection that the endpoint has just closed.
    async fn ask(
        wanted: &Wanted<'_>,
        record: &Record<'_>,
        opened: &Opened<'_>,
        request: &Outgoing<'_>,
        ticket: &InFlight<'_>,
    ) -> Result<Transport, Lost> {
        let mut idle = wanted.pool.take_idle(&ticket.endpoint, wanted.core.clock.now());
        loop {
            let reused = idle.is_some();
            match ask_on(wanted, record, opened, request.request(), ticket, idle.take()).await {
                Err(_) if reused => {}
                asked => return asked,
            }
        }
    }

    async fn speaks(&self) -> bool {
        poll_fn(|cx| self.poll_peek(cx)).await.is_ok_and(|n| n > 0)
    }
}

impl Lane for EndpointStream {
    async fn ask(
        wanted: &Wanted<'_>,
        record: &Record<'_>,
        opened: &Opened<'_>,
        request: &Outgoing<'_>,
        ticket: &InFlight<'_>,
    ) -> Result<EndpointStream, Lost> {
        let limit = opened.route.timeouts.connect;
        let message = request.message().ok_or(Lost::Closed)?;
        let head = request.endpoint_head().ok_or(Lost::Closed)?;
        let endpoint = &ticket.endpoint;
        let beginning = endpoint.sessions.stream(wanted.pool.way(endpoint), &head, message, limit);
        let Begun { stream, connect_ns, .. } = match alarm::timeout(limit, beginning).await {
            Some(Ok(begun)) => begun,
            Some(Err(error)) => return Err(Lost::Unreachable(Some(error))),
            None => return Err(Lost::Unreachable(None)),
        };
        record.note_connected(connect_ns);
        if stream.speaks().await { Ok(stream) } else { Err(Lost::Closed) }
    }

    async fn speaks(&self) -> bool {
        poll_fn(|cx| self.poll_answered(cx)).await
    }
}

async fn ask_on(
    wanted: &Wanted<'_>,
    record: &Record<'_>,
    opened: &Opened<'_>,
    request: &[u8],
    ticket: &InFlight<'_>,
    idle: Option<Transport>,
) -> Result<Transport, Lost> {
    let acquiring = wanted.acquire(&ticket.endpoint, idle, request);
    let Acquired { transport, mut sent, connect_ns } =
        match alarm::timeout(opened.route.timeouts.connect, acquiring).await {
            Some(Ok(acquired)) => acquired,
            Some(Err(error)) => return Err(Lost::Unreachable(Some(error))),
            None => return Err(Lost::Unreachable(None)),
        };
    record.note_connected(connect_ns);
    while sent < request.len() {
        sent += transport.write_some(&request[sent..]).await.map_err(|_| Lost::Closed)?;
    }
    if transport.speaks().await { Ok(transport) } else { Err(Lost::Closed) }
}
