//! Responses of this proxy to HTTP/1 requests: in a single piece, or in chunks if their bodies pass filters meanwhile.

use super::h1::{After, H1, Terms};
use super::{Settled, next_part, patience_for, settled};
use crate::body::chain::Pulled;
use crate::body::framing::{Framing, Writer};
use crate::body::part::Part;
use crate::body::response::{Content, Response};
use crate::observe::end::Cause;
use crate::pipeline::response::{Own, OwnBody};
use crate::record::Record;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_net::deadline::Elapsed;
use evenkeel_net::event_loop::alarm::sleep;
use evenkeel_net::event_loop::budget;
use evenkeel_net::memory::pages::{self, PAGES_MIN};
use evenkeel_net::splice::Pipe;
use evenkeel_wire::http1::Version;
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::response::Towards;
use evenkeel_wire::http1::translate::write_response;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

impl H1 {
    /// Sends a response of this proxy. The connection is kept only if the end of the request was read.
    pub(super) async fn answer(
        &self,
        record: &mut Record<'_>,
        response: Response,
        terms: Terms,
        rest: Option<Buf>,
    ) -> After {
        let Terms { keep_alive, head_only } = terms;
        let keep_alive = keep_alive && !matches!(response.content, Content::Malformed(_));
        let rest = rest.filter(|_| keep_alive);
        let own = match settled(record, self, response, keep_alive).await {
            Some(Settled::Own(own)) => own,
            Some(Settled::Relayed(answered)) if answered.keep_alive => return After::Next(rest),
            Some(Settled::Relayed(_)) => return After::Linger,
            None => return After::Close,
        };
        let record = &*record;
        let Own { status, fields, mut body, .. } = own;
        // `towards` claims HTTP/1.1, so the head has no `keep-alive`, without which an HTTP/1.0 client expects a close.
        let keep_alive = keep_alive && !record.exchange.facts.is_http10;
        let towards = Towards { version: Version::V11, keep_alive };
        // A 204 has no length, and a 304 would have the length of the 200 that it replaces (RFC 9110 section 8.6).
        let framing = match body.length() {
            _ if matches!(status, 204 | 304) => Stated::Nothing,
            Some(length) => Stated::Length(length as u64),
            None if head_only => Stated::Nothing,
            None => Stated::Chunked,
        };
        let mut head = record.client.core.scratch();
        write_response(status, &fields, framing, towards, &mut head);
        let is_written = match body.whole() {
            _ if head_only || framing == Stated::Nothing => self.write_out(record, &head, &[]).await,
            Some(whole) => self.write_out(record, &head, whole).await,
            None => Box::pin(self.write_parts(record, &head, &mut body)).await,
        };
        record.client.core.give_back(head);
        if is_written && keep_alive { After::Next(rest) } else { After::Linger }
    }

    /// Writes a head and its body: the head with as much of the body as fits into a buffer, then the rest directly from
    /// the body. Returns false, and notes the cause, if the client is gone or takes nothing for too long.
    async fn write_out(&self, record: &Record<'_>, head: &[u8], body: &[u8]) -> bool {
        let patience = patience_for(record, Some(body.len()));
        let pipe = self.pipe_for(body);
        let mut parts = head.chunks(CAPACITY).peekable();
        let mut sent = 0;
        while let Some(part) = parts.next() {
            let mut buf = Buf::holding(part);
            let is_last = parts.peek().is_none();
            if is_last && pipe.is_none() {
                sent = buf.extend_some(body);
            }
            record.count_out(buf.len());
            // Before pages, the kernel holds the head back to send both together.
            let is_held = is_last && pipe.is_some();
            if !self.is_taken(record, patience, self.transport.write(&mut buf, is_held)).await {
                return false;
            }
        }
        if let Some(pipe) = pipe {
            // Boxed: most responses need no room for it.
            match Box::pin(self.write_pages(record, patience, pipe, body)).await {
                Some(n) => sent += n,
                None => return false,
            }
        }
        while sent < body.len() {
            let mut n = 0;
            let writing = async { self.transport.write_some(&body[sent..]).await.map(|taken| n = taken) };
            if !self.is_taken(record, patience, writing).await {
                return false;
            }
            record.count_out(n);
            sent += n;
        }
        self.is_taken(record, patience, poll_fn(|cx| self.transport.poll_flush(cx))).await
    }

