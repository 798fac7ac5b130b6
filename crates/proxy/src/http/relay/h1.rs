//! How do bytes pass from HTTP/1 to HTTP/1? As they came, but for the heads; what is left of a large body by splice.

use super::response::Ready;
use super::{Answered, Relay};
use crate::http::down::h1::H1;
use crate::http::fault::Fault;
use crate::http::outgoing::Outgoing;
use crate::observe::end::Phase;
use crate::peer::min_rate::MinRate;
use crate::tcp::duplex::Duplex;
use crate::upstream::pick::InFlight;
use evenkeel_balance::Clock;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Elapsed;
use evenkeel_net::splice::{self, Pipe, SPLICE_MIN, Side};
use evenkeel_wire::http1::chunked::{Keep, Taken};
use evenkeel_wire::http1::{Body, INTERIM_MAX, Reject};
use std::pin::pin;
use std::time::Duration;

/// How long an endpoint may think before we look whether its client is still there. Looking costs the event loop a
/// registration; most requests are long answered.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How a response ended.
enum ResponseEnd<'s> {
    /// With its last byte.
    Answered(Answered),
    /// It switches protocols; its head, and what came behind it, is not sent yet.
    Switched(Box<Duplex<'s>>),
}

impl Relay<'_, '_> {
    /// Sends what is left of the request and relays the response.
    ///
    /// # Errors
    /// What ended it early.
    pub async fn bytes(
        &self,
        down: &H1,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<Answered, Fault> {
        let timer = self.timer;
        let done = if out.unsent().is_empty() && body.is_done() {
            out.let_go(again);
            let (due, look) = (self.due(self.timeouts.response), timer.tick_after(LOOK_AFTER));
            let looks = look < due;
            timer.set(due.min(look));
            let mut download = pin!(self.download(down, ticket));
            match timer.limit(download.as_mut()).await {
                Err(Elapsed) if looks && self.record.phase.get() == Phase::Head => {
                    timer.set(due);
                    timer.limit(pin!(self.while_there(down, download))).await
                }
                done => done,
            }
        } else {
            self.allow(self.timeouts.response);
            // Boxed, as most requests have come whole: they need not carry room for this.
            let mut exchange = Box::pin(self.exchange(down, ticket, body, out, again));
            timer.limit(pin!(self.while_there(down, exchange.as_mut()))).await
        };
        match done.unwrap_or_else(|Elapsed| Err(self.late()))? {
            ResponseEnd::Answered(answered) => Ok(answered),
            ResponseEnd::Switched(duplex) => Box::pin(self.tunnel(down, duplex, out.take_rest())).await,
        }
    }

    /// Relays the request and the response at once.
    async fn exchange<'s>(
        &'s self,
        down: &'s H1,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<ResponseEnd<'s>, Fault> {
        self.upstream.send_at_once();
        let mut upload = pin!(self.upload(down, body, out, again));
        let (mut ended, sent) = self.both_ways(upload.as_mut(), pin!(self.download(down, ticket))).await?;
        match &mut ended {
            _ if sent => {}
            // Answered before it had all of the request: it would take the next one's bytes for the rest of this one's.
            ResponseEnd::Answered(answered) => answered.reusable = false,
            ResponseEnd::Switched(duplex) => self.finish_request(upload, duplex).await?,
        }
        Ok(ended)
    }

    /// Relays the request. An endpoint that stops reading may have answered already: that is for the other direction
    /// to find, so it is no fault here.
    async fn upload(&self, down: &H1, body: &mut Body, out: &mut Outgoing<'_>, again: bool) -> Result<(), Fault> {
        if !self.send_head(out).await {
            return Ok(());
        }
        out.let_go(again && body.is_done());
        let mut pace = MinRate::new(self.record.rules.plan.timeouts.client_body);
        while !body.is_done() {
            self.expect(Phase::Request, Some(pace.left()));
            let since = self.client.core.clock.now();
            let mut buf = self.on_body(pin!(down.transport.read_some())).await.map_err(|_| Fault::ClientGone)?;
            let waited = Duration::from_nanos(self.client.core.clock.now().since(since));
            if !pace.came(buf.len(), waited) && self.record.phase.get() != Phase::Data {
                return Err(Fault::ClientSlow);
            }
            if buf.is_empty() {
                return Err(Fault::ClientGone);
            }
            let Taken { used, kept, .. } = buf.take_body(0, body, Keep::Framed).map_err(Fault::Request)?;
            self.body_due.set(!body.is_done());
            self.record.count_in(used);
            if kept < buf.len() {
                out.put_behind(buf.split_behind(kept));
            }
            self.expect(Phase::Head, self.timeouts.response);
            if self.upstream.write_all(&mut buf).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Relays the response: interim ones, the final one, its body.
    async fn download<'s>(&'s self, down: &'s H1, ticket: &mut InFlight<'_>) -> Result<ResponseEnd<'s>, Fault> {
        let mut interim = 0;
        let mut buf = self.upstream.read_some().await.map_err(|_| Fault::no_response(self.upstream))?;
        if buf.is_empty() {
            return Err(Fault::NoResponse);
        }
        loop {
            let mut ready = loop {
                let is_short = match self.respond(&mut buf, ticket.slot()) {
                    Ok(Some(ready)) => break ready,
                    Ok(None) => true,
                    Err(fault) => self.mend(&mut buf, fault)?,
                };
                if is_short && !matches!(self.upstream.read(&mut buf).await, Ok(1..)) {
                    return Err(Fault::CutShort);
                }
            };
            if !ready.interim {
                return self.relay(down, ticket, buf, &mut ready).await;
            }
            interim += 1;
            if interim > INTERIM_MAX {
                return Err(Fault::Response(Reject::InterimTooMany));
            }
            let behind = buf.split_behind(ready.send);
            self.record.count_out(buf.len());
            self.on_client(pin!(down.transport.write_all(&mut buf))).await.map_err(|_| Fault::ClientGone)?;
            buf = behind;
        }
    }

    /// Sends the final response.
    async fn relay<'s>(
        &'s self,
        down: &'s H1,
        ticket: &mut InFlight<'_>,
        mut buf: Buf,
        ready: &mut Ready,
    ) -> Result<ResponseEnd<'s>, Fault> {
        let &mut Ready { ref mut body, ref mut answered, switch, keep, send, .. } = ready;
        let now = self.client.core.clock.now();
        ticket.answered(now);
        self.record.ttfb_ns.set(Some(now.since(self.record.began)));
        self.record.phase.set(Phase::Data);
        if switch {
            return Ok(ResponseEnd::Switched(self.switched(down, buf)));
        }
        // Bytes behind the response belong to no request: the connection must not carry another one.
        answered.reusable &= send == buf.len();
        buf.truncate(send);
        // Where only the close tells the client of the end, a cut must not look like one.
        let by_close = (keep == Keep::Content || *body == Body::UntilClose) && !body.is_done();
        if by_close {
            down.transport.reset_on_close(true);
        }
        loop {
            if let Some(trailers) = self.trailers(body, keep) {
                // They fit: they were taken out of this buffer, or are all that is in it, and half of one holds them.
                let fits = buf.extend(&trailers);
                self.client.core.give_back(trailers);
                if !fits {
                    return Err(Fault::Response(Reject::Trailer));
                }
            }
            self.record.count_out(buf.len());
            let last = body.is_done() && !answered.keep_alive;
            self.on_client(pin!(down.transport.write(&mut buf, last))).await.map_err(|_| Fault::ClientGone)?;
            drop(buf);
            if body.is_done() {
                break;
            }
            self.allow(Some(self.timeouts.idle));
            if let Body::Length(left) = body
                && *left >= SPLICE_MIN
                && let (Some(from), Some(to)) = (self.upstream.as_plain(), down.transport.as_plain())
                && let Some(pipe) = Pipe::take()
            {
                let spliced = splice::relay(pipe, from, to, left, &self.client_due, |n| {
                    self.record.count_out(n);
                    self.allow(Some(self.timeouts.idle));
                });
                // Boxed, as most responses need no room for it.
                Box::pin(spliced).await.map_err(|side| match side {
                    Side::From => Fault::CutShort,
                    Side::To => Fault::ClientGone,
                })?;
                break;
            }
            buf = self.upstream.read_some().await.map_err(|_| Fault::CutShort)?;
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
            down.transport.reset_on_close(false);
        }
        Ok(ResponseEnd::Answered(*answered))
    }
}
