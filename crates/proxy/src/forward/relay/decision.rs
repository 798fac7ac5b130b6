//! Decision about a response: forward it, discard it and retry at another endpoint, or replace it.

use super::Relay;
use crate::body::fault::Fault;
use crate::body::upstream::Kept;
use crate::cache::filling::Filling;
use crate::load::reports;
use crate::pipeline::response::{Arrived, Filtered, filter, filter_interim};
use crate::record::grpc::Call;
use crate::upstream::pick;
use evenkeel_balance::retry::{Decision as Again, Failed, Failure};
use evenkeel_balance::{Clock, FailureKind, Outcome, Slot};
use evenkeel_wire::grpc::{self, Status};
use evenkeel_wire::head::Fields;
use evenkeel_wire::http1::chunked::Keep;
use evenkeel_wire::http1::{Body, Reject};
use evenkeel_wire::orca;

/// Facts about a response in addition to its fields.
pub(super) struct Known {
    pub(super) status: u16,
    /// The endpoint closes its connection after the response.
    pub(super) closes: bool,
    /// A tunnel follows the head.
    pub(super) switches: bool,
    /// No body follows the head.
    pub(super) ends: bool,
}

/// Decision about a response head.
pub(super) enum Decision {
    /// Forward it with these lines added; another response follows.
    Interim(Option<Vec<u8>>),
    Retry(Refusal),
    /// Forward it with its body.
    Final(Accepted),
    /// Forward it; a tunnel follows.
    Switch(Accepted),
    /// Discard it, with this outcome for the balancer: the client gets a response of this proxy instead, which the
    /// record holds. The cache may take the body.
    Replace(Outcome, Option<Box<Filling>>),
}

/// A response that is discarded for a retry.
pub(super) struct Refusal {
    status: u16,
    grpc: Option<Status>,
    outcome: Outcome,
}

impl Refusal {
    /// Returns the fault that leads to the retry. `kept` is the state of the connection after the response.
    pub(super) fn fault(self, kept: Kept) -> Fault {
        let Refusal { status, grpc, outcome } = self;
        Fault::Refused { status, grpc, outcome, reusable: kept.reusable, kept_secs: kept.secs }
    }
}

/// A response that is forwarded.
pub(super) struct Accepted {
    /// The outcome for the balancer, unless trailers state another.
    pub(super) outcome: Outcome,
    /// True if trailers have to be searched for a load report.
    pub(super) hears_trailers: bool,
    /// Result of the response filters.
    pub(super) filtered: Filtered,
}

