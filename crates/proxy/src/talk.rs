//! What passes between a client and an endpoint for one request? Both directions at once, each with back-pressure: a
//! byte is read only when the one before it was written.

mod head;
mod tunnel;

use crate::buffer::Buf;
use crate::client::Client;
use crate::deadline::Elapsed;
use crate::end::Phase;
use crate::fault::Fault;
use crate::http1::chunked::{Keep, Taken};
use crate::http1::response::{Asked, Towards};
use crate::http1::{Body, Reject};
use crate::outgoing::Outgoing;
use crate::pace::Pace;
use crate::pick::InFlight;
use crate::record::Record;
use crate::reports;
use crate::retries::Tries;
use crate::splice::{self, Pipe, SPLICE_MIN, Side};
use crate::stream::Stream;
use evenkeel_balance::{Clock, Outcome};
use evenkeel_config::plan::RouteTimeouts;
use head::Ready;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// Interim responses (1xx) that one request may get: an endpoint that sends them for ever must not hold us.
pub const INTERIM_MAX: u32 = 16;

/// How long an endpoint may think before we look whether its client is still there. Looking costs the event loop a
/// registration; most requests are long answered.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// One request at one endpoint.
pub struct Talk<'t, 'c> {
    pub client: &'t Client<'c>,
    pub record: &'t Record<'t>,
    pub upstream: &'t Stream,
    pub asked: Asked,
    pub towards: Towards,
    pub timeouts: RouteTimeouts,
    /// The tick by which all must be over.
    pub deadline: u64,
    /// In how many directions the client is to send or to take something: if time runs out then, it is at fault. Else
    /// clients that read slowly could make endpoints look bad.
    pub client_due: Cell<u8>,
    /// Its tries, if all of it can be sent again, and whether its method is idempotent.
    pub tries: Option<(&'t Tries<'t>, bool)>,
    /// A field for the client, with its line's end.
    pub cookie: Option<&'t str>,
}

/// How an endpoint's answer leaves both connections.
#[derive(Clone, Copy)]
pub struct Answered {
    /// The endpoint's can carry another request.
    pub reusable: bool,
    /// The client's can.
    pub keep_alive: bool,
    /// What the balancer is told.
    pub outcome: Outcome,
}

/// How a response ended.
enum Ended {
    Answered(Answered),
    /// It switches protocols; its head, and what came behind it, is not sent yet.
    Switched(Buf),
}

