//! What passes between a client and an endpoint for one request? Both directions at once, each with back-pressure: a
//! byte is read only when the one before it was written.
//!
//! Between HTTP/1 on both sides bytes pass as they are ([`h1`], [`tunnel`] after a switch of protocols). Where one side
//! speaks in messages, heads, data and trailers do ([`message`]; to an endpoint that takes them so, [`stream`]). What is decided
//! of a response is the same: [`response`].

mod h1;
mod message;
mod response;
mod stream;
mod tunnel;

use crate::forward::fault::{Due, Fault};
use crate::forward::outgoing::Outgoing;
use crate::listener::client::Client;
use crate::observe::end::Phase;
use crate::record::Record;
use crate::record::grpc::Call;
use crate::serve::Downstream;
use crate::upstream::retries::Tries;
use evenkeel_balance::Outcome;
use evenkeel_config::plan::RouteTimeouts;
use evenkeel_net::deadline::Timer;
use evenkeel_net::event_loop::budget;
use evenkeel_net::transport::Transport;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// One request at one endpoint, which `U` leads to.
pub struct Relay<'t, 'c, U = Transport> {
    pub client: &'t Client<'c>,
    /// The request's deadline.
    pub timer: &'t Timer,
    pub record: &'t Record<'t>,
    pub upstream: &'t U,
    pub asked: RequestContext,
    pub towards: Towards,
    pub timeouts: RouteTimeouts,
    /// The tick by which all must be over.
    pub deadline: u64,
    /// True if `deadline` is the one that the client of a gRPC call has set.
    pub is_deadline_of_call: bool,
    /// In how many directions the client is to send or to take something: if time runs out then, it is at fault. Else
    /// clients that read slowly could make endpoints look bad.
    pub client_due: Cell<u8>,
    /// True while more of the request's body is waited for.
    pub awaits_body: Cell<bool>,
    /// Whether more of the request's body is to come from the client.
    pub body_due: Cell<bool>,
    /// Its tries, if a response may be thrown away for another one, and whether its method is idempotent.
    pub tries: Option<(&'t Tries<'t>, bool)>,
    /// Whether some of its body has gone that is not kept: then it has no other try after all.
    pub body_gone: Cell<bool>,
    /// True if one half of a tunnel has ended.
    pub half_closed: Cell<bool>,
    /// True if the connection has carried other requests before.
    pub is_reused: bool,
}

/// How an endpoint's answer leaves both connections.
#[derive(Clone, Copy)]
pub struct Answered {
    /// The endpoint's can carry another request.
    pub reusable: bool,
    /// Seconds for which the endpoint keeps its connection, if it states them.
    pub kept_secs: Option<u32>,
    /// The client's can.
    pub keep_alive: bool,
    /// The outcome for the balancer.
    pub outcome: Outcome,
}

impl Answered {
    /// The end of a tunnel. `keep_alive`: the client's connection is not used up by it.
    fn tunnelled(keep_alive: bool) -> Answered {
        Answered { reusable: false, kept_secs: None, keep_alive, outcome: Outcome::Success }
    }
}

impl<U> Relay<'_, '_, U> {
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
        down: &impl Downstream,
        mut future: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    ) -> Result<T, Fault> {
        poll_fn(|cx| {
            if let Poll::Ready(result) = future.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            down.poll_gone(cx).map(|()| Err(Fault::ClientGone))
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
}

impl Relay<'_, '_> {
    /// Sends what is left of the request's first bytes; `false` if the endpoint takes no more. It may have answered already:
    /// that is for the other direction to find, so it is no fault here.
    async fn send_head(&self, out: &mut Outgoing<'_>) -> bool {
        while !out.unsent().is_empty() {
            match self.upstream.write_some(out.unsent()).await {
                Ok(n) => out.advance(n),
                Err(_) => return false,
            }
        }
        true
    }
}
