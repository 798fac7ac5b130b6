//! What are those told who watch a request, once it is over? Taps that want it, and the exporter of spans if it is recorded.

use super::record::Record;
use super::try_end::{Began, TryEnd};
use crate::observe::end::{Cause, Phase};
use crate::observe::taps;
use crate::observe::watched::{Spans, Try, Watched};
use crate::upstream::pool::Endpoint;
use evenkeel_wire::grpc::Status;

impl Record<'_> {
    /// The request is over: tells those who watch it.
    #[cold]
    pub(super) fn tell_watchers(&self, head: taps::Head, total_ns: u64) {
        let core = self.client.core;
        let ids = head.ids().to_vec();
        let tried = self.tried.borrow();
        let mut tries: Vec<Try> = tried
            .iter()
            .map(|TryEnd { endpoint, cause, began, ns }| self.try_of(endpoint, *began, *ns, cause.to_string()))
            .collect();
        if let Some((last, end)) = self.last_try(&tried) {
            let took_ns = total_ns.saturating_sub(self.began_try.at.since(self.began));
            tries.push(self.try_of(last, self.began_try, took_ns, end.to_string()));
        }
        let trace = self.trace.as_deref();
        let watched = Watched {
            request_id: self.request_id().to_string(),
            trace_id: trace.map(|trace| trace.id_text()),
            spans: trace.filter(|trace| trace.is_recorded()).map(|trace| Spans {
                trace: trace.id(),
                parent: trace.parent(),
                server: trace.span(0),
                scheme: self.client.peer.scheme(),
                policy: self.pool.map(|pool| pool.balancer.borrow().algorithm()).unwrap_or_default(),
            }),
            at_ns: head.at_ns,
            worker: core.index,
            listener: self.client.listener.name.clone(),
            route: self.rules.routes.planned.get(self.route).map(|route| route.name.clone()).unwrap_or_default(),
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
        }
        .into();
        core.taps.tell(&ids, &watched);
        if watched.spans.is_some() {
            core.traces.tell(&watched);
        }
    }

    fn try_of(&self, endpoint: &Endpoint, began: Began, took_ns: u64, end: String) -> Try {
        Try {
            endpoint: endpoint.name.clone(),
            addr: endpoint.addr,
            number: began.number,
            how: began.how.name(),
            span: self.trace.as_ref().map_or(0, |trace| trace.span(began.number)),
            at_ns: began.at.since(self.began),
            took_ns,
            end,
        }
    }
}
