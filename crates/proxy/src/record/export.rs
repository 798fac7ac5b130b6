//! Taps and traces as an observer of a request: keeps its head if a tap may want it or its trace is recorded, and hands
//! it over at its end.

use crate::observe::finished::{FinishedRequest, Spans};
use crate::observe::summary::Summary;
use crate::observe::tries::Try;
use crate::record::progress::Progress;
use evenkeel_wire::head::Request;
use std::sync::Arc;

/// A request that is handed to taps or to the span exporter at its end.
pub struct Export {
    /// Ids of the taps whose filters match the head.
    taps: Vec<u64>,
    request: FinishedRequest,
}

impl Export {
    /// Begins with a request's head; `None` if no tap wants it and its trace is not recorded.
    #[inline]
    pub fn begin(progress: &Progress<'_>, request: &Request<'_, '_>) -> Option<Box<Export>> {
        let taps = progress.core.taps.wanting(request);
        let is_recorded = progress.facts.trace.as_ref().is_some_and(|trace| trace.is_recorded());
        if taps.is_none() && !is_recorded {
            return None;
        }
        Some(Box::new(Export { taps: taps.unwrap_or_default(), request: FinishedRequest::begin(request) }))
    }

    /// Adds a try that ended without a response for the client.
    pub fn try_ended(&mut self, one: Try) {
        self.request.tries.push(one);
    }

    /// Hands the request to the taps that want it, and to the span exporter if its trace is recorded.
    #[cold]
    pub fn ended(self, progress: &Progress<'_>, summary: &Summary) {
        let Export { taps, mut request } = self;
        let (core, trace) = (progress.core, progress.facts.trace.as_deref());
        request.request_id = progress.request_id().to_string();
        request.trace_id = trace.map(|trace| trace.id_text());
        request.spans = trace.filter(|trace| trace.is_recorded()).map(|trace| Spans {
            trace: trace.id(),
            parent: trace.parent(),
            server: trace.span(0),
            scheme: progress.peer.scheme(),
            policy: progress.facts.pool.map(|pool| pool.balancer.borrow().algorithm()).unwrap_or_default(),
        });
        request.worker = core.index;
        (request.listener, request.route, request.pool) = progress.names();
        request.client = progress.client().to_string();
        request.protocol = progress.proto;
        request.summary = *summary;
        request.reason = progress.reason.get().map(|reason| reason.to_string());
        request.tries.extend(progress.last_try(request.tries.len(), summary));
        let request = Arc::new(request);
        core.taps.tell(&taps, &request);
        if request.spans.is_some() {
            core.traces.tell(&request);
        }
    }
}
