//! What becomes of a response's head? It is read, and the one for the client takes its place; or the response is thrown
//! away, as another endpoint may do better.

use super::{Answered, Relay};
use crate::http::fault::Fault;
use crate::load::reports;
use evenkeel_balance::retry::{Decision, Failure};
use evenkeel_balance::{Clock, FailureKind, Outcome, Slot};
use evenkeel_config::plan::{Tolerance, Tolerated};
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_wire::grpc::{self, Status};
use evenkeel_wire::head::Fields;
use evenkeel_wire::http1::chunked::Keep;
use evenkeel_wire::http1::mend::{self, Mended};
use evenkeel_wire::http1::response::Towards;
use evenkeel_wire::http1::{Body, FIELDS_MAX, Limits, Reject, Response, Version};
use evenkeel_wire::orca;

/// A response's head may fill a buffer and have as many fields as fit our arrays.
pub(super) const RESPONSE_LIMITS: Limits = Limits { head: CAPACITY, fields: FIELDS_MAX };

/// The head of a response that is ready to be sent.
pub(super) struct Ready {
    pub(super) body: Body,
    pub(super) answered: Answered,
    pub(super) interim: bool,
    pub(super) switch: bool,
    /// The content alone for an HTTP/1.0 client, who knows no chunks.
    pub(super) keep: Keep,
    /// Bytes at the front of the buffer that go to the client.
    pub(super) send: usize,
}

impl<U> Relay<'_, '_, U> {
    /// Reads a response's head and puts the one for the client in its place; `None` while not all of it is there. `here`:
    /// the endpoint's slot.
    pub(super) fn respond(&self, buf: &mut Buf, here: Slot) -> Result<Option<Ready>, Fault> {
        let core = self.client.core;
        let mut room = core.room.borrow_mut();
        let mut read = Response::read(buf.filled(), &mut room, self.asked, &RESPONSE_LIMITS);
        // Changed where it is, as it is large.
        let response = match &mut read {
            Ok(Some(response)) => response,
            Ok(None) => return Ok(None),
            Err(reject) => return Err(Fault::Response(*reject)),
        };
        let head_len = response.head_len();
        let mut body = std::mem::replace(&mut response.body, Body::EMPTY);
        self.tolerate_in(&mut body);
        let until_close = matches!(body, Body::UntilClose);
        let strip = self.towards.version == Version::V10 && matches!(body, Body::Chunked(_));
        let keep = if strip { Keep::Content } else { Keep::Framed };
        let early = self.body_due.get() && is_refusal(response.status, &body, &buf.filled()[head_len..]);
        let keep_alive = self.towards.keep_alive && !until_close && !strip && !early && !self.client.is_ending();
        let towards = Towards { keep_alive, ..self.towards };
        let (interim, switch) = (response.is_interim(), response.status == 101);
        let answered = Answered {
            reusable: response.keep_alive && !strip,
            kept_secs: response.kept_secs,
            keep_alive,
            outcome: outcome(response.status, &response.fields),
        };
        let mut added = None;
        if !interim {
            if response.status == 408 && !response.keep_alive && self.is_for_none() {
                return Err(Fault::Stray);
            }
            self.on_load(&mut response.fields, &mut body);
            if response.status >= 400 && self.refuses(Failure::Status(response.status), here) {
                let Answered { outcome, reusable, kept_secs, .. } = answered;
                let status = response.status;
                let rest = buf.take_body(head_len, &mut body, Keep::Framed).map_err(Fault::Response)?;
                let whole = body.is_done() && head_len + rest.used == buf.len();
                return Err(Fault::Refused { status, grpc: None, outcome, reusable: reusable && whole, kept_secs });
            }
            self.record.note_response(&mut response.fields);
            self.record.status.set(response.status);
            added = self.added(response.status, answered.outcome);
        }
        let mut new_len = head_len;
        if interim && self.towards.version == Version::V10 {
            buf.consume(head_len);
            return Ok(Some(Ready { body, answered, interim, switch, keep, send: 0 }));
        }
        if let Some(stretch) = response.all_but(towards).filter(|_| added.is_none()) {
            new_len -= stretch.len();
            buf.cut(stretch);
        } else {
            let mut head = core.scratch();
            response.write(towards, added.as_deref().unwrap_or_default(), &mut head);
            new_len = head.len();
            let fits = buf.replace_front(head_len, &head);
            core.give_back(head);
            added.into_iter().for_each(|added| core.give_back(added));
            if !fits {
                return Err(Fault::Response(Reject::HeadTooLarge));
            }
        }
        let mut send = new_len;
        if !interim && !switch {
            send += buf.take_body(new_len, &mut body, keep).map_err(Fault::Response)?.kept;
        }
        Ok(Some(Ready { body, answered, interim, switch, keep, send }))
    }

