//! Relay between HTTP/1 and HTTP/1: heads are rewritten, all other bytes pass unchanged. Large bodies of known length
//! are spliced.

use super::{Answered, Relay};
use crate::body::fault::Fault;
use crate::body::upstream::Kept;
use crate::forward::outgoing::Outgoing;
use crate::forward::relay::decision::{Decision, Known};
use crate::observe::end::Phase;
use crate::peer::min_rate::MinRate;
use crate::tcp::duplex::Duplex;
use crate::upstream::pick::InFlight;
use evenkeel_balance::{Clock, Outcome, Slot};
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Elapsed;
use evenkeel_net::splice::{self, Pipe, SPLICE_MIN, Side};
use evenkeel_net::transport::Transport;
use evenkeel_wire::http1::chunked::{Keep, Taken};
use evenkeel_wire::http1::response::Towards;
use evenkeel_wire::http1::translate::phrase;
use evenkeel_wire::http1::{Body, INTERIM_MAX, Reject, Response, Version};
use std::pin::pin;
use std::time::Duration;

/// Wait for a response after which the client's connection is watched for a close. Watching costs a registration at the
/// event loop, and most requests are answered before that.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A response head, rewritten and ready to be sent.
struct Ready {
    body: Body,
    answered: Answered,
    interim: bool,
    switch: bool,
    /// True if the client gets a response of this proxy instead.
    is_replaced: bool,
    /// `Content` for HTTP/1.0 clients, which cannot read chunks.
    keep: Keep,
    /// Bytes at the front of the buffer that go to the client.
    send: usize,
}

enum ResponseEnd<'s> {
    /// The response ended with its last byte.
    Answered(Answered),
    /// The response switches protocols. Its head and the bytes behind it are not sent yet.
    Switched(Box<Duplex<'s>>),
}

