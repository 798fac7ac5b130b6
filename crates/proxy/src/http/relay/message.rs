//! How does a request pass that comes in messages, to an endpoint that speaks HTTP/1? Data is framed for the endpoint, and what
//! comes back is taken out of its framing; heads and trailers are tables of fields. A part goes on only when there is room.

use super::response::{RESPONSE_LIMITS, call_outcome, outcome};
use super::{Answered, Relay};
use crate::http::down::message::Messages;
use crate::http::fault::Fault;
use crate::http::grpc::{self, Call};
use crate::http::outgoing::Outgoing;
use crate::http2::part::{Gone, Part};
use crate::observe::end::Phase;
use crate::peer::min_rate::MinRate;
use crate::upstream::pick::InFlight;
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{Clock, Slot};
use evenkeel_net::buffer::Buf;
use evenkeel_wire::grpc::Status;
use evenkeel_wire::head::{Fields, Table};
use evenkeel_wire::http1::chunked::{Keep, may_trail};
use evenkeel_wire::http1::{Body, INTERIM_MAX, Reject, Response};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

/// How a response ended.
enum Ended {
    /// With its last part.
    Answered(Answered),
    /// It switches protocols; what came behind its head is not sent yet.
    Switched(Buf),
}

/// A response's head, at the front of its buffer.
struct Head {
    status: u16,
    fields: Table,
    body: Body,
    reusable: bool,
    kept_secs: Option<u32>,
    /// Its length.
    len: usize,
}