    /// A pipe by which the socket refers to a body instead of copying it, if no other data shares its pages.
    fn pipe_for(&self, body: &[u8]) -> Option<Pipe> {
        let may_refer = body.len() >= PAGES_MIN && self.transport.as_plain().is_some();
        if may_refer && pages::are_own(body) { Pipe::take() } else { None }
    }

    /// Sends a body by reference, through a pipe. Returns the number of bytes sent, all but less than a page if the
    /// kernel has room. `None`, with the cause noted, if the client is gone or takes nothing for too long.
    async fn write_pages(&self, record: &Record<'_>, patience: Duration, mut pipe: Pipe, body: &[u8]) -> Option<usize> {
        let to = self.transport.as_plain()?;
        let mut sent = 0;
        while let Ok(1..) = pipe.fill_from(&body[sent..]) {
            loop {
                let mut n = 0;
                let moving = async { poll_fn(|cx| pipe.poll_drain(cx, to)).await.map(|moved| n = moved) };
                if !self.is_taken(record, patience, moving).await {
                    return None;
                }
                if n == 0 {
                    break;
                }
                record.count_out(n);
                sent += n;
            }
        }
        Some(sent)
    }

    /// Writes a head and a body that passes its filters meanwhile, in chunks unless its length is known. Returns false
    /// as [`H1::write_out`] does, and if the body does not pass.
    async fn write_parts(&self, record: &Record<'_>, head: &[u8], body: &mut OwnBody) -> bool {
        let patience = patience_for(record, body.length());
        let mut writer = Writer::new(if body.length().is_some() { Framing::Stated } else { Framing::Chunks });
        writer.push(head);
        record.count_out(head.len());
        loop {
            // A body of many megabytes is ready all the time: other tasks get their turn between its parts.
            budget::proceed().await;
            let now = poll_fn(|cx| Poll::Ready(body.poll_part(cx))).await;
            if !matches!(now, Poll::Ready(Ok(Pulled::Part(_)))) {
                // Bytes that are held back on this side would be late by the pause, or be lost.
                let flush = poll_fn(|cx| writer.poll_flush(&self.transport, cx));
                if !self.is_taken(record, patience, flush).await {
                    return false;
                }
            }
            let next = match now {
                Poll::Ready(part) => Some(part),
                Poll::Pending => next_part(self, body).await,
            };
            let part = match next {
                Some(Ok(Pulled::Part(part))) => part,
                Some(Ok(Pulled::Pause(ns))) => {
                    sleep(Duration::from_nanos(ns)).await;
                    continue;
                }
                Some(Err(unfit)) => {
                    record.note_reason(unfit.why);
                    return false;
                }
                None => {
                    record.blame(Cause::Client);
                    return false;
                }
            };
            let is_last = !matches!(part, Part::Data(_));
            if let Part::Data(buf) = &part {
                record.count_out(buf.len());
            }
            writer.send(part, false);
            let room = poll_fn(|cx| writer.poll_room(&self.transport, cx));
            if !self.is_taken(record, patience, room).await {
                return false;
            }
            if is_last {
                let flush = poll_fn(|cx| writer.poll_flush(&self.transport, cx));
                return self.is_taken(record, patience, flush).await;
            }
        }
    }

    /// Waits for the client to take bytes. Returns false, and notes the cause, if it does not.
    async fn is_taken(
        &self,
        record: &Record<'_>,
        patience: Duration,
        writing: impl Future<Output = io::Result<()>>,
    ) -> bool {
        self.timer.set(self.timer.tick_after(patience));
        let taken = self.timer.limit(pin!(writing)).await;
        match taken {
            Ok(Ok(())) => return true,
            Ok(Err(_)) => record.blame(Cause::Client),
            Err(Elapsed) => record.blame(Cause::ClientSlow),
        }
        false
    }
}