impl Relay<'_> {
    /// Sends the rest of the request and relays the response.
    ///
    /// # Errors
    /// The fault that ended the exchange early.
    pub async fn bytes(
        &self,
        down: &Transport,
        up: &Transport,
        ticket: &mut InFlight<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<Answered, Fault> {
        let timer = self.timer;
        let done = if out.unsent().is_empty() && out.rest.body.is_done() {
            out.let_go(self.tries.is_some());
            let (due, look) = (self.due(self.timeouts.response), timer.tick_after(LOOK_AFTER));
            let looks = look < due;
            timer.set(due.min(look));
            let mut download = pin!(self.download_bytes(down, up, ticket));
            match timer.limit(download.as_mut()).await {
                Err(Elapsed) if looks && self.record.phase.get() == Phase::Head => {
                    timer.set(due);
                    timer.limit(pin!(self.while_there(|cx| down.poll_reset(cx), download))).await
                }
                done => done,
            }
        } else {
            self.body_due.set(!out.rest.body.is_done());
            self.allow(self.timeouts.response);
            // Boxed: most requests have arrived completely and need no room for it.
            let mut exchange = Box::pin(self.exchange_bytes(down, up, ticket, out));
            timer.limit(pin!(self.while_there(|cx| down.poll_reset(cx), exchange.as_mut()))).await
        };
        match done.unwrap_or_else(|Elapsed| Err(self.late()))? {
            ResponseEnd::Answered(answered) => Ok(answered),
            ResponseEnd::Switched(duplex) => Box::pin(self.tunnel(down, up, duplex, out.finish())).await,
        }
    }

    /// Relays the request and the response concurrently.
    async fn exchange_bytes<'s>(
        &'s self,
        down: &'s Transport,
        up: &'s Transport,
        ticket: &mut InFlight<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<ResponseEnd<'s>, Fault> {
        up.send_at_once();
        let mut upload = pin!(self.upload_bytes(down, up, out));
        let (mut ended, sent) = self.both_ways(upload.as_mut(), pin!(self.download_bytes(down, up, ticket))).await?;
        match &mut ended {
            _ if sent => {}
            // The endpoint responded before it had all of the request. On this connection it would take the next
            // request for the rest of this request.
            ResponseEnd::Answered(answered) => answered.reusable = false,
            ResponseEnd::Switched(duplex) => self.finish_request(upload, duplex).await?,
        }
        Ok(ended)
    }

    /// Relays the request. A failed write is not a fault here: the endpoint may have answered already, which the other
    /// direction finds out.
    async fn upload_bytes(&self, down: &Transport, up: &Transport, out: &mut Outgoing<'_>) -> Result<(), Fault> {
        if self.send_head(up, out).await.is_err() {
            return Ok(());
        }
        out.let_go(self.tries.is_some() && out.rest.body.is_done());
        let mut pace = MinRate::new(self.record.rules.plan.timeouts.client_body);
        while !out.rest.body.is_done() {
            self.expect(Phase::Request, Some(pace.left()));
            let since = self.client.core.clock.now();
            let mut buf = self.on_body(pin!(down.read_some())).await.map_err(|_| Fault::ClientGone)?;
            let waited = Duration::from_nanos(self.client.core.clock.now().since(since));
            if !pace.came(buf.len(), waited) && self.record.phase.get() != Phase::Data {
                return Err(Fault::ClientSlow);
            }
            if buf.is_empty() {
                return Err(Fault::ClientGone);
            }
            let Taken { used, kept, .. } =
                buf.take_body(0, &mut out.rest.body, Keep::Framed).map_err(Fault::Request)?;
            self.body_due.set(!out.rest.body.is_done());
            self.record.count_in(used);
            if kept < buf.len() {
                out.put_behind(buf.split_behind(kept));
            }
            self.expect(Phase::Head, self.timeouts.response);
            if up.write_all(&mut buf).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Relays the interim responses, the final response and its body.
    async fn download_bytes<'s>(
        &'s self,
        down: &'s Transport,
        up: &'s Transport,
        ticket: &mut InFlight<'_>,
    ) -> Result<ResponseEnd<'s>, Fault> {
        let mut interim = 0;
        let mut buf = up.read_some().await.map_err(|_| Fault::no_response(up))?;
        if buf.is_empty() {
            return Err(Fault::NoResponse);
        }
        loop {
            let mut ready = loop {
                let is_short = match self.respond(&mut buf, ticket.slot()) {
                    Ok(Some(ready)) => break ready,
                    Ok(None) => true,
                    Err(Fault::Response(reject)) => self.leniency().mend(&mut buf, reject)?,
                    Err(fault) => return Err(fault),
                };
                self.leniency().make_room(&mut buf);
                if is_short && !matches!(up.read(&mut buf).await, Ok(1..)) {
                    return Err(Fault::CutShort);
                }
            };
            if !ready.interim {
                self.begin_response(ticket);
                if ready.is_replaced {
                    return Ok(ResponseEnd::Answered(ready.answered));
                }
                return self.relay_final(down, up, buf, &mut ready).await;
            }
            interim += 1;
            if interim > INTERIM_MAX {
                return Err(Fault::Response(Reject::InterimTooMany));
            }
            let behind = buf.split_behind(ready.send);
            self.record.count_out(buf.len());
            self.on_client(pin!(down.write_all(&mut buf))).await.map_err(|_| Fault::ClientGone)?;
            buf = behind;
        }
    }

    /// Sends the final response.
    async fn relay_final<'s>(
        &'s self,
        down: &'s Transport,
        up: &'s Transport,
        mut buf: Buf,
        ready: &mut Ready,
    ) -> Result<ResponseEnd<'s>, Fault> {
        let &mut Ready { ref mut body, ref mut answered, switch, keep, send, .. } = ready;
        if switch {
            return Ok(ResponseEnd::Switched(self.switched(down, up, buf)));
        }
        // Bytes behind the response answer no request: the connection must not be reused.
        answered.reusable &= send == buf.len();
        buf.truncate(send);
        // Where the close of the connection marks the end of the body, a truncated body must end in a reset instead.
        let by_close = (keep == Keep::Content || *body == Body::UntilClose) && !body.is_done();
        if by_close {
            down.reset_on_close(true);
        }
        loop {
            if let Some(trailers) = self.trailers(body, keep) {
                // Most buffers have room: the trailers were taken out of this buffer, or are all that it holds.
                buf.grow(buf.len() + trailers.len());
                let _has_room = buf.extend(&trailers);
                self.client.core.give_back(trailers);
            }
            self.record.count_out(buf.len());
            let last = body.is_done() && !answered.keep_alive;
            self.on_client(pin!(down.write(&mut buf, last))).await.map_err(|_| Fault::ClientGone)?;
            drop(buf);
            if body.is_done() {
                break;
            }
            self.allow(Some(self.timeouts.idle));
            if let Body::Length(left) = body
                && *left >= SPLICE_MIN
                && let (Some(from), Some(to)) = (up.as_plain(), down.as_plain())
                && let Some(pipe) = Pipe::take()
            {
                let spliced = splice::relay(pipe, from, to, left, &self.client_due, |n| {
                    self.record.count_out(n);
                    self.allow(Some(self.timeouts.idle));
                });
                // Boxed: most responses need no room for it.
                Box::pin(spliced).await.map_err(|side| match side {
                    Side::From => Fault::CutShort,
                    Side::To => Fault::ClientGone,
                })?;
                break;
            }
            buf = up.read_some().await.map_err(|_| Fault::CutShort)?;
            if buf.is_empty() && body.may_end() {
                break;
            }
            if buf.is_empty() {
                return Err(Fault::CutShort);
            }
            let Taken { kept, .. } = buf.take_body(0, body, keep).map_err(Fault::Response)?;
            answered.reusable &= kept == buf.len();
            buf.truncate(kept);
        }
        if by_close {
            down.reset_on_close(false);
        }
        Ok(ResponseEnd::Answered(*answered))
    }

    /// Reads a response head and replaces it with the head for the client; `None` while it is incomplete. `here` is the
    /// endpoint's slot.
    /// endpoint's slot.
    fn respond(&self, buf: &mut Buf, here: Slot) -> Result<Option<Ready>, Fault> {
        let core = self.client.core;
        let mut room = core.room.borrow_mut();
        let leniency = self.leniency();
        let mut read = Response::read(buf.filled(), &mut room, self.opened.asked, &leniency.limits);
        // Changed in place, as it is large.
        let response = match &mut read {
            Ok(Some(response)) => response,
            Ok(None) => return Ok(None),
            Err(reject) => return Err(Fault::Response(*reject)),
        };
        let head_len = response.head_len();
        let mut body = std::mem::replace(&mut response.body, Body::EMPTY);
        leniency.apply(&mut body);
        let until_close = matches!(body, Body::UntilClose);
        let strip = self.opened.towards.version == Version::V10 && matches!(body, Body::Chunked(_));
        let keep = if strip { Keep::Content } else { Keep::Framed };
        let early = self.body_due.get()
            && (self.awaits_continue.get() || is_refusal(response.status, &body, &buf.filled()[head_len..]));
        let keep_alive = self.opened.towards.keep_alive && !until_close && !strip && !early && !self.client.is_ending();
        let towards = Towards { keep_alive, ..self.opened.towards };
        let (interim, switch) = (response.is_interim(), response.status == 101);
        let (status, reusable, kept_secs) = (response.status, response.keep_alive, response.kept_secs);
        let known = Known { status, closes: !reusable, switches: switch, ends: body.is_done() };
        let (outcome, added, sent_as) = match self.decide(known, &mut response.fields, here)? {
            Decision::Interim(added) => (Outcome::Success, added, None),
            Decision::Final(accepted) | Decision::Switch(accepted) => {
                if let (true, Body::Chunked(chunked)) = (accepted.hears_trailers, &mut body) {
                    chunked.hold_trailers();
                }
                (accepted.outcome, accepted.filtered.added, accepted.filtered.status)
            }
            Decision::Retry(refusal) => {
                let rest = buf.take_body(head_len, &mut body, Keep::Framed).map_err(Fault::Response)?;
                let whole = body.is_done() && head_len + rest.used == buf.len();
                return Err(refusal.fault(Kept { reusable: reusable && !strip && whole, secs: kept_secs }));
            }
            Decision::Replace(outcome, _) => {
                let rest = buf.take_body(head_len, &mut body, Keep::Framed).map_err(Fault::Response)?;
                let whole = body.is_done() && head_len + rest.used == buf.len();
                let answered = Answered { reusable: reusable && !strip && whole, kept_secs, keep_alive, outcome };
                return Ok(Some(Ready { body, answered, interim, switch, is_replaced: true, keep, send: 0 }));
            }
        };
        let answered = Answered { reusable: reusable && !strip, kept_secs, keep_alive, outcome };
        let mut new_len = head_len;
        if interim && self.opened.towards.version == Version::V10 {
            buf.consume(head_len);
            return Ok(Some(Ready { body, answered, interim, switch, is_replaced: false, keep, send: 0 }));
        }
        if let Some(stretch) = response.all_but(towards).filter(|_| added.is_none() && sent_as.is_none()) {
            new_len -= stretch.len();
            buf.cut(stretch);
        } else {
            let mut head = core.scratch();
            let lines = added.as_deref().unwrap_or_default();
            match sent_as {
                None => response.write(towards, lines, &mut head),
                Some(status) => response.write_as((status, phrase(status)), towards, lines, &mut head),
            }
            new_len = head.len();
            if !buf.replace_front(head_len, &head) {
                *buf = Buf::holding(&[&head, &buf.filled()[head_len..]].concat());
            }
            core.give_back(head);
            added.into_iter().for_each(|added| core.give_back(added));
        }
        let mut send = new_len;
        if !interim && !switch {
            send += buf.take_body(new_len, &mut body, keep).map_err(Fault::Response)?.kept;
        }
        Ok(Some(Ready { body, answered, interim, switch, is_replaced: false, keep, send }))
    }
}

/// True if a response that arrives before the whole request was sent means that the rest of it will not be read. Then
/// the client's connection closes after the response, which announces that (RFC 9112 section 9.6). A successful
/// response that is still incomplete may run in parallel with the request, and the connection is kept. `came` holds the
/// bytes of its body so far.
#[cold]
fn is_refusal(status: u16, body: &Body, came: &[u8]) -> bool {
    let is_whole = match body {
        Body::Length(left) => came.len() as u64 >= *left,
        Body::Chunked(_) => came.ends_with(b"0\r\n\r\n"),
        Body::UntilClose => true,
    };
    status >= 300 || (status >= 200 && is_whole)
}