impl Talk<'_, '_> {
    /// Sends what is left of the request and relays the response.
    ///
    /// # Errors
    /// What ended it early.
    pub async fn run(
        &self,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<Answered, Fault> {
        let timer = &self.client.timer;
        let done = if out.unsent().is_empty() && body.is_done() {
            out.let_go(again);
            let (due, look) = (self.due(self.timeouts.response), timer.tick_after(LOOK_AFTER));
            let looks = look < due;
            timer.set(due.min(look));
            let mut download = pin!(self.download(ticket));
            match timer.limit(download.as_mut()).await {
                Err(Elapsed) if looks && self.record.phase.get() == Phase::Head => {
                    timer.set(due);
                    timer.limit(pin!(self.while_there(download))).await
                }
                done => done,
            }
        } else {
            self.allow(self.timeouts.response);
            // Boxed, as most requests have come whole: they need not carry room for this.
            let mut both_ways = Box::pin(self.both_ways(ticket, body, out, again));
            timer.limit(pin!(self.while_there(both_ways.as_mut()))).await
        };
        match done.unwrap_or_else(|Elapsed| Err(self.late()))? {
            Ended::Answered(answered) => Ok(answered),
            Ended::Switched(buf) => {
                let mut tunnel = Box::pin(self.tunnel(out.take_rest(), buf));
                timer.limit(tunnel.as_mut()).await.unwrap_or_else(|Elapsed| Err(self.late()))
            }
        }
    }

    /// Runs `future` until it ends or the client resets its connection. A client that only says that it sends no more
    /// gets its answer: many close their half after the request, and the two cannot be told apart.
    async fn while_there<T>(&self, mut future: Pin<&mut impl Future<Output = Result<T, Fault>>>) -> Result<T, Fault> {
        poll_fn(|cx| {
            if let Poll::Ready(result) = future.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            self.client.stream.poll_reset(cx).map(|()| Err(Fault::ClientGone))
        })
        .await
    }

    fn late(&self) -> Fault {
        if self.client_due.get() > 0 { Fault::ClientSlow } else { Fault::TimedOut }
    }

    /// Waits for the client.
    async fn on_client<F: Future>(&self, future: Pin<&mut F>) -> F::Output {
        self.client_due.update(|n| n + 1);
        let output = future.await;
        self.client_due.update(|n| n - 1);
        output
    }

    /// Relays the request and the response at once.
    async fn both_ways(
        &self,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<Ended, Fault> {
        self.upstream.send_at_once();
        let (mut sent, mut upload) = (false, pin!(self.upload(body, out, again)));
        let mut download = pin!(self.download(ticket));
        let mut ended = poll_fn(|cx| {
            if !sent && let Poll::Ready(result) = upload.as_mut().poll(cx) {
                sent = true;
                result?;
            }
            download.as_mut().poll(cx)
        })
        .await?;
        if !sent && let Ended::Answered(answered) = &mut ended {
            // Answered before it had all of the request: it would take the next one's bytes for the rest of this one's.
            answered.reusable = false;
        }
        Ok(ended)
    }

    /// Gives what is due next so much time.
    fn allow(&self, time: Option<Duration>) {
        self.client.timer.set(self.due(time));
    }

    /// The tick by which so much time is over, or the time for the whole.
    #[inline]
    fn due(&self, time: Option<Duration>) -> u64 {
        time.map_or(u64::MAX, |time| self.client.timer.tick_after(time)).min(self.deadline)
    }

    /// Says what is due next, and how long that may take; once a response is under way, only that it goes on counts.
    fn expect(&self, phase: Phase, time: Option<Duration>) {
        if self.record.phase.get() == Phase::Data {
            return self.allow(Some(self.timeouts.idle));
        }
        self.record.phase.set(phase);
        self.allow(time);
    }

    /// Relays the request. An endpoint that stops reading may have answered already: that is for the other direction
    /// to find, so it is no fault here.
    async fn upload(&self, body: &mut Body, out: &mut Outgoing<'_>, again: bool) -> Result<(), Fault> {
        while !out.unsent().is_empty() {
            match write_some(self.upstream, out.unsent()).await {
                Ok(n) => out.advance(n),
                Err(_) => return Ok(()),
            }
        }
        out.let_go(again && body.is_done());
        let mut pace = Pace::new(self.record.rules.timeouts.client_body);
        while !body.is_done() {
            self.expect(Phase::Request, Some(pace.left()));
            let since = self.client.worker.clock.now();
            let mut buf = self.on_client(pin!(read(&self.client.stream))).await.map_err(|_| Fault::ClientGone)?;
            let waited = Duration::from_nanos(self.client.worker.clock.now().since(since));
            if !pace.came(buf.len(), waited) && self.record.phase.get() != Phase::Data {
                return Err(Fault::ClientSlow);
            }
            if buf.is_empty() {
                return Err(Fault::ClientGone);
            }
            let Taken { used, kept } = take_body(&mut buf, 0, body, Keep::Framed).map_err(Fault::Request)?;
            self.record.count_in(used);
            if kept < buf.len() {
                out.put_behind(split_behind(&mut buf, kept));
            }
            self.expect(Phase::Head, self.timeouts.response);
            if self.upstream.write_all(&mut buf).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Relays the response: interim ones, the final one, its body.
    async fn download(&self, ticket: &mut InFlight<'_>) -> Result<Ended, Fault> {
        let mut interim = 0;
        let mut buf = read(self.upstream).await.map_err(|_| Fault::NoResponse)?;
        if buf.is_empty() {
            return Err(Fault::NoResponse);
        }
        loop {
            let mut ready = loop {
                match self.respond(&mut buf, ticket.slot())? {
                    Some(ready) => break ready,
                    None => match self.upstream.read(&mut buf).await {
                        Ok(n) if n > 0 => {}
                        _ => return Err(Fault::CutShort),
                    },
                }
            };
            if !ready.interim {
                return self.relay(ticket, buf, &mut ready).await;
            }
            interim += 1;
            if interim > INTERIM_MAX {
                return Err(Fault::Response(Reject::Malformed));
            }
            let behind = split_behind(&mut buf, ready.send);
            self.record.count_out(buf.len());
            self.on_client(pin!(self.client.stream.write_all(&mut buf))).await.map_err(|_| Fault::ClientGone)?;
            buf = behind;
        }
    }

    /// Looks for a report in the trailers of a body that has just ended; what of them goes to the client.
    fn trailers(&self, body: &mut Body, keep: Keep) -> Option<Vec<u8>> {
        let Body::Chunked(chunked) = body else { return None };
        let trailers = chunked.take_trailers()?;
        let pool = self.record.pool?;
        let mut passes = false;
        if let Some(reports) = pool.hears() {
            passes = reports.pass;
            if self.record.received.get().is_none() {
                let received = pool.hear_trailers(&reports, &trailers, self.client.worker.clock.now());
                self.record.received.set(received);
            }
        }
        let mut kept = self.client.worker.scratch();
        match keep {
            Keep::Content => {}
            Keep::Framed if passes => kept.extend_from_slice(&trailers),
            Keep::Framed => reports::strip(&trailers, &mut kept),
        }
        Some(kept)
    }

    /// Sends the final response.
    async fn relay(&self, ticket: &mut InFlight<'_>, mut buf: Buf, ready: &mut Ready) -> Result<Ended, Fault> {
        let &mut Ready { ref mut body, ref mut answered, switch, keep, send, .. } = ready;
        let now = self.client.worker.clock.now();
        ticket.answered(now);
        self.record.ttfb_ns.set(Some(now.since(self.record.began)));
        self.record.phase.set(Phase::Data);
        if switch {
            return Ok(Ended::Switched(buf));
        }
        // Bytes behind the response belong to no request: the connection must not carry another one.
        answered.reusable &= send == buf.len();
        buf.truncate(send);
        // Where only the close tells the client of the end, a cut must not look like one.
        let by_close = (keep == Keep::Content || *body == Body::UntilClose) && !body.is_done();
        if by_close {
            self.client.stream.reset_on_close(true);
        }
        loop {
            if let Some(trailers) = self.trailers(body, keep) {
                // They fit: they were taken out of this buffer, or are all that is in it, and half of one holds them.
                let fits = buf.extend(&trailers);
                self.client.worker.give_back(trailers);
                if !fits {
                    return Err(Fault::Response(Reject::Trailer));
                }
            }
            self.record.count_out(buf.len());
            let last = body.is_done() && !answered.keep_alive;
            self.on_client(pin!(self.client.stream.write(&mut buf, last))).await.map_err(|_| Fault::ClientGone)?;
            drop(buf);
            if body.is_done() {
                break;
            }
            self.allow(Some(self.timeouts.idle));
            if let Body::Length(left) = body
                && *left >= SPLICE_MIN
                && let Some(pipe) = Pipe::take()
            {
                let spliced = splice::relay(pipe, self.upstream, &self.client.stream, left, &self.client_due, |n| {
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
            buf = read(self.upstream).await.map_err(|_| Fault::CutShort)?;
            if buf.is_empty() && body.may_end() {
                break;
            }
            if buf.is_empty() {
                return Err(Fault::CutShort);
            }
            let Taken { kept, .. } = take_body(&mut buf, 0, body, keep).map_err(Fault::Response)?;
            answered.reusable &= kept == buf.len();
            buf.truncate(kept);
        }
        if by_close {
            self.client.stream.reset_on_close(false);
        }
        Ok(Ended::Answered(*answered))
    }
}

/// Reads into a buffer that is taken only when something is there, so that waiting holds none.
#[inline]
async fn read(stream: &Stream) -> std::io::Result<Buf> {
    poll_fn(|cx| stream.poll_read_into(cx, Buf::take)).await.map(|(_, buf)| buf)
}

/// Writes what the socket takes at once, waiting only until it takes anything.
///
/// # Errors
/// As `send(2)`; on a connection under way, why it was not established.
#[inline]
pub async fn write_some(stream: &Stream, bytes: &[u8]) -> std::io::Result<usize> {
    poll_fn(|cx| stream.poll_write(cx, bytes)).await
}

/// Moves all behind the first `at` bytes to a buffer of its own.
fn split_behind(buf: &mut Buf, at: usize) -> Buf {
    let mut behind = Buf::take();
    // A buffer has room for what another one's room held.
    behind.extend(&buf.filled()[at.min(buf.len())..]);
    buf.truncate(at);
    behind
}

/// Takes what belongs to the body from behind the first `at` bytes. Of it, only what is to be kept stays there, before
/// what is not part of the body.
#[inline]
pub fn take_body(buf: &mut Buf, at: usize, body: &mut Body, keep: Keep) -> Result<Taken, Reject> {
    let taken = body.advance(&mut buf.filled_mut()[at..], keep)?;
    buf.remove(at + taken.kept, taken.used - taken.kept);
    Ok(taken)
}
