//! What of a request's way and of its response is noted for the log and for taps? Tries that came to nothing, and fields of the
//! response.

use super::record::Record;
use super::try_end::{self, TryEnd};
use crate::observe::access_log::Attempt;
use crate::observe::end::{Cause, Phase};
use crate::observe::taps;
use crate::observe::watched::{Try, Watched};
use crate::upstream::pool::Endpoint;
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{Clock, Instant};
use evenkeel_wire::grpc::Status;
use evenkeel_wire::head::Fields;
use std::borrow::Cow;
use std::rc::Rc;

impl Record<'_> {
    /// Notes how the try that began last has failed, and who ended it.
    #[cold]
    pub fn note_failed(&self, failure: Option<Failure>, by: Cause) {
        if let Some(endpoint) = &self.endpoint {
            self.note_try(endpoint, self.try_began, try_end::cause(failure, by));
        }
    }

    /// Notes how a try has ended that brought no response.
    #[cold]
    pub fn note_try(&self, endpoint: &Rc<Endpoint>, began: Instant, cause: impl Into<Cow<'static, str>>) {
        if self.watched.is_some() || self.client.core.log.borrow().is_some() {
            let ns = self.client.core.clock.now().since(began);
            self.tried.borrow_mut().push(TryEnd { endpoint: endpoint.clone(), cause: cause.into(), began, ns });
        }
    }

    /// Each try, if there were several. `tried`: those that came to nothing.
    pub(super) fn attempts<'t>(&'t self, tried: &'t [TryEnd]) -> Vec<Attempt<'t>> {
        if self.tries < 2 {
            return Vec::new();
        }
        let mut all = Vec::with_capacity(tried.len() + 1);
        for TryEnd { endpoint, cause, ns, .. } in tried {
            all.push(Attempt { endpoint: &endpoint.name, cause: cause.clone(), ns: *ns });
        }
        if let Some((last, cause)) = self.last_try(tried) {
            let ns = self.client.core.clock.now().since(self.try_began);
            all.push(Attempt { endpoint: &last.name, cause: cause.into(), ns });
        }
        all
    }

    /// Where the last try went, unless it came to nothing, and how it ended.
    fn last_try(&self, tried: &[TryEnd]) -> Option<(&Endpoint, &'static str)> {
        let last = self.endpoint.as_deref().filter(|_| (tried.len() as u64) < u64::from(self.tries))?;
        let cause = match self.cause.get() {
            Cause::Normal => "answered",
            cause => Cause::LABELS[cause as usize],
        };
        Some((last, cause))
    }

    /// The request is over: tells the taps that want it.
    #[cold]
    pub(super) fn tell_taps(&self, head: taps::Head, total_ns: u64) {
        let core = self.client.core;
        let ids = head.ids().to_vec();
        let tried = self.tried.borrow();
        let since = |began: Instant| began.since(self.began);
        let mut tries: Vec<Try> = tried
            .iter()
            .map(|TryEnd { endpoint, cause, began, ns }| Try {
                endpoint: endpoint.name.clone(),
                at_ns: since(*began),
                took_ns: *ns,
                end: cause.to_string(),
            })
            .collect();
        if let Some((last, end)) = self.last_try(&tried) {
            let at_ns = since(self.try_began);
            let took_ns = total_ns.saturating_sub(at_ns);
            tries.push(Try { endpoint: last.name.clone(), at_ns, took_ns, end: end.to_string() });
        }
        let route = self.rules.plan.routes.get(self.route);
        let watched = Watched {
            request_id: self.request_id().to_string(),
            at_ms: head.at_ms,
            worker: core.index,
            listener: self.client.listener.name.clone(),
            route: route.map(|route| route.name.clone()).unwrap_or_default(),
            pool: self.pool.map(|pool| pool.name.clone()).unwrap_or_default(),
            client: self.origin.unwrap_or(self.client.peer.ip).to_string(),
            protocol: self.proto,
            method: head.method,
            host: head.host,
            path: head.path,
            status: self.status.get(),
            grpc_status: self.call.get().ended().map(Status::name),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            queue_ns: self.queue_ns.get(),
            connect_ns: self.connect_ns.get(),
            ttfb_ns: self.ttfb_ns.get(),
            total_ns,
            end: Cause::LABELS[self.cause.get() as usize],
            phase: Phase::LABELS[self.phase.get() as usize],
            reason: self.reason.get().map(|reason| reason.to_string()),
            tries,
        };
        core.taps.tell(&ids, &watched.into());
    }

    /// Looks at the fields of the response that goes to the client: what the log is to have of them, and what is said of the
    /// request's name, which is said once.
    #[inline]
    pub fn note_response(&self, fields: &mut Fields<'_, '_>) {
        if self.notes_response {
            self.note_fields(fields);
        }
    }

    fn note_fields(&self, fields: &mut Fields<'_, '_>) {
        if let Some(log) = self.client.core.log.borrow().as_ref().filter(|log| log.lines.wants_response()) {
            let mut answered = self.answered.borrow_mut();
            answered.clear();
            log.lines.keep_response(fields, &mut answered);
        }
        if let Some(rules) = self.rules.request_id.as_ref().filter(|rules| rules.respond) {
            fields.leave_out(&rules.field);
        }
    }
}
