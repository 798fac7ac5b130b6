//! Relay between a client and an endpoint for one request. Both directions at once, each with back-pressure: a byte is read only
//! when the one before it was written.
//!
//! Between HTTP/1 on both sides bytes pass as they are ([`bytes`], [`tunnel`] after a switch of protocols), otherwise heads, data
//! and trailers do ([`parts`]). The [`decision`] about a response is the same.

mod bytes;
mod decision;
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
use evenkeel_config::plan::{RouteTimeouts, Tolerated};
use evenkeel_net::deadline::Timer;
use evenkeel_net::event_loop::budget;
use evenkeel_net::transport::Transport;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Relay of a request and its response between client and endpoint.
pub struct Relay<'t, 'c> {
    client: &'t Client<'c>,
    /// Timer of the request's deadline.
    timer: &'t Timer,
    record: &'t Record<'t>,
    asked: RequestContext,
    towards: Towards,
    timeouts: RouteTimeouts,
    /// The tick by which all must be over.
    deadline: u64,
    /// True if `deadline` is the one that the client of a gRPC call has set.
    is_deadline_of_call: bool,
    /// In how many directions the client is to send or to take something: if time runs out then, it is at fault. Else
    /// clients that read slowly could make endpoints look bad.
    client_due: Cell<u8>,
    /// True while more of the request's body is waited for.
    awaits_body: Cell<bool>,
    /// True if more of the request's body will come from the client.
    body_due: Cell<bool>,
    /// Retries, if a response may be discarded for one, and true if its method is idempotent.
    tries: Option<(&'t Tries<'t>, bool)>,
    /// True once part of its body was sent that is not kept: there is no retry then.
    body_gone: Cell<bool>,
    /// True once all of the request has been sent.
    uploaded: Cell<bool>,
    /// True once a tunnel has begun that passes in parts.
    switched: Cell<bool>,
    /// True if one half of a tunnel has ended.
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
    /// True if the client's connection can.
    pub keep_alive: bool,
    /// The outcome for the balancer.
    pub outcome: Outcome,
}

impl Answered {
    /// The end of a tunnel, which uses up both connections.
    fn tunnelled() -> Answered {
        Answered { reusable: false, kept_secs: None, keep_alive: false, outcome: Outcome::Success }
    }
}

/// Timeouts and limits of an attempt.
pub struct Terms<'t> {
    pub timeouts: RouteTimeouts,
    /// Its tries, if a response may be thrown away for another one.
    pub tries: Option<&'t Tries<'t>>,
    /// True if the connection has carried other requests before.
    pub is_reused: bool,
}

/// The form in which a request and its response pass.
pub enum Shape<'d> {
    /// Bytes, framed as they came, over the client's connection and one to an endpoint.
    Bytes(&'d Transport),
    /// Heads, data and trailers.
    Parts,
}

impl<'d> Shape<'d> {
    /// The form for a request to an endpoint that speaks HTTP/1. `wants_body`: its content is looked at on the way.
    pub fn of<D: Downstream>(down: &'d D, wants_body: bool) -> Shape<'d> {
        down.connection().filter(|_| !wants_body).map_or(Shape::Parts, Shape::Bytes)
    }
}

impl<'t, 'c> Relay<'t, 'c> {
    /// A request that has reached an endpoint.
    pub fn new(
        client: &'t Client<'c>,
        timer: &'t Timer,
        record: &'t Record<'t>,
        opened: &Opened<'_>,
        terms: Terms<'t>,
    ) -> Relay<'t, 'c> {
        let Terms { timeouts, tries, is_reused } = terms;
        Relay {
            client,
            timer,
            record,
            asked: opened.asked,
            towards: opened.towards,
            timeouts,
            deadline: opened.route.deadline,
            is_deadline_of_call: opened.route.is_deadline_of_call,
            client_due: Cell::new(0),
            awaits_body: Cell::new(false),
            body_due: Cell::new(!opened.body.is_done()),
            tries: tries.map(|tries| (tries, opened.idempotent)),
            body_gone: Cell::new(false),
            uploaded: Cell::new(false),
            switched: Cell::new(false),
            half_closed: Cell::new(false),
            is_reused,
        }
    }
}

impl Relay<'_, '_> {
    /// The request, as far as the client's side has to know it.
    fn flow(&self) -> Flow<'_> {
        Flow {
            core: self.client.core,
            towards: self.towards,
            asked: self.asked,
            body_due: &self.body_due,
            gone: &self.client.listener.gone,
            bytes_in: &self.record.bytes_in,
        }
    }

