//! End of a request: its counters, its log line, its export and its explanation.

use super::Record;
use crate::observe::access_log::{AccessLog, Line, NOWHERE};
use crate::observe::end::Cause;
use crate::observe::finished::Spans;
use crate::observe::summary::Summary;
use crate::observe::timing::Timing;
use crate::observe::tries::Try;
use crate::peer::address_text::AddressText;
use crate::record::access_line::AccessLine;
use crate::record::explanation::Explanation;
use crate::record::export::Export;
use evenkeel_balance::Clock;
use evenkeel_view::picks::{Explained, FilterStep, QuicFigures};
use std::sync::Arc;

impl Record<'_> {
    /// Passes the end of the request to the counters and observers.
    pub(super) fn note_ended(&mut self) {
        self.count(&self.summary());
        if self.explanation.is_some() || self.export.is_some() || self.client.core.log.borrow().is_some() {
            self.observers_end();
        }
    }

    /// Summary of the request until now.
    #[inline]
    fn summary(&self) -> Summary {
        let timing = self.exchange.timing.get();
        Summary {
            tries: self.tries,
            status: match self.sent_as.get() {
                0 => self.status.get(),
                status => status,
            },
            call_status: self.call.get().ended(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            timing: Timing { total_ns: self.client.core.clock.now().since(timing.began), ..timing },
            cause: self.cause.get(),
            phase: self.phase.get(),
        }
    }

    /// Adds the request to the counters of its listener, route and pool.
    #[inline]
    fn count(&self, summary: &Summary) {
        let Summary { status, call_status, bytes_in, bytes_out, timing, cause, .. } = *summary;
        let exchange = &self.exchange;
        exchange.stats.bytes_in.add(bytes_in);
        exchange.stats.bytes_out.add(bytes_out);
        exchange.stats.ends[cause as usize].add(1);
        self.rules.stats(self.route).count(self.method, status, timing.total_ns, self.is_sent);
        if let (Some(pool), Some(_)) = (exchange.facts.pool, &exchange.facts.endpoint) {
            pool.stats.record(&timing);
            if let Some(status) = call_status {
                pool.stats.grpc[usize::from(status.code())].add(1);
            }
        }
    }

    /// Passes the end to the optional observers. Kept out of line for requests that have none.
    #[inline(never)]
    fn observers_end(&mut self) {
        let (core, summary) = (self.client.core, self.summary());
        if let Some(explanation) = self.explanation.take() {
            self.keep_explained(*explanation, &summary);
        }
        if let Some(export) = self.export.take() {
            self.hand_over(*export, &summary);
        }
        if let Some(log) = &mut *core.log.borrow_mut() {
            let line = self.line.take().unwrap_or_default();
            self.log(line, log, &summary);
        }
    }

    /// Hands the explanation to the worker.
    #[cold]
    fn keep_explained(&self, explanation: Explanation, summary: &Summary) {
        let (core, exchange) = (self.client.core, &self.exchange);
        let (listener, route, pool) = self.names();
        let step = |(name, did): (&'static str, _)| FilterStep { name: name.into(), did };
        let explained = explanation.into_explained();
        let of_listener = self.rules.filters.steps(exchange).map(step);
        let of_route = self.rules.filters_of(self.route).steps(exchange).map(step);
        let filters = of_listener.chain(explained.filters).chain(of_route).collect();
        core.explanations.keep(Explained {
            request_id: exchange.request_id().to_string(),
            trace_id: exchange.facts.trace.as_ref().map(|trace| trace.id_text()),
            worker: core.index as u64,
            listener,
            protocol: self.proto.into(),
            quic: self.client.peer.quic().map(|quic| QuicFigures {
                handshake_ns: quic.handshake_ns,
                migrations: quic.migrations,
                packets_lost: quic.packets_lost,
            }),
            route,
            pool,
            filters,
            queue_ns: summary.timing.queue_ns,
            status: summary.status,
            end: summary.cause.label().into(),
            phase: summary.phase.label().into(),
            total_ns: summary.timing.total_ns,
            ..explained
        });
    }

    /// Hands the request to the taps that want it, and to the span exporter if its trace is recorded.
    #[cold]
    fn hand_over(&self, export: Export, summary: &Summary) {
        let Export { taps, mut request } = export;
        let (core, exchange) = (self.client.core, &self.exchange);
        let trace = exchange.facts.trace.as_deref();
        request.request_id = exchange.request_id().to_string();
        request.trace_id = trace.map(|trace| trace.id_text());
        request.spans = trace.filter(|trace| trace.is_recorded()).map(|trace| Spans {
            trace: trace.id(),
            parent: trace.parent(),
            server: trace.span(0),
            scheme: exchange.peer.scheme(),
            policy: exchange.facts.pool.map(|pool| pool.balancer.borrow().algorithm()).unwrap_or_default(),
        });
        request.worker = core.index;
        (request.listener, request.route, request.pool) = self.names();
        request.client = exchange.client().to_string();
        request.protocol = self.proto;
        request.summary = *summary;
        request.reason = self.reason.get().map(|reason| reason.to_string());
        request.tries.extend(self.last_try(request.tries.len(), summary));
        let request = Arc::new(request);
        core.taps.tell(&taps, &request);
        if request.spans.is_some() {
            core.traces.tell(&request);
        }
    }

    /// Writes the line of the access log. It has a list of tries if there were several.
    fn log(&self, line: AccessLine, log: &mut AccessLog, summary: &Summary) {
        let AccessLine { asked, answered, mut tries, .. } = line;
        let (core, peer, exchange) = (self.client.core, &self.client.peer, &self.exchange);
        let ip = peer.ip_text();
        let origin = exchange.facts.origin.map(AddressText::of);
        let announced = peer.announced_by().map(AddressText::of);
        if summary.tries < 2 {
            tries.clear();
        } else {
            tries.extend(self.last_try(tries.len(), summary));
        }
        let taken = self.rules.named(self.client.listener, self.route);
        let client = origin.as_ref().map_or(ip, AddressText::as_bytes);
        let line = Line {
            client_port: if origin.is_some() { 0 } else { peer.port },
            peer: announced.as_ref().map(AddressText::as_bytes).or(origin.is_some().then_some(ip)),
            sent: exchange.facts.pool.map_or(&NOWHERE, |pool| pool.named(exchange.facts.endpoint.as_deref())),
            user: exchange.facts.user.as_deref(),
            cache: exchange.cache_result(),
            tls: peer.tls(),
            quic: peer.quic(),
            asked: &asked,
            answered: &answered.into_inner(),
            attempts: &tries,
            drawn_from: self.drawn_from,
            reason: self.reason.get().map(|reason| &**reason),
            first_route: self.first_route(),
            ..Line::new(self.proto, exchange.request_id(), client, taken, *summary)
        };
        log.add(&line, &core.clock);
        core.give_back(asked);
    }

    /// Name of the route that the client's request has matched, if another route answers; empty if none matched.
    fn first_route(&self) -> Option<&str> {
        let first = self.exchange.facts.redirects.as_ref()?.first?;
        Some(self.rules.routes.planned.get(first).map_or("", |route| &route.name))
    }

    /// Names of the listener, route and pool; empty where there is none.
    fn names(&self) -> (Arc<str>, Arc<str>, Arc<str>) {
        let route = self.rules.routes.planned.get(self.route);
        (
            self.client.listener.name.clone(),
            route.map(|route| route.name.clone()).unwrap_or_default(),
            self.exchange.facts.pool.map(|pool| pool.name.clone()).unwrap_or_default(),
        )
    }

    /// The last try, unless it is one of the `lost` tries that are in the list already.
    fn last_try(&self, lost: usize, summary: &Summary) -> Option<Try> {
        let last = self.exchange.facts.endpoint.as_deref().filter(|_| (lost as u64) < u64::from(summary.tries))?;
        let end = match summary.cause {
            Cause::Normal => "answered",
            cause => cause.label(),
        };
        Some(self.try_of(last, self.current_try, end.into()))
    }
}
