//! The record of a request: its facts so far, and its events in order, each passed to the observers that want it
//! (access log, taps and traces, explanations). Without an observer, each event costs one branch. [`ended`] passes the
//! end to the observers and the counters.

mod access_line;
mod ended;
pub mod explanation;
mod export;
pub mod grpc;

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::table;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::load::reports::Received;
use crate::observe::end::{Cause, Phase};
use crate::observe::stats::{self, Redirected};
use crate::observe::timing::Timing;
use crate::observe::tries::{How, Try, TryStart, failure_text};
use crate::record::access_line::AccessLine;
use crate::record::explanation::Explanation;
use crate::record::export::Export;
use crate::record::grpc::Call;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::{Endpoint, WorkerPool};
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{Clock, Instant, Slot};
use evenkeel_config::plan::Errors;
use evenkeel_wire::grpc::Status;
use evenkeel_wire::h2::Malformed;
use evenkeel_wire::head::{Fields, Request};
use evenkeel_wire::http1::translate::phrase;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::time::Duration;

/// Facts about a request so far, and its observers.
pub struct Record<'c> {
    pub client: &'c Client<'c>,
    /// Rules of the listener that apply to the request.
    pub rules: &'c Rules,
    /// The part of the request that filters see.
    pub exchange: Exchange<'c>,
    /// Index of the route in the plan; the number of routes if none matches.
    pub route: usize,
    /// Index of the method in [`stats::METHODS`].
    method: usize,
    /// Protocol of the client, as written to the access log.
    pub proto: &'static str,
    /// Number of tries so far, including failed connects.
    pub tries: u32,
    /// Number of endpoints that the endpoint of the first try was drawn from; 0 if it was picked.
    drawn_from: u32,
    /// True once all filters have passed the request on to its pool, even if the pool has no endpoint for it.
    pub is_sent: bool,
    /// Start of the current or last try.
    pub current_try: TryStart,
    /// Load that the endpoint reported with its response.
    pub received: Cell<Option<Received>>,
    /// Status of the response; 0 if none was sent.
    pub status: Cell<u16>,
    /// Status that the client got instead; 0 if it got the status of the response.
    pub sent_as: Cell<u16>,
    /// State of the request as a gRPC call.
    pub call: Cell<Call>,
    /// Bytes received from the client.
    pub bytes_in: Cell<u64>,
    /// Bytes sent to the client.
    bytes_out: Cell<u64>,
    /// Current phase; the access log has the last phase.
    pub phase: Cell<Phase>,
    /// The side that ended the request early; `Normal` until then.
    cause: Cell<Cause>,
    /// The rule that the endpoint broke in the last try, if it is known more precisely than the kind of fault.
    pub broken: Cell<Option<Malformed>>,
    /// Reason why this proxy answers instead of an endpoint, for the log.
    reason: OnceCell<Box<str>>,
    /// Status and response with which to end a gRPC call that was cut short after its response began.
    pub cut: Cell<Option<Box<(Status, Response)>>>,
    /// Response of this proxy that the client gets instead of the endpoint's.
    pub instead: Cell<Option<Box<Response>>>,
    /// The access log, if it is on.
    line: Option<AccessLine>,
    /// Taps and traces, if any wants the request.
    export: Option<Box<Export>>,
    /// Explanation, if the picks are to be explained.
    explanation: Option<Box<Explanation>>,
}