    /// Puts a head that can be read in the place of one that was refused, where that can be done. Whether more of it has to
    /// be read first.
    ///
    /// # Errors
    /// It cannot, or may not.
    #[cold]
    pub(super) fn mend(&self, buf: &mut Buf, fault: Fault) -> Result<bool, Fault> {
        let Fault::Response(refused) = fault else { return Err(fault) };
        match mend::mend(buf.filled(), refused, &RESPONSE_LIMITS, self.tolerated()) {
            Ok(Mended::More) => Ok(true),
            Ok(Mended::Head(len, head)) if buf.replace_front(len, &head) => Ok(false),
            Ok(Mended::Head(..)) => Err(Fault::Response(Reject::HeadTooLarge)),
            // The rest of the response before, which was not to have a body.
            Err(_) if self.is_reused && !buf.filled().starts_with(b"HTTP/") => Err(Fault::Stray),
            Err(reject) => Err(Fault::Response(reject)),
        }
    }

    /// Returns true if a 408 is taken for the end of a connection that was idle for too long: it crossed with this request,
    /// which does no harm on another one.
    #[cold]
    pub(super) fn is_for_none(&self) -> bool {
        self.is_reused && self.tries.is_some_and(|(_, idempotent)| idempotent)
    }

    fn tolerated(&self) -> Tolerated {
        self.record.pool.map_or_else(Tolerated::default, |pool| pool.plan().tolerate)
    }

    /// Lets pass in a body what the pool tolerates there.
    #[inline]
    pub(super) fn tolerate_in(&self, body: &mut Body) {
        if let Body::Chunked(chunked) = body
            && self.tolerated().has(Tolerance::ChunkSizePadding)
        {
            chunked.tolerate_padding();
        }
    }

    /// Takes the report of the endpoint's load out of a final response, if the pool uses it.
    pub(super) fn on_load(&self, fields: &mut Fields<'_, '_>, body: &mut Body) {
        let Some(pool) = self.record.pool else { return };
        let reports = pool.hears();
        if let Some(reports) = &reports {
            let received = pool.hear(reports, fields, self.client.core.clock.now());
            self.record.received.set(received);
            if let Body::Chunked(chunked) = body {
                chunked.hold_trailers();
            }
        }
        // Where this side tells its load, that is the one word: two reports would contradict each other.
        let told = self.record.working.as_ref().is_some_and(|working| working.reporter().plan.header);
        if told || reports.is_some_and(|reports| !reports.pass) {
            fields.leave_out(orca::FIELD_BIN);
            fields.leave_out(orca::FIELD);
        }
    }

    /// Looks for a report in the trailers of a body that has just ended; what of them goes to the client.
    pub(super) fn trailers(&self, body: &mut Body, keep: Keep) -> Option<Vec<u8>> {
        let Body::Chunked(chunked) = body else { return None };
        let trailers = chunked.take_trailers()?;
        let pool = self.record.pool?;
        let mut passes = false;
        if let Some(reports) = pool.hears() {
            passes = reports.pass;
            if self.record.received.get().is_none() {
                let received = pool.hear_trailers(&reports, &trailers, self.client.core.clock.now());
                self.record.received.set(received);
            }
        }
        let mut kept = self.client.core.scratch();
        match keep {
            Keep::Content => {}
            Keep::Framed if passes => kept.extend_from_slice(&trailers),
            Keep::Framed => reports::strip(&trailers, &mut kept),
        }
        Some(kept)
    }

