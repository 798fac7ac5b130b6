//! How does a request pass to an endpoint that has a stream for it, whatever its client speaks? Its head has left when this
//! begins. Data goes on in parts, each when there is room for it: what is not taken keeps its sender from sending more.

use super::{Answered, Relay};
use crate::body::part::{Gone, Part};
use crate::forward::fault::Fault;
use crate::forward::outgoing::{Outgoing, REPLAY_MAX};
use crate::forward::relay::response::{call_outcome, outcome};
use crate::http2::session::Lost;
use crate::observe::end::Phase;
use crate::pipeline::response::filter;
use crate::record::grpc::Call;
use crate::serve::message::Messages;
use crate::upstream::pick::InFlight;
use crate::upstream::stream::EndpointStream;
use evenkeel_balance::Clock;
use evenkeel_balance::retry::Failure;
use evenkeel_net::event_loop::yield_now;
use evenkeel_wire::grpc::Status;
use evenkeel_wire::h2::{ErrorCode, Head};
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::{Body, INTERIM_MAX, Reject};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Bytes of a call's body that are kept until a response begins. Most unary calls are smaller by far, and what is larger costs
/// more to keep than another try brings.
const CALL_MAX: usize = 64 * 1024;

impl Relay<'_, '_, EndpointStream> {
    /// Sends what follows the request's head and relays the response.
    ///
    /// # Errors
    /// What ended it early.
    pub async fn parts<D: Messages>(
        &self,
        down: &D,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
    ) -> Result<Answered, Fault> {
        self.allow(self.timeouts.response);
        let upload = pin!(self.give_parts(down, body, out));
        let mut exchange = pin!(async {
            let (answered, _) = self.both_ways(upload, pin!(self.take_response(down, ticket))).await?;
            Ok(answered)
        });
        let done = self.timer.limit(pin!(self.while_there(down, exchange.as_mut()))).await;
        done.unwrap_or_else(|_| Err(self.late()))
    }

    /// Relays the request. An endpoint that takes no more of it may have answered already: that is for the other direction to
    /// find, so it is no fault here.
    async fn give_parts<D: Messages>(&self, down: &D, body: &mut Body, out: &mut Outgoing<'_>) -> Result<(), Fault> {
        let Some(message) = out.message() else { return Ok(()) };
        if message.is_head_only() || message.goes_at_once() {
            return Ok(());
        }
        let whole = message.whole;
        for part in message.parts() {
            if self.give(part).await.is_err() {
                return Ok(());
            }
        }
        if whole {
            return Ok(());
        }
        if self.asked.upgrade {
            // Nothing of a tunnel is there before the endpoint takes it.
            poll_fn(|_| if self.record.phase.get() == Phase::Data { Poll::Ready(()) } else { Poll::Pending }).await;
        }
        let mut rate = self.pace();
        loop {
            let part = self.next_part(down, body, &mut rate).await?;
            self.body_due.set(!body.is_done());
            let most = match (self.record.phase.get(), self.record.call.get()) {
                // Once a response has begun, there is no other try.
                (Phase::Data, _) => 0,
                (_, Call::Open) => CALL_MAX,
                _ => REPLAY_MAX,
            };
            if !out.keep(&part, most) {
                self.body_gone.set(true);
            }
            let ends = !matches!(part, Part::Data(_));
            if self.give(part).await.is_err() || ends {
                if self.asked.upgrade {
                    self.half_close();
                }
                return Ok(());
            }
        }
    }

    /// Sends a part to the endpoint, when there is room for it.
    async fn give(&self, part: Part) -> Result<(), Gone> {
        if let Part::Data(_) = part {
            poll_fn(|cx| self.upstream.poll_room(cx)).await?;
        }
        self.upstream.send(part);
        Ok(())
    }

    /// Relays the response: interim ones, the final one, its body.
    async fn take_response<D: Messages>(&self, down: &D, ticket: &mut InFlight<'_>) -> Result<Answered, Fault> {
        for _ in 0..=INTERIM_MAX {
            let head = poll_fn(|cx| self.upstream.poll_head(cx)).await.map_err(|Gone| self.lost())?;
            let status = head.status;
            if status == 101 {
                return Err(Fault::Response(Reject::SwitchNotAsked));
            }
            if status >= 200 {
                return self.take_final(down, ticket, head).await;
            }
            self.room(down).await?;
            down.send_head(status, head.fields, false);
            self.flush(down).await?;
        }
        Err(Fault::Response(Reject::InterimTooMany))
    }

