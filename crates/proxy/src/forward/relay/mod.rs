//! Relay between a client and an endpoint for a request. Both directions run concurrently, each with back-pressure:
//! more is read only when all earlier bytes have been written.
//!
//! With HTTP/1 on both sides, bytes pass as they are ([`bytes`], [`tunnel`] after a switch of protocols); otherwise the
//! request and the response pass as heads, data and trailers ([`parts`]). Both share the [`decision`] about a response.
//! The body of a response that is to be stored is read by a separate task ([`fill`]).

mod bytes;
mod decision;
pub mod fill;
mod parts;
mod tunnel;

use crate::body::downstream::{Downstream, Flow};
use crate::body::fault::{Due, Fault};
use crate::body::part::Gone;
use crate::forward::outgoing::Outgoing;
use crate::listener::client::Client;
use crate::observe::end::Phase;
use crate::observe::timing::Timing;
use crate::pipeline::route::Opened;
use crate::record::Record;
use crate::record::grpc::Call;
use crate::upstream::h1_endpoint::Leniency;
use crate::upstream::pick::InFlight;
use crate::upstream::retries::Tries;
use evenkeel_balance::{Clock, Outcome};
use evenkeel_config::plan::RouteTimeouts;
use evenkeel_net::deadline::Timer;
use evenkeel_net::event_loop::alarm::sleep;
use evenkeel_net::event_loop::budget;
use evenkeel_net::transport::Transport;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Relay of a request and its response between client and endpoint.
pub struct Relay<'t> {
    client: &'t Client<'t>,
    /// Timer of the request's deadline.
    timer: &'t Timer,
    record: &'t Record<'t>,
    opened: &'t Opened<'t>,
    timeouts: RouteTimeouts,
    /// Number of pending waits for the client to take bytes. A timeout while it is above 0 is the client's fault;
    /// otherwise slow readers could make endpoints look bad.
    client_due: Cell<u8>,
    /// True while waiting for more of the request body.
    awaits_body: Cell<bool>,
    /// True if the client still has to send more of the request's body.
    body_due: Cell<bool>,
    /// True while the client may wait for a 100 before it sends the body.
    awaits_continue: Cell<bool>,
    /// Retry state, if a response may be discarded for a retry. All of the request is kept then.
    tries: Option<&'t Tries<'t>>,
    /// True once a part of the request body was sent that is not kept: no retry is possible then.
    body_gone: Cell<bool>,
    /// True once all of the request has been sent.
    uploaded: Cell<bool>,
    /// True once a tunnel in parts has begun.
    switched: Cell<bool>,
    /// True if a half of a tunnel has ended.
    half_closed: Cell<bool>,
    /// True if the connection has carried other requests before.
    is_reused: bool,
}

/// State of both connections after a response.
#[derive(Clone, Copy)]
pub struct Answered {
    /// True if the endpoint's connection can carry another request.
    pub reusable: bool,
    /// Seconds for which the endpoint keeps its connection, if it states them.
    pub kept_secs: Option<u32>,
    /// True if the client's connection can carry another request.
    pub keep_alive: bool,
    /// The outcome for the balancer.
    pub outcome: Outcome,
}

impl Answered {
    /// The end of a tunnel: neither connection can be reused.
    fn tunnelled() -> Answered {
        Answered { reusable: false, kept_secs: None, keep_alive: false, outcome: Outcome::Success }
    }
}

/// Timeouts and limits of an attempt.
pub struct Terms<'t> {
    pub timeouts: RouteTimeouts,
    /// Retry state, if a response may be discarded for a retry.
    pub tries: Option<&'t Tries<'t>>,
    /// True if the connection has carried other requests before.
    pub is_reused: bool,
}

/// The form in which a request and its response pass.
pub enum Shape<'d> {
    /// Bytes with their framing, from connection to connection. Holds the client's.
    Bytes(&'d Transport),
    /// Heads, data and trailers.
    Parts,
}

