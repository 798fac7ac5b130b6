//! Relay of a request in parts (heads, data and trailers) between any two protocols. A part is taken from its sender
//! only when the receiver has room for it, so that flow control holds the sender back.

use super::fill::{Fills, Relayed};
use super::{Answered, Relay};
use crate::body::chain::{BodyChain, Pulled};
use crate::body::downstream::{ClientParts, Downstream};
use crate::body::fault::Fault;
use crate::body::filter::Direction;
use crate::body::part::{Gone, Part};
use crate::body::upstream::{Head, Kept, Upstream};
use crate::forward::outgoing::{BodyRest, Outgoing, REPLAY_MAX};
use crate::forward::relay::decision::{Accepted, Decision, Known, call_outcome};
use crate::observe::end::Phase;
use crate::peer::min_rate::MinRate;
use crate::pipeline::response::{Filtered, tunnel_chain};
use crate::record::grpc::Call;
use crate::upstream::pick::InFlight;
use evenkeel_balance::Clock;
use evenkeel_net::event_loop::{budget, yield_now};
use evenkeel_wire::grpc::Status;
use evenkeel_wire::http1::{Body, INTERIM_MAX, Reject};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Bytes of a gRPC call's body that are kept for a retry until a response begins. Most unary calls are far smaller;
/// keeping larger calls costs more than a retry is worth.
const CALL_MAX: usize = 64 * 1024;

