//! What happens after a switch of protocols? Bytes pass both ways, whatever they mean.

use super::{Answered, Talk, read};
use crate::buffer::Buf;
use crate::fault::Fault;
use crate::stream::Stream;
use evenkeel_balance::Outcome;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

impl Talk<'_, '_> {
    /// After a switch of protocols: bytes both ways, each way until its sender closes. `early` is what the client sent
    /// behind its request.
    pub(super) async fn tunnel(&self, early: Option<Buf>, mut buf: Buf) -> Result<Answered, Fault> {
        self.upstream.send_at_once();
        self.allow(Some(self.timeouts.idle));
        self.record.count_out(buf.len());
        self.on_client(pin!(self.client.stream.write_all(&mut buf))).await.map_err(|_| Fault::ClientGone)?;
        drop(buf);
        if let Some(mut early) = early {
            self.record.count_in(early.len());
            self.upstream.write_all(&mut early).await.map_err(|_| Fault::CutShort)?;
        }
        // Nobody knows who should speak in there.
        self.client_due.set(1);
        let (mut up_done, mut down_done) = (false, false);
        let mut up = pin!(self.pipe(&self.client.stream, self.upstream, |n| self.record.count_in(n)));
        let mut down = pin!(self.pipe(self.upstream, &self.client.stream, |n| self.record.count_out(n)));
        poll_fn(|cx| {
            up_done = up_done || up.as_mut().poll(cx).is_ready();
            down_done = down_done || down.as_mut().poll(cx).is_ready();
            if up_done && down_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(Answered { reusable: false, keep_alive: false, outcome: Outcome::Success })
    }

    /// Copies until the end and passes the end on; an error ends both ways, as each finds it.
    async fn pipe(&self, from: &Stream, to: &Stream, count: impl Fn(usize)) {
        loop {
            self.allow(Some(self.timeouts.idle));
            let Ok(mut buf) = read(from).await else { break };
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
