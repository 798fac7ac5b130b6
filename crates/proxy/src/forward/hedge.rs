//! Hedging: sends a copy of the request to a second endpoint if the first takes longer than usual. Most delays before
//! the copy are shorter than a tick of the timer wheel, so they use alarms, which only routes with hedging pay for.

use super::Forward;
use crate::body::downstream::Downstream;
use crate::body::fault::{Due, Fault};
use crate::observe::end::Cause;
use crate::observe::tries::{How, TryStart};
use crate::upstream::connections::{Acquired, UpstreamConn, unreachable};
use crate::upstream::pick::InFlight;
use crate::upstream::pool::Endpoint;
use crate::upstream::stream::{Begun, EndpointStream};
use evenkeel_balance::{Outcome, Request};
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
    async fn ask<D: Downstream>(forward: &Forward<'_, '_, D>, ticket: &InFlight<'_>) -> Result<Self, Lost>;

    /// Waits until the response begins; `false` if the endpoint closed instead.
    async fn speaks(&self) -> bool;
}

impl<'r, D: Downstream> Forward<'_, 'r, D> {
    /// Returns the connection whose endpoint answered first, or the only connection left. If both were lost, returns
    /// the first, on which the relay finds the failure. All of the request must be kept.
    ///
    /// # Errors
    /// Neither endpoint answered in time, or the client is gone. Returned with the first connection.
    pub(super) async fn hedge<L: Lane>(
        &mut self,
        first: UpstreamConn<'r, L>,
        delay_ns: u64,
    ) -> Result<UpstreamConn<'r, L>, (UpstreamConn<'r, L>, Fault)> {
        let (timer, route) = (self.down.timer(), &self.opened.route);
        let limit = self.tries.timeouts(route.timeouts).response;
        timer.set(limit.map_or(u64::MAX, |limit| timer.tick_after(limit)).min(route.deadline));
        let early = timer.limit(pin!(alarm::timeout(Duration::from_nanos(delay_ns), first.transport.speaks()))).await;
        match early {
            Ok(Some(_)) => return Ok(first),
            Ok(None) => {}
            Err(_) => return Err((first, Fault::TimedOut(Due::Response))),
        }
        let Some(second) = self.place_hedge(&first.ticket) else { return Ok(first) };
        let (first_start, first_endpoint) = (self.record.current_try, first.ticket.endpoint.clone());
        self.record.note_try_began(second.pool, &second, How::Hedge);
        if self.out.begin_try(self.record, &second.endpoint, self.call_left).is_err() {
            // The path cannot follow the prefix of the second endpoint, so the first continues alone.
            self.end_hedge(&second.endpoint, Cause::Proxy.label(), first_start, &first_endpoint);
            second.end(Outcome::Cancelled);
            return Ok(first);
        }
        if self.out.message().is_none() {
            self.out.write();
        }
        let mut lost = LostConns::default();
        let winner = timer.limit(pin!(self.first_to_speak(&first.transport, &second, &mut lost))).await;
        // The request was sent on both.
        self.out.let_go(true);
        let end = match winner {
            Ok(Winner::Second(transport)) => {
                self.second_won(first.ticket, first_start, lost.first, &second);
                return Ok(UpstreamConn { ticket: second, transport });
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
        self.end_hedge(&second.endpoint, lost_by, first_start, &first_endpoint);
        match lost.second {
            Some(Lost::Unreachable(error)) => drop(unreachable(second, error)),
            Some(Lost::Closed) => drop(second.give_up(Fault::NoResponse)),
            // The first was faster, or neither answered: the second had less time, so it is not at fault.
            None => drop(second.give_up(Fault::Overtaken)),
        }
        end
    }

    /// Picks a second endpoint; `None` if the budget or the endpoints have no room.
    fn place_hedge(&self, first: &InFlight<'r>) -> Option<InFlight<'r>> {
        // The budget is checked before the pick, which counts as load and changes the algorithm's state.
        if !self.tries.hedge() {
            return None;
        }
        let (clock, pool) = (self.tries.clock, self.tries.pool);
        let asked = Request { key: self.tries.key, tried: &[first.slot()], beyond: false };
        let second = match self.record.explanation() {
            None => InFlight::start(clock, pool, &asked),
            Some(explanation) => explanation.start(How::Hedge, clock, pool, &asked),
        };
        let Ok(second) = second else {
            self.tries.cancel_hedge();
            return None;
        };
        pool.stats.hedges.add(1);
        self.tries.tried.borrow_mut().push(second.slot());
        Some(second)
    }

    /// Notes the end of the try at the second endpoint, and restores the head of the first try: should that have to be
    /// sent again, it is with its own host, path and span.
    fn end_hedge(&mut self, second: &Endpoint, lost_by: &'static str, first_start: TryStart, first: &Endpoint) {
        let second_start = std::mem::replace(&mut self.record.current_try, first_start);
        self.record.note_try_ended(second, second_start, lost_by);
        // Its path was accepted when it began.
        let _ = self.out.begin_try(self.record, first, self.call_left);
    }

    /// Gives up the try at the first endpoint, which was overtaken by the second or was lost before.
    fn second_won(&mut self, first: InFlight<'r>, first_start: TryStart, is_lost: bool, second: &InFlight<'r>) {
        self.tries.on_answer(first.latency_ns(), second.began());
        self.tries.pool.stats.hedges_won.add(1);
        self.record.note_try_ended(&first.endpoint, first_start, if is_lost { "reset" } else { "overtaken" });
        self.record.exchange.facts.endpoint = Some(second.endpoint.clone());
        first.give_up(if is_lost { Fault::NoResponse } else { Fault::Overtaken });
    }

    /// Waits on both until either answers, both are lost or the client is gone.
    async fn first_to_speak<L: Lane>(&self, first: &L, second: &InFlight<'_>, lost: &mut LostConns) -> Winner<L> {
        let mut asking = pin!(L::ask(self, second));
        let mut waiting = pin!(first.speaks());
        poll_fn(|cx| {
            if self.poll_left(cx).is_ready() {
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

    /// Sends the request on an idle or new connection, and waits until the response begins.
    async fn ask_on(&self, ticket: &InFlight<'_>, idle: Option<Transport>) -> Result<Transport, Lost> {
        let (wanted, request) = (self.wanted(), self.out.request());
        let acquiring = wanted.acquire(&ticket.endpoint, idle, request);
        let Acquired { transport, mut sent, connect_ns } =
            match alarm::timeout(self.opened.route.timeouts.connect, acquiring).await {
                Some(Ok(acquired)) => acquired,
                Some(Err(error)) => return Err(Lost::Unreachable(Some(error))),
                None => return Err(Lost::Unreachable(None)),
            };
        self.record.note_connected(connect_ns);
        while sent < request.len() {
            sent += transport.write_some(&request[sent..]).await.map_err(|_| Lost::Closed)?;
        }
        if transport.speaks().await { Ok(transport) } else { Err(Lost::Closed) }
    }
}

enum Winner<L> {
    First,
    Second(L),
    ClientGone,
}

/// Reason that the second copy failed: no connection, or a connection that closed without a response.
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

impl Lane for Transport {
    /// Replaces an idle connection that the endpoint has just closed.
    async fn ask<D: Downstream>(forward: &Forward<'_, '_, D>, ticket: &InFlight<'_>) -> Result<Transport, Lost> {
        let mut idle = ticket.pool.take_idle(&ticket.endpoint, ticket.now());
        loop {
            let reused = idle.is_some();
            match forward.ask_on(ticket, idle.take()).await {
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
    async fn ask<D: Downstream>(forward: &Forward<'_, '_, D>, ticket: &InFlight<'_>) -> Result<EndpointStream, Lost> {
        let limit = forward.opened.route.timeouts.connect;
        let message = forward.out.message().ok_or(Lost::Closed)?;
        let head = forward.out.endpoint_head().ok_or(Lost::Closed)?;
        let endpoint = &ticket.endpoint;
        let beginning = endpoint.sessions.stream(ticket.pool.way(endpoint), &head, message, limit);
        let Begun { stream, connect_ns, .. } = match alarm::timeout(limit, beginning).await {
            Some(Ok(begun)) => begun,
            Some(Err(error)) => return Err(Lost::Unreachable(Some(error))),
            None => return Err(Lost::Unreachable(None)),
        };
        forward.record.note_connected(connect_ns);
        if stream.speaks().await { Ok(stream) } else { Err(Lost::Closed) }
    }

    async fn speaks(&self) -> bool {
        poll_fn(|cx| self.poll_answered(cx)).await
    }
}