impl Relay<'_> {
    /// Sends the rest of the request and relays the response concurrently. The head was sent, or goes first.
    ///
    /// # Errors
    /// The fault that ended the exchange early.
    pub async fn parts<D: Downstream, U: Upstream>(
        &self,
        down: &D,
        up: &U,
        ticket: &mut InFlight<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<Relayed, Fault> {
        let left = match &out.rest.body {
            // A tunnel has no bytes before the endpoint accepts it.
            Body::UntilClose if self.opened.asked.upgrade => Body::EMPTY,
            Body::Length(left) => Body::Length(*left),
            Body::Chunked(chunked) if chunked.is_done() => Body::EMPTY,
            Body::Chunked(_) | Body::UntilClose => Body::UntilClose,
        };
        let body = std::mem::replace(&mut out.rest.body, left);
        self.body_due.set(!body.is_done());
        let side = down.parts(self.flow(), body, out.take_behind());
        self.allow(self.timeouts.response);
        let done = {
            let mut upload = pin!(self.upload(&side, up, out));
            let mut exchange = pin!(async {
                let download = pin!(self.download(&side, up, ticket));
                let (mut relayed, sent) = self.both_ways(upload.as_mut(), download).await?;
                if self.switched.get() && !sent {
                    self.half_close();
                    upload.await?;
                }
                // An endpoint that responded before it had all of the request would take the next request for the rest
                // of it.
                match &mut relayed {
                    Relayed::Answered(answered) => answered.reusable &= self.uploaded.get(),
                    Relayed::Fills(fills) => fills.is_sent = self.uploaded.get(),
                }
                Ok(relayed)
            });
            self.timer.limit(pin!(self.while_there(|cx| down.poll_gone(cx), exchange.as_mut()))).await
        };
        let done = done.unwrap_or_else(|_| Err(self.late()));
        if let Err(Fault::Broken) = done {
            // The fault is `Copy` and cannot hold the rule: the record does.
            self.record.broken.set(up.broken());
        }
        let keep_alive = out.take_rest(side);
        Ok(match (done?, keep_alive) {
            (Relayed::Answered(answered), Some(keep_alive)) => Relayed::Answered(Answered { keep_alive, ..answered }),
            (relayed, _) => relayed,
        })
    }

    /// Relays the request, and the client's half of a tunnel that follows it. A failed send is not a fault here: the
    /// endpoint may have answered already, which the other direction finds out.
    async fn upload<P: ClientParts, U: Upstream>(&self, down: &P, up: &U, out: &mut Outgoing<'_>) -> Result<(), Fault> {
        let Ok(is_whole) = self.send_kept(up, out).await else { return Ok(()) };
        let mut rate = self.min_rate();
        // On a stream, a request for a tunnel has no body.
        let mut ends = is_whole || self.opened.asked.upgrade && up.connection().is_none();
        // In HTTP/1 a length states the end.
        while !(ends || out.rest.is_here() && up.connection().is_some()) {
            let part = self.next_filtered(down, &mut out.rest, &mut rate).await?;
            let most = match (self.record.phase.get(), self.record.call.get()) {
                // Once a response has begun, there are no retries.
                (Phase::Data, _) => 0,
                (_, Call::Open) => CALL_MAX,
                _ => REPLAY_MAX,
            };
            if !out.keep(&part, most) {
                self.body_gone.set(true);
            }
            ends = !matches!(part, Part::Data(_));
            if give(up, part).await.is_err() {
                return Ok(());
            }
        }
        self.uploaded.set(true);
        if self.opened.asked.upgrade {
            poll_fn(|_| if self.record.phase.get() == Phase::Data { Poll::Ready(()) } else { Poll::Pending }).await;
        }
        if self.switched.get() {
            down.begin_tunnel();
            up.begin_tunnel();
            out.rest = BodyRest { body: Body::UntilClose, chain: tunnel_chain(self.record, Direction::Upload) };
            let mut is_open = true;
            while is_open {
                let part = self.next_filtered(down, &mut out.rest, &mut rate).await?;
                is_open = matches!(part, Part::Data(_));
                is_open &= give(up, part).await.is_ok();
            }
            self.half_close();
        }
        Ok(())
    }

    /// Sends the parts of the request that have arrived, except a head that was sent. Returns true if these are all of
    /// it.
    async fn send_kept<U: Upstream>(&self, up: &U, out: &mut Outgoing<'_>) -> Result<bool, Gone> {
        if let Some(transport) = up.connection() {
            self.send_head(transport, out).await?;
            out.let_go(self.tries.is_some() && out.rest.is_here());
            return Ok(false);
        }
        let message = out.message().ok_or(Gone)?;
        if !message.goes_at_once() {
            for part in message.parts() {
                give(up, part).await?;
            }
        }
        Ok(message.whole)
    }

    /// Relays the interim responses, the final response and its body.
    async fn download<P: ClientParts, U: Upstream>(
        &self,
        down: &P,
        up: &U,
        ticket: &mut InFlight<'_>,
    ) -> Result<Relayed, Fault> {
        let mut interim = 0;
        loop {
            let mut head = poll_fn(|cx| up.poll_head(cx)).await?;
            let switches = match up.connection() {
                Some(_) => head.status == 101,
                None => self.opened.asked.upgrade && (200..300).contains(&head.status),
            };
            self.check_accept(&head)?;
            let known = Known { status: head.status, closes: head.closes, switches, ends: head.ends };
            match self.decide(known, &mut head.fields.fields(), ticket.slot())? {
                Decision::Interim(added) => {
                    if let Some(added) = added {
                        head.fields.push_lines(&added);
                        self.client.core.give_back(added);
                    }
                    interim += 1;
                    if interim > INTERIM_MAX {
                        return Err(Fault::Response(Reject::InterimTooMany));
                    }
                    self.room(down).await?;
                    down.send_head(head.status, head.fields, false);
                    self.flush(down).await?;
                }
                Decision::Retry(refusal) => return Err(refusal.fault(up.kept())),
                Decision::Replace(outcome, filling) => {
                    self.begin_response(ticket);
                    if let Some(filling) = filling {
                        let fills = Fills { filling, outcome, status: head.status, is_sent: true, head: None };
                        return Ok(Relayed::Fills(fills.into()));
                    }
                    let Kept { reusable, secs } = up.kept();
                    return Ok(Relayed::Answered(Answered { reusable, kept_secs: secs, keep_alive: true, outcome }));
                }
                Decision::Final(mut accepted) => {
                    self.begin_response(ticket);
                    if let Some(filling) = accepted.filtered.filling.take() {
                        let (status, outcome) = (head.status, accepted.outcome);
                        let fills = Fills { filling, outcome, status, is_sent: true, head: Some((head, accepted)) };
                        return Ok(Relayed::Fills(fills.into()));
                    }
                    return self.take_final(down, up, head, accepted).await.map(Relayed::Answered);
                }
                Decision::Switch(accepted) => {
                    self.switched.set(true);
                    if let (Some(transport), Some(after)) = (up.connection(), self.keepalive()) {
                        transport.keep_alive(after);
                    }
                    self.begin_response(ticket);
                    return self.take_final(down, up, head, accepted).await.map(Relayed::Answered);
                }
            }
        }
    }

    /// Checks the response of an HTTP/1 endpoint to a request for a WebSocket of an HTTP/2 client. To such a client, any
    /// 2xx opens a tunnel.
    ///
    /// # Errors
    /// The endpoint did not switch, or has not read the key.
    fn check_accept(&self, head: &Head) -> Result<(), Fault> {
        match self.opened.accept {
            Some(accept) if head.status == 101 && !accept.is_in(&head.fields) => Err(Fault::NoWebSocket(101)),
            Some(_) if (200..300).contains(&head.status) => Err(Fault::NoWebSocket(head.status)),
            _ => Ok(()),
        }
    }

    /// Relays the final response.
    pub(super) async fn take_final<P: ClientParts, U: Upstream>(
        &self,
        down: &P,
        up: &U,
        head: Head,
        accepted: Accepted,
    ) -> Result<Answered, Fault> {
        let Head { status, mut fields, ends, .. } = head;
        let Filtered { added, body_chain, status: sent_as, .. } = accepted.filtered;
        if let Some(added) = added {
            fields.push_lines(&added);
            self.client.core.give_back(added);
        }
        self.room(down).await?;
        self.record.count_out(fields.size());
        let sent = down.send_head(sent_as.unwrap_or(status), fields, ends);
        self.record.status.set(if sent_as.is_some() { status } else { sent });
        if self.opened.asked.upgrade {
            // Lets the upload see that the response has begun.
            yield_now().await;
        }
        let ended = if ends { Ok(None) } else { self.take_body(down, up, body_chain).await };
        // Of a truncated response, the client gets the bytes that arrived.
        if ended.is_err() {
            self.allow(Some(self.timeouts.idle));
            self.room(down).await?;
        }
        self.flush(down).await?;
        let outcome = ended?.map_or(accepted.outcome, call_outcome);
        let Kept { reusable, secs } = up.kept();
        Ok(Answered { reusable, kept_secs: secs, keep_alive: true, outcome })
    }

    /// Relays the body of the final response. Returns the gRPC status in the trailers, if any.
    async fn take_body<P: ClientParts, U: Upstream>(
        &self,
        down: &P,
        up: &U,
        mut chain: Option<Box<BodyChain>>,
    ) -> Result<Option<Status>, Fault> {
        loop {
            if down.is_held_back() && !up.is_done() {
                // The endpoint's window stays closed until the client has taken the sent bytes.
                self.room(down).await?;
            }
            let part = match poll_fn(|cx| Poll::Ready(up.poll_part(cx))).await {
                Poll::Ready(part) => part,
                Poll::Pending if chain.is_some() && budget::is_spent() => {
                    // Only the turn has ended: there may be more to read.
                    budget::proceed().await;
                    continue;
                }
                Poll::Pending => {
                    if let Some(chain) = &mut chain {
                        while let Some(pulled) = chain.pull_held()? {
                            self.proceed(down, pulled).await?;
                        }
                    }
                    // No more data to coalesce with the data that waits.
                    self.flush(down).await?;
                    self.allow_silence();
                    poll_fn(|cx| up.poll_part(cx)).await
                }
            };
            let mut part = part?;
            let mut ended = None;
            if let Part::Trailers(trailers) = &mut part {
                ended = self.ended_call(&trailers.fields());
                ended.iter().for_each(|status| self.record.call.set(Call::Ended(*status)));
                self.on_trailers(&mut trailers.fields());
            }
            let is_last = !matches!(part, Part::Data(_));
            match &mut chain {
                None => self.deliver(down, part).await?,
                Some(chain) => {
                    if !is_last {
                        // Filters take no memory for a client that takes nothing. The end needs no room of the client's.
                        self.on_client(pin!(poll_fn(|cx| down.poll_open(cx)))).await?;
                    }
                    chain.push(part);
                    while let Some(pulled) = chain.pull()? {
                        self.proceed(down, pulled).await?;
                    }
                }
            }
            if is_last {
                return Ok(ended);
            }
        }
    }

    /// Sends a part of the response that has passed the filters to the client, or pauses for a filter.
    async fn proceed<P: ClientParts>(&self, down: &P, pulled: Pulled) -> Result<(), Fault> {
        match pulled {
            Pulled::Part(part) => self.deliver(down, part).await,
            Pulled::Pause(ns) => {
                let (clock, ends) = (&self.client.core.clock, self.client.core.clock.now().0.saturating_add(ns));
                // Bytes that are held back on this side would be late by the pause.
                self.flush(down).await?;
                self.pause(ends.saturating_sub(clock.now().0)).await;
                Ok(())
            }
        }
    }

    /// Sends a part of the response to the client, once there is room for it.
    async fn deliver<P: ClientParts>(&self, down: &P, part: Part) -> Result<(), Fault> {
        match part {
            Part::Data(buf) => {
                self.room(down).await?;
                self.record.count_out(buf.len());
                down.send(Part::Data(buf));
            }
            // Trailers need no room, and leave with the data before them.
            Part::Trailers(trailers) => {
                down.send(Part::Trailers(trailers));
                down.send(Part::End);
            }
            Part::End => down.send(Part::End),
        }
        Ok(())
    }

    /// Waits until the client has room for another part.
    async fn room<P: ClientParts>(&self, down: &P) -> Result<(), Fault> {
        self.on_client(pin!(poll_fn(|cx| down.poll_room(cx)))).await
    }

    /// Waits until nothing sent to the client is held back on this side.
    async fn flush<P: ClientParts>(&self, down: &P) -> Result<(), Fault> {
        self.on_client(pin!(poll_fn(|cx| down.poll_flush(cx)))).await
    }

    /// Minimum rate of the request body: by `timeouts.client_body`; for gRPC calls, by the longer of that and
    /// `timeouts.idle`, as messages may be far apart.
    fn min_rate(&self) -> MinRate {
        let body = self.record.rules.plan.timeouts.client_body;
        match self.record.call.get() {
            Call::Not => MinRate::new(body),
            _ => MinRate::of_call(self.timeouts.idle.max(body)),
        }
    }

    /// Returns the next part of the request for the endpoint, after the body filters.
    async fn next_filtered<P: ClientParts>(
        &self,
        down: &P,
        rest: &mut BodyRest,
        rate: &mut MinRate,
    ) -> Result<Part, Fault> {
        loop {
            if let Some(chain) = &mut rest.chain
                && let Some(pulled) = chain.pull()?
            {
                match pulled {
                    Pulled::Part(part) => return Ok(part),
                    Pulled::Pause(ns) => {
                        self.pause(ns).await;
                        self.expect(Phase::Head, self.timeouts.response);
                        continue;
                    }
                }
            }
            let part = self.opened.trailers.pass(self.next_part(down, &mut rest.body, rate).await?);
            self.body_due.set(!rest.body.is_done());
            match &mut rest.chain {
                None => return Ok(part),
                Some(chain) => chain.push(part),
            }
        }
    }

    /// Returns the next part of the request from the client, and subtracts it from `left`, the rest of the body.
    async fn next_part<P: ClientParts>(&self, down: &P, left: &mut Body, rate: &mut MinRate) -> Result<Part, Fault> {
        self.expect(Phase::Request, Some(rate.left()));
        let clock = &self.client.core.clock;
        let since = clock.now();
        let part = self.on_body(pin!(poll_fn(|cx| down.poll_part(cx)))).await?;
        let waited = Duration::from_nanos(clock.now().since(since));
        let len = if let Part::Data(buf) = &part { buf.len() } else { 0 };
        let ends = !matches!(part, Part::Data(_));
        if !ends && !rate.came(len, waited) && self.record.phase.get() != Phase::Data {
            return Err(Fault::ClientSlow);
        }
        self.record.count_in(len);
        if let Body::Length(left) = left {
            // With more than the stated length, the endpoint would take the excess for another request; with less, it
            // would wait forever.
            *left = left.checked_sub(len as u64).ok_or(Fault::Request(Reject::LengthMalformed))?;
            if ends && *left > 0 {
                return Err(Fault::Request(Reject::LengthMalformed));
            }
        } else if ends {
            *left = Body::EMPTY;
        }
        self.expect(Phase::Head, self.timeouts.response);
        Ok(part)
    }
}

/// Sends a part to the endpoint, once there is room for it.
async fn give<U: Upstream>(up: &U, part: Part) -> Result<(), Gone> {
    if let Part::Data(_) = part {
        poll_fn(|cx| up.poll_room(cx)).await?;
    }
    up.send(part);
    poll_fn(|cx| up.poll_flush(cx)).await
}
