//! What happens after a switch of protocols? Bytes pass both ways, whatever they mean.

use super::{Answered, Relay};
use crate::http::down::h1::H1;
use crate::http::down::message::Messages;
use crate::http::fault::Fault;
use crate::http2::part::Part;
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
        let (mut up_done, mut down_done) = (false, false);
        let mut to_endpoint = pin!(self.pipe(&down.transport, self.upstream, false));
        let mut to_client = pin!(self.pipe(self.upstream, &down.transport, true));
        poll_fn(|cx| {
            up_done = up_done || to_endpoint.as_mut().poll(cx).is_ready();
            down_done = down_done || to_client.as_mut().poll(cx).is_ready();
            if up_done && down_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(Answered { reusable: false, keep_alive: false, outcome: Outcome::Success })
    }

    /// The same, where the client's bytes come and go as messages. `buf`: what the endpoint sent behind its head.
    pub(super) async fn tunnel_messages<D: Messages>(&self, down: &D, buf: Buf) -> Result<Answered, Fault> {
        self.upstream.send_at_once();
        self.allow(Some(self.timeouts.idle));
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
                    self.room(down).await?;
                    down.send(Part::Data(buf));
                }
                if down.is_held_back() {
                    self.room(down).await?;
                }
                self.allow(Some(self.timeouts.idle));
                buf = self.upstream.read_some().await.map_err(|_| Fault::CutShort)?;
                if buf.is_empty() {
                    down.send(Part::End);
                    return Ok(());
                }
            }
        });
        poll_fn(|cx| {
            up_done = up_done || to_endpoint.as_mut().poll(cx).is_ready();
            if !down_done && let Poll::Ready(done) = to_client.as_mut().poll(cx) {
                down_done = true;
                done?;
            }
            if up_done && down_done { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        Ok(Answered { reusable: false, keep_alive: true, outcome: Outcome::Success })
    }

    /// Copies until the end and passes the end on; an error ends both ways, as each finds it. `is_down`: to the client.
    async fn pipe(&self, from: &Transport, to: &Transport, is_down: bool) {
        loop {
            self.allow(Some(self.timeouts.idle));
            let Ok(mut buf) = from.read_some().await else { break };
            if buf.is_empty() {
                break;
            }
            if is_down {
                self.record.count_out(buf.len())
            } else {
                self.record.count_in(buf.len())
            }
            let mut writing = pin!(to.write_all(&mut buf));
            let written = if is_down { self.on_client(writing).await } else { writing.as_mut().await };
            if written.is_err() {
                break;
            }
        }
        to.shutdown_write();
    }
}