    /// Takes the report out of trailers, if there was none before them.
    pub(super) fn on_trailers(&self, fields: &mut Fields<'_, '_>) {
        let Some(reports) = self.record.pool.and_then(|pool| Some((pool, pool.hears()?))) else { return };
        let (pool, reports) = reports;
        if self.record.received.get().is_none() {
            self.record.received.set(pool.hear(&reports, fields, self.client.core.clock.now()));
        }
        if !reports.pass {
            fields.leave_out(orca::FIELD_BIN);
            fields.leave_out(orca::FIELD);
        }
    }

    /// The fields that are added to a final response: where its session is, what its request is called, and how busy this side is.
    pub(super) fn added(&self, status: u16, outcome: Outcome) -> Option<Vec<u8>> {
        let (core, working) = (self.client.core, &self.record.working);
        let hsts = self.record.rules.compiled.hsts.as_deref();
        if self.cookie.is_none() && working.is_none() && hsts.is_none() && !self.record.tells_id() {
            return None;
        }
        let mut added = core.scratch();
        added.extend_from_slice(self.cookie.unwrap_or_default().as_bytes());
        added.extend_from_slice(hsts.unwrap_or_default().as_bytes());
        self.record.write_id_for_client(&mut added);
        if let Some(working) = working {
            // A protocol that takes over has no latency.
            if outcome == Outcome::Success && status != 101 {
                let now = core.clock.now();
                working.answered(now.since(self.record.began), now);
            }
            self.record.write_load(&mut added);
        }
        Some(added)
    }

    /// Whether a response that says so is thrown away for another try. Only if another endpoint has room: what is
    /// thrown away cannot be passed on when there is no other try after all.
    #[cold]
    pub(super) fn refuses(&self, failure: Failure, here: Slot) -> bool {
        let (Some((tries, idempotent)), Some(pool)) = (self.tries, self.record.pool) else { return false };
        if !tries.minds(failure) || !tries.has_other(pool, here) {
            return false;
        }
        let left_ns = self.timer.left_ns(self.deadline);
        let (now, replayable) = (self.client.core.clock.now(), !self.body_gone.get());
        match tries.decide((pool, here), failure, idempotent, replayable, left_ns, now) {
            Decision::Stop(why) => {
                pool.stats.retries_refused[why as usize].add(1);
                false
            }
            again => {
                tries.note(again);
                true
            }
        }
    }
}

/// Whether a response that comes before all of its request is one to a request of which the rest is not read: then the
/// connection ends behind it, and the client is told (RFC 9112 section 9.6). Where both go on together, it may well be kept.
/// `came`: what is there of its body.
#[cold]
fn is_refusal(status: u16, body: &Body, came: &[u8]) -> bool {
    let is_whole = match body {
        Body::Length(left) => came.len() as u64 >= *left,
        Body::Chunked(_) => came.ends_with(b"0\r\n\r\n"),
        Body::UntilClose => true,
    };
    status >= 300 || (status >= 200 && is_whole)
}

/// The outcome of a response for the balancer: server errors and "too many requests" count as failures, or an endpoint
/// that refuses fast would look like the fastest.
pub(super) fn outcome(status: u16, fields: &Fields<'_, '_>) -> Outcome {
    let Some(kind) = FailureKind::of_status(status) else { return Outcome::Success };
    let after = fields.first("retry-after");
    let seconds = after.and_then(|v| std::str::from_utf8(v).ok()?.trim().parse::<u32>().ok());
    Outcome::Failure { kind, retry_after_ns: seconds.map(|s| u64::from(s) * 1_000_000_000) }
}

/// The outcome of a gRPC call: that of the status of HTTP that says the same.
pub(super) fn call_outcome(status: Status) -> Outcome {
    let kind = FailureKind::of_status(grpc::to_http(status));
    kind.map_or(Outcome::Success, |kind| Outcome::Failure { kind, retry_after_ns: None })
}