impl<'c> Record<'c> {
    /// Begins the record of a request whose head is being read, with no route yet.
    pub fn new(client: &'c Client<'c>, rules: &'c Rules) -> Record<'c> {
        Record {
            client,
            rules,
            exchange: Exchange::new(client.core, &client.peer, &client.listener.stats),
            route: rules.unrouted(),
            method: stats::METHODS.len() - 1,
            proto: "HTTP/1.1",
            tries: 0,
            drawn_from: 0,
            is_sent: false,
            current_try: TryStart { at: Instant(0), number: 0, how: How::Picked },
            received: Cell::new(None),
            status: Cell::new(0),
            sent_as: Cell::new(0),
            call: Cell::default(),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            phase: Cell::new(Phase::Request),
            cause: Cell::new(Cause::Normal),
            broken: Cell::new(None),
            reason: OnceCell::new(),
            cut: Cell::new(None),
            instead: Cell::new(None),
            line: None,
            export: None,
            explanation: None,
        }
    }

    /// The explanation in progress; `None` unless this request is explained.
    #[inline]
    pub fn explanation(&self) -> Option<&Explanation> {
        self.explanation.as_deref()
    }

    /// Notes that the head was read and has passed the filters of its listener.
    pub fn note_asked(&mut self, request: &Request<'_, '_>) {
        let (core, trace) = (self.client.core, self.exchange.facts.trace.as_deref());
        self.method = stats::method_index(request.method);
        self.export = Export::begin(core, trace, request);
        if let Some(log) = &*core.log.borrow() {
            self.line = Some(AccessLine::begin(core, log, trace, request));
        }
    }

    /// Notes the route and pool of the request.
    #[inline]
    pub fn note_routed(&mut self, request: &mut Request<'_, '_>, route: usize, pool: Option<&'c WorkerPool>) {
        self.route = route;
        self.exchange.facts.pool = pool;
        let Some(pool) = pool else { return };
        let core = self.client.core;
        if let Some(trigger) = core.explanations.trigger(request, &pool.name) {
            self.explanation.get_or_insert_with(|| Explanation::begin(trigger, request, core.clock.now()));
        }
    }

    /// Notes that another route is to answer. What the route so far has kept is dropped.
    #[cold]
    pub fn note_redirected(&mut self, why: Redirected) {
        let (rules, now) = (self.rules, self.client.core.clock.now());
        rules.stats(self.route).redirected[why as usize].add(1);
        let timing = self.exchange.timing.get();
        if let (Some(pool), Some(endpoint)) = (self.exchange.facts.pool, self.exchange.facts.endpoint.clone()) {
            pool.stats.record(&Timing { total_ns: now.since(timing.began), ..timing });
            // A try that failed is in the lists already.
            let logged = self.line.as_ref().map_or(0, |line| line.tries.len());
            let exported = self.export.as_ref().map_or(0, |export| export.request.tries.len());
            if (logged.max(exported) as u64) < u64::from(self.tries) {
                self.note_try_ended(&endpoint, self.current_try, "redirected internally");
            }
        }
        if let Some(explanation) = &mut self.explanation {
            explanation.passed(rules.filters_of(self.route).steps(&self.exchange));
        }
        self.exchange.leave_route(table::is_of_listener);
        self.exchange.timing.set(Timing { ttfb_ns: None, connect_ns: None, ..timing });
        self.is_sent = false;
        self.drawn_from = 0;
        self.received.take();
        self.status.set(0);
        self.sent_as.set(0);
        self.phase.set(Phase::Request);
    }

    /// Notes the start of a try.
    #[inline]
    pub fn note_try_began(&mut self, pool: &WorkerPool, ticket: &InFlight<'_>, how: How) {
        self.tries += 1;
        self.current_try = TryStart { at: ticket.began(), number: self.tries, how };
        if ticket.drawn_from > 0 && self.tries == 1 {
            self.drawn_from = ticket.drawn_from;
            pool.stats.explored.add(1);
        }
        if let Some(explanation) = &self.explanation {
            explanation.try_began(pool, ticket, how);
        }
    }

    /// Notes that the current try at `slot` failed, by the fault of `by`. `reply` is the client's response if no
    /// other try follows.
    #[cold]
    pub fn note_try_failed(&mut self, slot: Slot, failure: Option<Failure>, by: Cause, reply: Option<&Response>) {
        if let Some(explanation) = &self.explanation {
            let why = reply.map(Response::why);
            explanation.try_failed(slot, why.as_deref().unwrap_or(by.text()));
        }
        if let Some(endpoint) = self.exchange.facts.endpoint.clone() {
            self.note_try_ended(&endpoint, self.current_try, failure_text(failure, by));
        }
    }

    /// Notes a try that ended without a response for the client.
    #[cold]
    pub fn note_try_ended(&mut self, endpoint: &Endpoint, start: TryStart, end: impl Into<Cow<'static, str>>) {
        let is_logged = self.client.core.log.borrow().is_some();
        if !is_logged && self.export.is_none() {
            return;
        }
        let one = self.try_of(endpoint, start, end.into());
        if let Some(export) = &mut self.export {
            export.request.tries.push(one.clone());
        }
        if is_logged {
            self.line.get_or_insert_default().tries.push(one);
        }
    }

    /// Describes a try that ends now.
    fn try_of(&self, endpoint: &Endpoint, start: TryStart, end: Cow<'static, str>) -> Try {
        Try {
            endpoint: endpoint.name.clone(),
            addr: endpoint.addr.clone(),
            number: start.number,
            how: start.how,
            span: self.exchange.facts.trace.as_ref().map_or(0, |trace| trace.span(start.number)),
            at_ns: start.at.since(self.exchange.timing.get().began),
            took_ns: self.client.core.clock.now().since(start.at),
            end,
        }
    }

    /// Notes the fields of the response that goes to the client.
    #[inline]
    pub fn note_response(&self, fields: &mut Fields<'_, '_>) {
        if let Some(line) = &self.line {
            line.answered(self.client.core, fields);
        }
    }

    /// Notes the side that ended the request; the first cause counts.
    pub fn blame(&self, cause: Cause) {
        if self.cause.get() == Cause::Normal {
            self.cause.set(cause);
        }
    }

    /// Notes how long a connection took to open. `None` leaves the time as it is.
    #[inline]
    pub fn note_connected(&self, connect_ns: Option<u64>) {
        if connect_ns.is_some() {
            self.exchange.timing.update(|timing| Timing { connect_ns, ..timing });
        }
    }

    /// Adds bytes received from the client.
    pub fn count_in(&self, n: usize) {
        self.bytes_in.set(self.bytes_in.get() + n as u64);
    }

    /// Adds bytes sent to the client.
    pub fn count_out(&self, n: usize) {
        self.bytes_out.set(self.bytes_out.get() + n as u64);
    }

    /// Appends the parts of a head that differ by try: to `lines` the span and the remaining deadline of a gRPC call,
    /// and to `host` the endpoint's host, if the route sends it.
    #[inline]
    pub fn write_try(&self, endpoint: &Endpoint, call_left: Option<Duration>, lines: &mut Vec<u8>, host: &mut Vec<u8>) {
        let exchange = &self.exchange;
        if exchange.facts.sends_host_of_endpoint
            && let Some(pool) = exchange.facts.pool
        {
            pool.write_host(endpoint, host);
        }
        if let Some(trace) = &exchange.facts.trace {
            trace.write(self.current_try.number, lines);
        }
        if let Some(left) = call_left {
            grpc::write_timeout(left, lines);
        }
    }

    /// The line of text that the client reads instead of an endpoint's response. Also notes the reason for the access
    /// log.
    #[cold]
    pub fn text_of(&self, response: &Response) -> String {
        let why = response.why();
        self.note_reason(&why);
        let is_logged = self.client.core.log.borrow().is_some();
        // The client gets the id only if it can be found in the log or was passed on to others.
        let is_known = is_logged || self.rules.plan.request_id.is_some();
        let (status, phrase) = (response.status, phrase(response.status));
        match self.rules.plan.errors {
            Errors::Detailed => format!("{status} {phrase}: {why}\n"),
            Errors::Terse if is_known => format!("{status} {phrase} (request {})\n", self.exchange.request_id()),
            Errors::Terse => format!("{status} {phrase}\n"),
        }
    }

    /// Keeps the reason why no endpoint sent a whole response. The first reason counts.
    #[cold]
    pub fn note_reason(&self, why: &str) {
        if self.client.core.log.borrow().is_some() || self.export.is_some() {
            self.reason.get_or_init(|| why.into());
        }
    }
}

/// Counts and logs the request, even if it was dropped half-way because its client vanished or the process ends.
impl Drop for Record<'_> {
    fn drop(&mut self) {
        self.note_ended();
    }
}