    /// Relays the final response.
    async fn take_final<D: Messages>(
        &self,
        down: &D,
        ticket: &mut InFlight<'_>,
        head: Head,
    ) -> Result<Answered, Fault> {
        let Head { status, mut fields, ends, .. } = head;
        let called = self.ended_call(&mut fields.fields());
        let outcome = called.map_or_else(|| outcome(status, &fields.fields()), call_outcome);
        self.on_load(&mut fields.fields(), &mut Body::EMPTY.clone());
        let failed = match called {
            Some(status) => (status != Status::Ok).then(|| Failure::Grpc(status.code())),
            None => (status >= 400).then_some(Failure::Status(status)),
        };
        if failed.is_some_and(|failure| self.refuses(failure, ticket.slot())) {
            return Err(Fault::Refused { status, grpc: called, outcome, reusable: false, kept_secs: None });
        }
        if let Some(status) = called {
            self.record.call.set(Call::Ended(status));
        }
        self.record.note_response(&mut fields.fields());
        self.record.status.set(status);
        if let Some(added) = filter(self.record, status, &mut fields.fields(), Some(outcome)) {
            fields.push_lines(&added);
            self.client.core.give_back(added);
        }
        let left = if self.asked.head || matches!(status, 204 | 304) { Some(0) } else { length(&mut fields)? };
        if ends && left.is_some_and(|left| left > 0) {
            return Err(Fault::Response(Reject::LengthMalformed));
        }
        let now = self.client.core.clock.now();
        ticket.answered(now);
        self.record.ttfb_ns.set(Some(now.since(self.record.began)));
        self.record.phase.set(Phase::Data);
        self.room(down).await?;
        self.record.count_out(fields.size());
        down.send_head(status, fields, ends);
        if self.asked.upgrade {
            // The other direction begins now.
            yield_now().await;
        }
        let ended = if ends { Ok(None) } else { self.take_body(down, left).await };
        // The client gets as much as came of a response that is cut.
        if ended.is_err() {
            self.allow(Some(self.timeouts.idle));
            self.room(down).await?;
        }
        self.flush(down).await?;
        let ended = ended?;
        let outcome = ended.map_or(outcome, call_outcome);
        Ok(Answered { reusable: false, kept_secs: None, keep_alive: true, outcome })
    }

    /// Relays the body of the final response: how a call ended by what is behind it. `left`: its length, if that is known.
    async fn take_body<D: Messages>(&self, down: &D, mut left: Option<u64>) -> Result<Option<Status>, Fault> {
        loop {
            if down.is_held_back() {
                // The endpoint gets no room for more before the client takes what it has sent.
                self.room(down).await?;
            }
            let part = match poll_fn(|cx| Poll::Ready(self.upstream.poll_part(cx))).await {
                Poll::Ready(part) => part,
                Poll::Pending => {
                    // Nothing is there to go along with what waits.
                    self.flush(down).await?;
                    self.allow_silence();
                    poll_fn(|cx| self.upstream.poll_part(cx)).await
                }
            };
            match part.map_err(|Gone| self.cut_short())? {
                Part::Data(buf) => {
                    if let Some(left) = &mut left {
                        // More than it said: a client that goes by the length would take it for another response.
                        let less = left.checked_sub(buf.len() as u64);
                        *left = less.ok_or(Fault::Response(Reject::LengthMalformed))?;
                    }
                    self.room(down).await?;
                    self.record.count_out(buf.len());
                    down.send(Part::Data(buf));
                }
                end => {
                    if left.is_some_and(|left| left > 0) {
                        return Err(Fault::CutShort);
                    }
                    let mut ended = None;
                    if let Part::Trailers(mut trailers) = end {
                        ended = self.ended_call(&mut trailers.fields());
                        ended.iter().for_each(|status| self.record.call.set(Call::Ended(*status)));
                        self.on_trailers(&mut trailers.fields());
                        self.room(down).await?;
                        down.send(Part::Trailers(trailers));
                    }
                    down.send(Part::End);
                    return Ok(ended);
                }
            }
        }
    }

    /// Waits until the client has what was sent to it, as far as this is held back here.
    async fn flush<D: Messages>(&self, down: &D) -> Result<(), Fault> {
        self.on_client(pin!(poll_fn(|cx| down.poll_flush(cx)))).await.map_err(|Gone| Fault::ClientGone)
    }

    /// Returns the fault of a response that has begun and does not continue.
    #[cold]
    fn cut_short(&self) -> Fault {
        match self.upstream.lost() {
            Some(Lost::Reset(code)) => Fault::StreamReset(code),
            Some(Lost::Broken) => self.broken(),
            Some(Lost::Unseen | Lost::Ended) | None => Fault::CutShort,
        }
    }

    /// The fault of an endpoint that broke a rule of HTTP/2 on the stream. Its record keeps the rule.
    #[cold]
    fn broken(&self) -> Fault {
        self.record.broken.set(self.upstream.broken());
        Fault::Broken
    }

    /// Why no response comes.
    #[cold]
    fn lost(&self) -> Fault {
        match self.upstream.lost() {
            Some(Lost::Unseen) => Fault::Unseen,
            Some(Lost::Reset(code)) if code == ErrorCode::RefusedStream as u32 => {
                Fault::Declined { is_running: self.upstream.is_running() }
            }
            Some(Lost::Reset(code)) => Fault::StreamReset(code),
            Some(Lost::Broken) => self.broken(),
            Some(Lost::Ended) | None if self.upstream.spoke_other() => Fault::NotHttp2,
            Some(Lost::Ended) | None => Fault::NoResponse,
        }
    }
}

/// The length that the fields state, if they do.
fn length(fields: &mut Table) -> Result<Option<u64>, Fault> {
    let Some(value) = fields.fields().first("content-length") else { return Ok(None) };
    let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    length.map(Some).ok_or(Fault::Response(Reject::LengthMalformed))
}