    /// The fault when time has run out.
    #[cold]
    fn late(&self) -> Fault {
        let is_over = self.timer.left_ns(self.deadline) == Some(0);
        let (has_begun, awaits_body) = (self.record.phase.get() == Phase::Data, self.awaits_body.get());
        let is_call = self.record.call.get() != Call::Not;
        // A side that sends nothing may have nothing to send: within a call, and once the response has begun.
        let is_open = awaits_body || (has_begun && (is_call || self.asked.upgrade));
        match has_begun {
            _ if is_over && self.is_deadline_of_call => Fault::CallExpired,
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

    /// Waits for the client; once a response is under way, for as long as a pause of it may last: `timeouts.response` is for the
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

    /// Runs `future` until it ends or the client is gone. A client that only says that it sends no more gets its answer: many
    /// close their half after the request, and the two cannot be told apart.
    async fn while_there<T>(
        &self,
        poll_gone: impl Fn(&mut Context<'_>) -> Poll<()>,
        mut future: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    ) -> Result<T, Fault> {
        poll_fn(|cx| {
            if let Poll::Ready(result) = future.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            poll_gone(cx).map(|()| Err(Fault::ClientGone))
        })
        .await
    }

    /// Relays the request and the response at once, until the response has ended: how, and whether the request has, too.
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
            // One that is always ready uses up the turn: the other has the next.
            download_first = !download_first && budget::is_spent();
            polled
        });
        Ok((ended.await?, sent))
    }

    /// Gives what is due next so much time.
    fn allow(&self, time: Option<Duration>) {
        self.timer.set(self.due(time));
    }

    /// Sets the timer to the silence that a tunnel may have.
    fn allow_silence(&self) {
        let RouteTimeouts { idle, half_closed, .. } = self.timeouts;
        self.allow(Some(if self.half_closed.get() { half_closed.min(idle) } else { idle }));
    }

    /// Notes that one half of a tunnel has ended.
    fn half_close(&self) {
        self.half_closed.set(true);
        self.allow_silence();
    }

    /// The tick by which so much time is over, or the time for the whole.
    fn due(&self, time: Option<Duration>) -> u64 {
        time.map_or(u64::MAX, |time| self.timer.tick_after(time)).min(self.deadline)
    }

    /// Says what is due next, and how long that may take; once a response is under way, only that it goes on counts.
    fn expect(&self, phase: Phase, time: Option<Duration>) {
        if self.record.phase.get() == Phase::Data {
            return self.allow_silence();
        }
        self.record.phase.set(phase);
        self.allow(time);
    }

    /// Sends what is left of the request's first bytes. The endpoint may have answered already: that is for the other direction
    /// to find.
    ///
    /// # Errors
    /// The endpoint takes no more.
    async fn send_head(&self, up: &Transport, out: &mut Outgoing<'_>) -> Result<(), Gone> {
        while !out.unsent().is_empty() {
            let n = up.write_some(out.unsent()).await.map_err(|_| Gone)?;
            out.advance(n);
        }
        Ok(())
    }

    /// The head of the final response is there: from now on only its progress counts.
    fn begin_response(&self, ticket: &mut InFlight<'_>) {
        let now = self.client.core.clock.now();
        ticket.answered(now);
        self.record.timing.update(|timing| Timing { ttfb_ns: Some(now.since(timing.began)), ..timing });
        self.record.phase.set(Phase::Data);
    }

    /// Protocol faults tolerated from the endpoint.
    pub fn leniency(&self) -> Leniency {
        let tolerated = self.record.pool.map_or_else(Tolerated::default, |pool| pool.plan().tolerate);
        Leniency { tolerated, is_reused: self.is_reused }
    }
}