impl Relay<'_> {
    /// Decides about a response from its head. If it is forwarded, changes `fields` to the fields for the client.
    /// `here` is the endpoint's slot.
    ///
    /// # Errors
    /// The response does not belong to this request: an unrequested 101, or a stray 408.
    #[inline]
    pub(super) fn decide(&self, known: Known, fields: &mut Fields<'_, '_>, here: Slot) -> Result<Decision, Fault> {
        let Known { status, closes, switches, ends } = known;
        if status < 200 && !switches {
            if status == 100 {
                self.awaits_continue.set(false);
            }
            return if status == 101 {
                Err(Fault::Response(Reject::SwitchNotAsked))
            } else {
                Ok(Decision::Interim(filter_interim(self.record, fields)))
            };
        }
        if status == 408 && closes && self.is_for_none() {
            return Err(Fault::Stray);
        }
        let called = self.ended_call(fields);
        let outcome = called.map_or_else(|| pick::outcome(status, fields), call_outcome);
        let hears_trailers = self.on_load(fields);
        let failed = match called {
            Some(status) => (status != Status::Ok).then(|| Failure::Grpc(status.code())),
            None => (status >= 400).then_some(Failure::Status(status)),
        };
        if failed.is_some_and(|failure| self.refuses(failure, here)) {
            return Ok(Decision::Retry(Refusal { status, grpc: called, outcome }));
        }
        if let Some(status) = called {
            self.record.call.set(Call::Ended(status));
        }
        self.record.note_response(fields);
        self.record.status.set(status);
        let arrived = Arrived { ends, outcome: Some(outcome), length: None, is_line: false, whole: None };
        let mut filtered = filter(self.record, status, fields, arrived);
        if let Some(status) = filtered.status {
            self.record.sent_as.set(status);
        }
        if let Some(instead) = filtered.instead.take() {
            self.record.instead.set(Some(instead));
            return Ok(Decision::Replace(outcome, filtered.filling));
        }
        let accepted = Accepted { outcome, hears_trailers, filtered };
        Ok(if switches { Decision::Switch(accepted) } else { Decision::Final(accepted) })
    }

    /// gRPC status in these fields, if the request is a gRPC call.
    pub(super) fn ended_call(&self, fields: &Fields<'_, '_>) -> Option<Status> {
        if self.record.call.get() == Call::Not { None } else { crate::record::grpc::status(fields.kept()) }
    }

    /// True if a 408 with `Connection: close` is taken for a timeout of the idle connection that crossed with this
    /// request: the connection was reused, and the idempotent request can be sent again on another connection.
    #[cold]
    fn is_for_none(&self) -> bool {
        self.is_reused && self.tries.is_some() && self.opened.idempotent
    }

    /// Reads the load report of a final response, if the pool uses reports, and removes it unless it is passed on.
    /// Returns true if trailers may have a report too.
    fn on_load(&self, fields: &mut Fields<'_, '_>) -> bool {
        let pool = self.opened.route.pool;
        let reports = pool.hears();
        if let Some(reports) = &reports {
            let received = pool.hear(reports, fields, self.client.core.clock.now());
            self.record.received.set(received);
        }
        // Where this side reports its own load, the endpoint's report is removed: two would contradict each other.
        let told = self.record.rules.reporter.as_ref().is_some_and(|reporter| reporter.plan.header);
        if told || reports.as_ref().is_some_and(|reports| !reports.pass) {
            fields.leave_out(orca::FIELD_BIN);
            fields.leave_out(orca::FIELD);
        }
        reports.is_some()
    }

    /// Reads a load report in the trailers of a body that has just ended. Returns the trailer lines for the client.
    pub(super) fn trailers(&self, body: &mut Body, keep: Keep) -> Option<Vec<u8>> {
        let Body::Chunked(chunked) = body else { return None };
        let trailers = chunked.take_trailers()?;
        let pool = self.opened.route.pool;
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

    /// Reads a load report in trailers, if the head had none, and removes it unless it is passed on.
    pub(super) fn on_trailers(&self, fields: &mut Fields<'_, '_>) {
        let pool = self.opened.route.pool;
        let Some(reports) = pool.hears() else { return };
        if self.record.received.get().is_none() {
            self.record.received.set(pool.hear(&reports, fields, self.client.core.clock.now()));
        }
        if !reports.pass {
            fields.leave_out(orca::FIELD_BIN);
            fields.leave_out(orca::FIELD);
        }
    }

    /// True if a response with this failure is discarded for a retry. Requires that another endpoint has room, or that
    /// the same endpoint may be asked again, as a discarded response cannot be forwarded if the retry finds no
    /// endpoint.
    #[cold]
    fn refuses(&self, failure: Failure, here: Slot) -> bool {
        let Some(tries) = self.tries else { return false };
        if !tries.minds(failure) || !(tries.may_return() || tries.has_other(here)) {
            return false;
        }
        let left_ns = self.timer.left_ns(self.opened.route.deadline);
        let (replayable, beyond) = (!self.body_gone.get(), tries.has_beyond(here));
        let idempotent = self.opened.idempotent;
        match tries.decide(&Failed { failure, idempotent, replayable, left_ns, beyond }) {
            Again::Stop(_) => false,
            again => {
                tries.note(again);
                true
            }
        }
    }
}

/// Outcome of a gRPC call, from the corresponding HTTP status.
pub(super) fn call_outcome(status: Status) -> Outcome {
    let kind = FailureKind::of_status(grpc::to_http(status));
    kind.map_or(Outcome::Success, |kind| Outcome::Failure { kind, retry_after_ns: None })
}
