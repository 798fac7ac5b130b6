//! What happens after a switch of protocols? Bytes pass both ways, whatever they mean.

use super::{Answered, Relay};
use crate::http::down::h1::H1;
use crate::http::down::message::Messages;
use crate::http::fault::Fault;
use crate::http2::part::Part;
use crate::observe::end::Cause;
use crate::tcp::duplex::{Duplex, Side};
use crate::tcp::lifetime::{self, SessionEnd, Silence};
use evenkeel_net::buffer::Buf;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

impl Relay<'_, '_> {
    /// Begins a tunnel. The answer to the switch of protocols is in `buf`.
    pub(super) fn switched<'s>(&'s self, down: &'s H1, buf: Buf) -> Box<Duplex<'s>> {
        self.upstream.send_at_once();
        self.allow(Some(self.timeouts.idle));
        self.record.count_out(buf.len());
        Box::new(Duplex::switched(&down.transport, self.upstream, buf))
    }

    /// Sends the rest of the request, behind which the protocol changes; the endpoint's half of the tunnel is open already
    /// (RFC 9110 section 7.8).
    pub(super) async fn finish_request(
        &self,
        mut upload: Pin<&mut impl Future<Output = Result<(), Fault>>>,
        duplex: &mut Duplex<'_>,
    ) -> Result<(), Fault> {
        let (mut ended, mut upload_first) = (false, true);
        poll_fn(|cx| {
            // Each way is first in every other turn: one that is always ready uses the turn up.
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

    /// Relays bytes both ways until both have ended. `early`: what the client sent behind its request.
    ///
    /// # Errors
    /// The tunnel ended in another way: then both connections end in a reset.
    pub(super) async fn tunnel(
        &self,
        down: &H1,
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
            deadline: self.deadline,
        };
        let moved = |side, n| self.tunnelled(side, n);
        let cause = match lifetime::run(&mut duplex, self.timer, silence, || false, moved).await {
            SessionEnd::Whole => return Ok(Answered::tunnelled(false)),
            SessionEnd::Reset(side) => reset_by(side),
            SessionEnd::Idle(_) if duplex.is_silent() => Cause::Idle,
            SessionEnd::Idle(Side::Client) => Cause::ClientSlow,
            SessionEnd::Idle(Side::Endpoint) => Cause::EndpointSlow,
            SessionEnd::Cut => Cause::Proxy,
        };
        // Any other end must not look like the end of the data.
        self.upstream.reset_on_close(true);
        down.transport.reset_on_close(true);
        Err(Fault::Tunnel(cause))
    }

    /// Silence before the kernel probes the peers of a tunnel.
    fn keepalive(&self) -> Option<Duration> {
        self.record.pool.and_then(|pool| pool.plan().keepalive)
    }

    /// Counts bytes of a tunnel.
    fn tunnelled(&self, from: Side, n: usize) {
        match from {
            Side::Client => self.record.count_in(n),
            Side::Endpoint => self.record.count_out(n),
        }
    }

    /// The same, where the client's bytes come and go as messages. `buf`: what the endpoint sent behind its head.
    pub(super) async fn tunnel_messages<D: Messages>(&self, down: &D, buf: Buf) -> Result<Answered, Fault> {
        self.upstream.send_at_once();
        self.allow(Some(self.timeouts.idle));
        if let Some(after) = self.keepalive() {
            self.upstream.keep_alive(after);
        }
        let (mut up_done, mut down_done) = (false, false);
        let mut to_endpoint = pin!(async {
            while let Ok(Part::Data(mut buf)) = poll_fn(|cx| down.poll_part(cx)).await {
                self.allow_silence();
                self.record.count_in(buf.len());
                if self.upstream.write_all(&mut buf).await.is_err() {
                    break;
                }
            }
            self.upstream.shutdown_write();
            self.half_close();
        });
        let mut to_client = pin!(async {
            let mut buf = buf;
            loop {
                if !buf.is_empty() {
                    self.record.count_out(buf.len());
                    self.room(down).await?;
                    down.send(Part::Data(buf));
                }
                if down.is_held_back() {
                    self.room(down).await?;
                }
                self.allow_silence();
                buf = self.upstream.read_some().await.map_err(|_| Fault::CutShort)?;
                if buf.is_empty() {
                    down.send(Part::End);
                    self.half_close();
                    return Ok(());
                }
            }
        });
        let mut down_first = true;
        poll_fn(|cx| {
            down_first = !down_first;
            for down in [down_first, !down_first] {
                if !down {
                    up_done = up_done || to_endpoint.as_mut().poll(cx).is_ready();
                } else if !down_done && let Poll::Ready(done) = to_client.as_mut().poll(cx) {
                    down_done = true;
                    done?;
                }
            }
            if up_done && down_done { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        Ok(Answered::tunnelled(true))
    }
}

fn reset_by(side: Side) -> Cause {
    match side {
        Side::Client => Cause::Client,
        Side::Endpoint => Cause::Endpoint,
    }
}