impl<'d> Shape<'d> {
    /// Returns the form for a request to an HTTP/1 endpoint. `wants_body` is true if filters look at a body, which then
    /// passes in parts.
    pub fn of<D: Downstream>(down: &'d D, wants_body: bool) -> Shape<'d> {
        down.connection().filter(|_| !wants_body).map_or(Shape::Parts, Shape::Bytes)
    }
}

impl<'t> Relay<'t> {
    /// Creates the relay of a request that has a connection or stream to its endpoint.
    pub fn new(
        client: &'t Client<'t>,
        timer: &'t Timer,
        record: &'t Record<'t>,
        opened: &'t Opened<'t>,
        terms: Terms<'t>,
    ) -> Relay<'t> {
        let Terms { timeouts, tries, is_reused } = terms;
        Relay {
            client,
            timer,
            record,
            opened,
            timeouts,
            client_due: Cell::new(0),
            awaits_body: Cell::new(false),
            body_due: Cell::new(false),
            awaits_continue: Cell::new(opened.expects_continue),
            tries,
            body_gone: Cell::new(false),
            uploaded: Cell::new(false),
            switched: Cell::new(false),
            half_closed: Cell::new(false),
            is_reused,
        }
    }
}

impl Relay<'_> {
    /// The part of the request's state that the client's side needs.
    fn flow(&self) -> Flow<'_> {
        Flow {
            core: self.client.core,
            towards: self.opened.towards,
            asked: self.opened.asked,
            body_due: &self.body_due,
            awaits_continue: &self.awaits_continue,
            gone: &self.client.listener.gone,
            bytes_in: &self.record.bytes_in,
        }
    }

    /// Returns the fault for a timeout.
    #[cold]
    fn late(&self) -> Fault {
        let is_over = self.timer.left_ns(self.opened.route.deadline) == Some(0);
        let (has_begun, awaits_body) = (self.record.phase.get() == Phase::Data, self.awaits_body.get());
        let is_call = self.record.call.get() != Call::Not;
        // Silence may be legitimate on both sides: in a gRPC call or an upgraded connection after the response has
        // begun, and while the request body is incomplete.
        let is_open = awaits_body || (has_begun && (is_call || self.opened.asked.upgrade));
        match has_begun {
            _ if is_over && self.opened.route.is_deadline_of_call => Fault::CallExpired,
            _ if self.client_due.get() > 0 => Fault::ClientSlow,
            false if awaits_body && !is_call => Fault::ClientSlow,
            _ if is_over => Fault::TimedOut(Due::Request),
            _ if is_open => Fault::Idle,
            true => Fault::TimedOut(Due::Idle),
            false => Fault::TimedOut(Due::Response),
        }
    }

    /// Waits for more of the request's body.
    async fn on_body<F: Future>(&self, future: Pin<&mut F>) -> F::Output {
        self.awaits_body.set(true);
        let output = future.await;
        self.awaits_body.set(false);
        output
    }

    /// Waits for the client. Once a response has begun, at most `timeouts.idle`: `timeouts.response` is for the
    /// endpoint, which has answered.
    async fn on_client<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        let mut waits = false;
        let output = poll_fn(|cx| {
            let polled = future.as_mut().poll(cx);
            if polled.is_pending() && !std::mem::replace(&mut waits, true) {
                self.client_due.update(|n| n + 1);
                if self.record.phase.get() == Phase::Data {
                    self.allow(Some(self.timeouts.idle));
                }
            }
            polled
        })
        .await;
        if waits {
            self.client_due.update(|n| n - 1);
        }
        output
    }

    /// Runs `future` until it ends or the client is gone. Gone means that it can neither send nor receive: a client
    /// that has only closed its sending half still gets its response, as many do so after the request.
    async fn while_there<T>(
        &self,
        poll_gone: impl Fn(&mut Context<'_>) -> Poll<()>,
        mut future: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    ) -> Result<T, Fault> {
        poll_fn(|cx| {
            if let Poll::Ready(result) = future.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            self.record.exchange.poll_left(poll_gone(cx)).map(|()| Err(Fault::ClientGone))
        })
        .await
    }

    /// Relays the request and the response concurrently, until the response has ended. Returns its result, and true if
    /// the request was sent completely.
    async fn both_ways<T>(
        &self,
        mut upload: Pin<&mut impl Future<Output = Result<(), Fault>>>,
        mut download: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    ) -> Result<(T, bool), Fault> {
        let mut sent = false;
        let mut download_first = false;
        let ended = poll_fn(|cx| {
            let mut polled = if download_first { download.as_mut().poll(cx) } else { Poll::Pending };
            if !sent && let Poll::Ready(result) = upload.as_mut().poll(cx) {
                sent = true;
                result?;
            }
            if polled.is_pending() && !download_first {
                polled = download.as_mut().poll(cx);
            }
            // A direction that is always ready uses up the turn; then the other direction goes first in the next turn.
            download_first = !download_first && budget::is_spent();
            polled
        });
        Ok((ended.await?, sent))
    }

    /// Pauses for a filter of a body. The silence is neither side's fault, so only the request's deadline may end it.
    async fn pause(&self, mut ns: u64) {
        while ns > 0 {
            let part = ns.min(self.timeouts.idle.as_nanos() as u64 / 2).max(1);
            self.allow_silence();
            sleep(Duration::from_nanos(part)).await;
            ns -= part;
        }
    }

    /// Sets the timer to `time` from now, or to the request's deadline if that is earlier.
    fn allow(&self, time: Option<Duration>) {
        self.timer.set(self.due(time));
    }

    /// Sets the timer to the silence that is allowed once the response has begun; less if half of a tunnel has ended.
    fn allow_silence(&self) {
        let RouteTimeouts { idle, half_closed, .. } = self.timeouts;
        self.allow(Some(if self.half_closed.get() { half_closed.min(idle) } else { idle }));
    }

    /// Notes that a half of a tunnel has ended.
    fn half_close(&self) {
        self.half_closed.set(true);
        self.allow_silence();
    }

    /// Returns the tick after `time` from now, or the tick of the request's deadline if it is earlier.
    fn due(&self, time: Option<Duration>) -> u64 {
        time.map_or(u64::MAX, |time| self.timer.tick_after(time)).min(self.opened.route.deadline)
    }

    /// Sets the phase and its timeout. Once the response has begun, the phase stays and only the allowed silence is
    /// renewed.
    fn expect(&self, phase: Phase, time: Option<Duration>) {
        if self.record.phase.get() == Phase::Data {
            return self.allow_silence();
        }
        self.record.phase.set(phase);
        self.allow(time);
    }

    /// Sends the rest of the request's first bytes. On an error the endpoint may have answered already, which the other
    /// direction finds out.
    ///
    /// # Errors
    /// The endpoint accepts no more bytes.
    async fn send_head(&self, up: &Transport, out: &mut Outgoing<'_>) -> Result<(), Gone> {
        while !out.unsent().is_empty() {
            let n = up.write_some(out.unsent()).await.map_err(|_| Gone)?;
            out.advance(n);
        }
        Ok(())
    }

    /// Notes that the head of the final response has arrived: from now on, `timeouts.idle` applies.
    fn begin_response(&self, ticket: &mut InFlight<'_>) {
        let now = self.client.core.clock.now();
        ticket.answered(now);
        self.record.exchange.timing.update(|timing| Timing { ttfb_ns: Some(now.since(timing.began)), ..timing });
        self.record.phase.set(Phase::Data);
    }

    /// Limits on responses, and protocol faults tolerated from the endpoint.
    pub fn leniency(&self) -> Leniency {
        Leniency::of(&self.opened.route.pool.plan(), self.is_reused)
    }
}
