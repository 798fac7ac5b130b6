//! Tunnel after a switch of protocols, with HTTP/1 on both sides: bytes are relayed both ways unread.

use super::{Answered, Relay};
use crate::body::fault::Fault;
use crate::observe::end::Cause;
use crate::tcp::duplex::{Duplex, Side};
use crate::tcp::lifetime::{self, SessionEnd, Silence};
use evenkeel_net::buffer::Buf;
use evenkeel_net::transport::Transport;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

impl Relay<'_> {
    /// Begins a tunnel. `buf` holds the 101 response, and the tunnel's bytes behind it.
    pub(super) fn switched<'s>(&'s self, down: &'s Transport, up: &'s Transport, buf: Buf) -> Box<Duplex<'s>> {
        up.send_at_once();
        self.allow(Some(self.timeouts.idle));
        self.record.count_out(buf.len());
        Box::new(Duplex::switched(down, up, buf))
    }

    /// Sends the rest of the request, after which the client's direction switches too; the endpoint's direction is
    /// relayed already (RFC 9110 section 7.8).
    pub(super) async fn finish_request(
        &self,
        mut upload: Pin<&mut impl Future<Output = Result<(), Fault>>>,
        duplex: &mut Duplex<'_>,
    ) -> Result<(), Fault> {
        let (mut ended, mut upload_first) = (false, true);
        poll_fn(|cx| {
            // The directions alternate in going first: a direction that is always ready uses up the turn.
            upload_first = !upload_first;
            if upload_first && let Poll::Ready(sent) = upload.as_mut().poll(cx) {
                return Poll::Ready(sent);
            }
            if !ended && let Poll::Ready(down) = duplex.poll_down(cx, |side, n| self.tunnelled(side, n)) {
                ended = true;
                down.map_err(|side| Fault::Tunnel(reset_by(side)))?;
            }
            if upload_first { Poll::Pending } else { upload.as_mut().poll(cx) }
        })
        .await
    }

    /// Relays bytes both ways until both have ended. `early` holds bytes that the client sent behind its request.
    ///
    /// # Errors
    /// The tunnel ended in any other way. Then both connections end in a reset.
    pub(super) async fn tunnel(
        &self,
        down: &Transport,
        up: &Transport,
        mut duplex: Box<Duplex<'_>>,
        early: Option<Buf>,
    ) -> Result<Answered, Fault> {
        if let Some(early) = early {
            self.record.count_in(early.len());
            duplex.hold_early(early);
        }
        let silence = Silence {
            idle: self.timeouts.idle,
            half_closed: self.timeouts.half_closed,
            keepalive: self.keepalive(),
            deadline: self.opened.route.deadline,
        };
        let moved = |side, n| self.tunnelled(side, n);
        let cause = match lifetime::run(&mut duplex, self.timer, silence, || false, moved).await {
            SessionEnd::Whole => return Ok(Answered::tunnelled()),
            SessionEnd::Reset(side) => reset_by(side),
            SessionEnd::Idle(_) if duplex.is_silent() => Cause::Idle,
            SessionEnd::Idle(Side::Client) => Cause::ClientSlow,
            SessionEnd::Idle(Side::Endpoint) => Cause::EndpointSlow,
            SessionEnd::Cut => Cause::Proxy,
        };
        // An early end must not look like the end of the data.
        up.reset_on_close(true);
        down.reset_on_close(true);
        Err(Fault::Tunnel(cause))
    }

    /// Silence after which the kernel probes the peers of a tunnel (TCP keep-alive).
    pub(super) fn keepalive(&self) -> Option<Duration> {
        self.opened.route.pool.plan().keepalive
    }

    /// Counts bytes of a tunnel.
    fn tunnelled(&self, from: Side, n: usize) {
        match from {
            Side::Client => self.record.count_in(n),
            Side::Endpoint => self.record.count_out(n),
        }
    }
}

fn reset_by(side: Side) -> Cause {
    match side {
        Side::Client => Cause::Client,
        Side::Endpoint => Cause::Endpoint,
    }
}
