//! What happens after a switch of protocols? Bytes pass both ways, whatever they mean.

use super::{Answered, Relay};
use crate::http::down::h1::H1;
use crate::http::down::message::Messages;
use crate::http::fault::Fault;
use crate::http2::part::{Gone, Part};
use evenkeel_balance::Outcome;
use evenkeel_net::buffer::Buf;
use evenkeel_net::transport::Transport;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

impl Relay<'_, '_> {
    /// After a switch of protocols: bytes both ways, each way until its sender closes. `early` is what the client sent
    /// behind its request.
    pub(super) async fn tunnel(&self, down: &H1, early: Option<Buf>, mut buf: Buf) -> Result<Answered, Fault> {
        self.upstream.send_at_once();
        self.allow(Some(self.timeouts.idle));
        self.record.count_out(buf.len());
        self.on_client(pin!(down.transport.write_all(&mut buf))).await.map_err(|_| Fault::ClientGone)?;
        drop(buf);
        if let Some(mut early) = early {
            self.record.count_in(early.len());
            self.upstream.write_all(&mut early).await.map_err(|_| Fault::CutShort)?;
        }
        // Which side should speak next, only the protocol inside knows.
        self.client_due.set(1);
        let (mut up_done, mut down_done) = (false, false);
        let mut to_endpoint = pin!(self.pipe(&down.transport, self.upstream, |n| self.record.count_in(n)));
        let mut to_client = pin!(self.pipe(self.upstream, &down.transport, |n| self.record.count_out(n)));
        let mut down_first = true;
        poll_fn(|cx| {
            // Each way is first in every other turn: one that is always ready uses the turn up.
            down_first = !down_first;
            for down in [down_first, !down_first] {
                if down {
                    down_done = down_done || to_client.as_mut().poll(cx).is_ready();
                } else {
                    up_done = up_done || to_endpoint.as_mut().poll(cx).is_ready();
                }
            }
            if up_done && down_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(Answered { reusable: false, keep_alive: false, outcome: Outcome::Success })
    }

    /// The same, where the client's bytes come and go as messages. `buf`: what the endpoint sent behind its head.
    pub(super) async fn tunnel_messages<D: Messages>(&self, down: &D, buf: Buf) -> Result<Answered, Fault> {
        self.upstream.send_at_once();
        self.allow(Some(self.timeouts.idle));
        self.client_due.set(1);
        let (mut up_done, mut down_done) = (false, false);
        let mut to_endpoint = pin!(async {
            while let Ok(Part::Data(mut buf)) = poll_fn(|cx| down.poll_part(cx)).await {
                self.allow(Some(self.timeouts.idle));
                self.record.count_in(buf.len());
                if self.upstream.write_all(&mut buf).await.is_err() {
                    break;
                }
            }
            self.upstream.shutdown_write();
        });
        let mut to_client = pin!(async {
            let mut buf = buf;
            loop {
                if !buf.is_empty() {
                    self.record.count_out(buf.len());
                    poll_fn(|cx| down.poll_room(cx)).await.map_err(|Gone| Fault::ClientGone)?;
                    down.send(Part::Data(buf));
                }
                if down.is_held_back() {
                    poll_fn(|cx| down.poll_room(cx)).await.map_err(|Gone| Fault::ClientGone)?;
                }
                self.allow(Some(self.timeouts.idle));
                buf = self.upstream.read_some().await.map_err(|_| Fault::CutShort)?;
                if buf.is_empty() {
                    down.send(Part::End);
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
        Ok(Answered { reusable: false, keep_alive: true, outcome: Outcome::Success })
    }

    /// Copies until the end and passes the end on; an error ends both ways, as each finds it.
    async fn pipe(&self, from: &Transport, to: &Transport, count: impl Fn(usize)) {
        loop {
            self.allow(Some(self.timeouts.idle));
            let Ok(mut buf) = from.read_some().await else { break };
            if buf.is_empty() {
                break;
            }
            count(buf.len());
            if to.write_all(&mut buf).await.is_err() {
                break;
            }
        }
        to.shutdown_write();
    }
}