impl Relay<'_, '_> {
    /// Sends what is left of the request and relays the response.
    ///
    /// # Errors
    /// What ended it early.
    pub async fn messages<D: Messages>(
        &self,
        down: &D,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<Answered, Fault> {
        self.allow(self.timeouts.response);
        self.upstream.send_at_once();
        let upload = pin!(self.take_parts(down, body, out, again));
        let mut exchange = pin!(async {
            let (mut answered, sent) = match self.both_ways(upload, pin!(self.send_parts(down, ticket))).await? {
                (Ended::Answered(answered), sent) => (answered, sent),
                // Boxed, as most requests need no room for this.
                (Ended::Switched(buf), _) => return Box::pin(self.tunnel_messages(down, buf)).await,
            };
            answered.reusable &= sent;
            Ok(answered)
        });
        let done = self.timer.limit(pin!(self.while_there(down, exchange.as_mut()))).await;
        done.unwrap_or_else(|_| Err(self.late()))
    }

    /// Relays the request.
    async fn take_parts<D: Messages>(
        &self,
        down: &D,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<(), Fault> {
        if !self.send_head(out).await {
            return Ok(());
        }
        out.let_go(again && body.is_done());
        let mut rate = self.pace();
        let in_chunks = *body == Body::UntilClose;
        while !body.is_done() {
            let part = self.next_part(down, body, &mut rate).await?;
            if self.write_part(part, in_chunks).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends a part to the endpoint.
    async fn write_part(&self, part: Part, in_chunks: bool) -> io::Result<()> {
        match part {
            Part::Data(mut buf) => {
                if in_chunks {
                    let size = format!("{:x}\r\n", buf.len());
                    if !buf.replace_front(0, size.as_bytes()) {
                        self.write_bytes(size.as_bytes()).await?;
                    }
                }
                self.upstream.write_all(&mut buf).await?;
                if in_chunks { self.write_bytes(b"\r\n").await } else { Ok(()) }
            }
            Part::Trailers(trailers) if in_chunks => {
                let mut last = b"0\r\n".to_vec();
                for (name, value) in trailers.iter().filter(|(name, _)| may_trail(name)) {
                    [name, b": ", value, b"\r\n"].into_iter().for_each(|bytes| last.extend_from_slice(bytes));
                }
                last.extend_from_slice(b"\r\n");
                self.write_bytes(&last).await
            }
            Part::End if in_chunks => self.write_bytes(b"0\r\n\r\n").await,
            // A body with a length has no trailers in HTTP/1.
            Part::Trailers(_) | Part::End => Ok(()),
        }
    }

    pub(super) async fn write_bytes(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.upstream.write_some(bytes).await?..];
        }
        Ok(())
    }

    /// Relays the response: interim ones, the final one, its body.
    async fn send_parts<D: Messages>(&self, down: &D, ticket: &mut InFlight<'_>) -> Result<Ended, Fault> {
        let mut buf = self.upstream.read_some().await.map_err(|_| Fault::no_response(self.upstream))?;
        if buf.is_empty() {
            return Err(Fault::NoResponse);
        }
        let mut interim = 0;
        loop {
            let head = loop {
                let is_short = match self.take_head(&mut buf, ticket.slot()) {
                    Ok(Some(head)) => break head,
                    Ok(None) => true,
                    Err(fault) => self.mend(&mut buf, fault)?,
                };
                if is_short && !matches!(self.upstream.read(&mut buf).await, Ok(1..)) {
                    return Err(Fault::CutShort);
                }
            };
            if head.status >= 200 {
                return self.send_final(down, ticket, buf, head).await.map(Ended::Answered);
            }
            if head.status == 101 {
                return self.switch(down, ticket, buf, head).await.map(Ended::Switched);
            }
            interim += 1;
            if interim > INTERIM_MAX {
                return Err(Fault::Response(Reject::InterimTooMany));
            }
            self.room(down).await?;
            down.send_head(head.status, head.fields, false);
            buf.consume(head.len);
        }
    }

    /// Reads a response's head, which stays at the front of `buf`; `None` while not all of it is there. `here`: the endpoint's
    /// slot.
    fn take_head(&self, buf: &mut Buf, here: Slot) -> Result<Option<Head>, Fault> {
        let mut room = self.client.core.room.borrow_mut();
        let read = Response::read(buf.filled(), &mut room, self.asked, &RESPONSE_LIMITS).map_err(Fault::Response)?;
        let Some(mut response) = read else { return Ok(None) };
        let (status, len, reusable) = (response.status, response.head_len(), response.keep_alive);
        let kept_secs = response.kept_secs;
        if status == 408 && !reusable && self.is_for_none() {
            return Err(Fault::Stray);
        }
        let mut body = std::mem::replace(&mut response.body, Body::EMPTY);
        self.tolerate_in(&mut body);
        if status == 101 {
            response.fields.leave_out("upgrade");
            response.fields.leave_out("sec-websocket-accept");
        }
        if status < 200 {
            return Ok(Some(Head { status, fields: response.translated(), body, reusable, kept_secs, len }));
        }
        let called = self.ended_call(&mut response.fields);
        let outcome = called.map_or_else(|| outcome(status, &response.fields), call_outcome);
        self.on_load(&mut response.fields, &mut body);
        if let Body::Chunked(chunked) = &mut body {
            chunked.hold_trailers();
        }
        let failed = match called {
            Some(status) => (status != Status::Ok).then(|| Failure::Grpc(status.code())),
            None => (status >= 400).then_some(Failure::Status(status)),
        };
        if failed.is_some_and(|failure| self.refuses(failure, here)) {
            let rest = buf.take_body(len, &mut body, Keep::Framed).map_err(Fault::Response)?;
            let whole = body.is_done() && len + rest.used == buf.len();
            return Err(Fault::Refused { status, grpc: called, outcome, reusable: reusable && whole, kept_secs });
        }
        self.record.note_response(&mut response.fields);
        self.record.status.set(status);
        let mut fields = response.translated();
        if let Some(added) = self.added(status, outcome) {
            fields.push_lines(&added);
            self.client.core.give_back(added);
        }
        Ok(Some(Head { status, fields, body, reusable, kept_secs, len }))
    }

    /// Sends the final response, whose head is at the front of `buf`.
    async fn send_final<D: Messages>(
        &self,
        down: &D,
        ticket: &mut InFlight<'_>,
        mut buf: Buf,
        head: Head,
    ) -> Result<Answered, Fault> {
        let Head { status, mut fields, mut body, mut reusable, kept_secs, len } = head;
        let called = self.ended_call(&mut fields.fields());
        let mut outcome = called.map_or_else(|| outcome(status, &fields.fields()), call_outcome);
        if let Some(status) = called {
            self.record.call.set(Call::Ended(status));
        }
        let now = self.client.core.clock.now();
        ticket.answered(now);
        self.record.ttfb_ns.set(Some(now.since(self.record.began)));
        self.record.phase.set(Phase::Data);
        buf.consume(len);
        self.room(down).await?;
        let ends = body.is_done();
        self.record.count_out(fields.size());
        down.send_head(status, fields, ends);
        loop {
            let taken = buf.take_body(0, &mut body, Keep::Content).map_err(Fault::Response)?;
            // Bytes behind the response belong to no request: the connection must not carry another one.
            reusable &= taken.kept == buf.len();
            buf.truncate(taken.kept);
            if !buf.is_empty() {
                self.room(down).await?;
                self.record.count_out(buf.len());
                down.send(Part::Data(buf));
            }
            if body.is_done() {
                break;
            }
            if down.is_held_back() {
                self.room(down).await?;
            }
            self.allow(Some(self.timeouts.idle));
            buf = self.upstream.read_some().await.map_err(|_| Fault::CutShort)?;
            if buf.is_empty() {
                if !body.may_end() {
                    return Err(Fault::CutShort);
                }
                break;
            }
        }
        if let Some(trailers) = self.trailers(&mut body, Keep::Framed) {
            let mut fields = Table::default();
            fields.push_lines(&trailers);
            self.client.core.give_back(trailers);
            if let Some(status) = self.ended_call(&mut fields.fields()) {
                self.record.call.set(Call::Ended(status));
                outcome = call_outcome(status);
            }
            if !fields.is_empty() {
                self.room(down).await?;
                down.send(Part::Trailers(fields));
            }
        }
        if !ends {
            down.send(Part::End);
        }
        Ok(Answered { reusable, kept_secs, keep_alive: true, outcome })
    }

    /// Sends the head of a switch of protocols, at the front of `buf`: for messages it is a success (RFC 8441 section 5).
    async fn switch<D: Messages>(
        &self,
        down: &D,
        ticket: &mut InFlight<'_>,
        mut buf: Buf,
        head: Head,
    ) -> Result<Buf, Fault> {
        let now = self.client.core.clock.now();
        ticket.answered(now);
        self.record.ttfb_ns.set(Some(now.since(self.record.began)));
        self.record.status.set(200);
        self.record.phase.set(Phase::Data);
        buf.consume(head.len);
        self.room(down).await?;
        down.send_head(200, head.fields, false);
        Ok(buf)
    }
}

impl<U> Relay<'_, '_, U> {
    /// How a gRPC call has ended by these fields, if the request is one.
    pub(super) fn ended_call(&self, fields: &mut Fields<'_, '_>) -> Option<Status> {
        if self.record.call.get() == Call::Not { None } else { grpc::status(fields.kept()) }
    }

    /// Waits until the client takes another part.
    pub(super) async fn room<D: Messages>(&self, down: &D) -> Result<(), Fault> {
        self.on_client(pin!(poll_fn(|cx| down.poll_room(cx)))).await.map_err(|Gone| Fault::ClientGone)
    }

    /// The client's patience: that of `timeouts.client_body`, or of a gRPC call that of `timeouts.idle` between its messages.
    pub(super) fn pace(&self) -> MinRate {
        let body = self.record.rules.plan.timeouts.client_body;
        match self.record.call.get() {
            Call::Not => MinRate::new(body),
            _ => MinRate::of_call(self.timeouts.idle.max(body)),
        }
    }

    /// The next part of the request, and how many bytes of it are data. `body`: what is still to come, which it is taken from.
    pub(super) async fn next_part<D: Messages>(
        &self,
        down: &D,
        body: &mut Body,
        rate: &mut MinRate,
    ) -> Result<Part, Fault> {
        self.expect(Phase::Request, Some(rate.left()));
        let clock = &self.client.core.clock;
        let since = clock.now();
        let part = self.on_body(pin!(poll_fn(|cx| down.poll_part(cx)))).await;
        let part = part.map_err(|Gone| Fault::ClientGone)?;
        let waited = Duration::from_nanos(clock.now().since(since));
        let len = if let Part::Data(buf) = &part { buf.len() } else { 0 };
        let ends = !matches!(part, Part::Data(_));
        if !ends && !rate.came(len, waited) && self.record.phase.get() != Phase::Data {
            return Err(Fault::ClientSlow);
        }
        self.record.count_in(len);
        if let Body::Length(left) = body {
            // More or less than it said: the endpoint would take it for another request, or wait for ever.
            *left = left.checked_sub(len as u64).ok_or(Fault::Request(Reject::LengthMalformed))?;
            if ends && *left > 0 {
                return Err(Fault::Request(Reject::LengthMalformed));
            }
        } else if ends {
            *body = Body::EMPTY;
        }
        self.expect(Phase::Head, self.timeouts.response);
        Ok(part)
    }
}
