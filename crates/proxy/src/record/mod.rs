//! How did a request go? Filled in while it runs, and written to counters and the access log at its end.

pub mod grpc;
pub mod noted;
pub mod traced;
pub mod try_end;
mod watch;
pub mod why;

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::load::reports::Received;
use crate::observe::access_log::{AccessLog, Line, NOWHERE};
use crate::observe::end::{Cause, Phase};
use crate::observe::{stats, taps};
use crate::peer::address_text::AddressText;
use crate::record::grpc::Call;
use crate::record::try_end::{Began, How, TryEnd};
use crate::record::why::Why;
use evenkeel_balance::{Clock, Instant};
use evenkeel_config::plan::Errors;
use evenkeel_view::picks::{Explained, FilterStep};
use evenkeel_wire::grpc::Status;
use evenkeel_wire::h2::Malformed;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::translate::phrase;
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::{Deref, DerefMut};

/// One request.
pub struct Record<'c> {
    pub(super) client: &'c Client<'c>,
    /// By which it is served.
    pub rules: &'c Rules,
    /// The request as filters see it.
    exchange: Exchange<'c>,
    /// Index in the plan; one more than the last if no route took it.
    pub route: usize,
    /// Index of its method in [`stats::METHODS`].
    pub method: usize,
    /// What the client speaks, as the access log says it.
    pub proto: &'static str,
    /// Endpoints it was sent to, or tried to be.
    pub tries: u32,
    /// What came with its response about the endpoint's load.
    pub received: Cell<Option<Received>>,
    /// Of the response; 0 if none was sent.
    pub status: Cell<u16>,
    /// Whether it is a gRPC call, and how that ended.
    pub call: Cell<Call>,
    /// From the client.
    pub bytes_in: Cell<u64>,
    /// To the client.
    pub bytes_out: Cell<u64>,
    /// Waiting for a place at an endpoint.
    pub queue_ns: Cell<u64>,
    /// Until the connection was open, if one had to be opened.
    pub connect_ns: Cell<Option<u64>>,
    /// Until the response's head was there.
    pub ttfb_ns: Cell<Option<u64>>,
    /// Where it is.
    pub phase: Cell<Phase>,
    /// Who ended it.
    pub cause: Cell<Cause>,
    /// What the access log keeps of its head, if there is one.
    pub asked: Vec<u8>,
    /// Why it went where it went, if that is to be explained.
    pub why: Option<Box<Why>>,
    /// What is kept of its head, if a tap may want it.
    pub(super) watched: Option<Box<taps::Head>>,
    /// What the access log keeps of its response's head.
    pub(super) answered: RefCell<Vec<u8>>,
    /// Tries that came to nothing.
    pub(super) tried: RefCell<Vec<TryEnd>>,
    /// The one that goes on, or failed last.
    pub began_try: Began,
    /// True if fields of its response are logged.
    notes_response: bool,
    /// The rule that the endpoint broke in the last try, where more is known than the kind of its fault.
    pub broken: Cell<Option<Malformed>>,
    /// Why no response of an endpoint went to the client, for the log, if we answer in its place.
    pub(super) reason: OnceCell<Box<str>>,
    /// The end of a gRPC call whose response has begun and does not continue.
    pub cut: Cell<Option<Box<(Status, Response)>>>,
}

impl<'c> Deref for Record<'c> {
    type Target = Exchange<'c>;

    #[inline]
    fn deref(&self) -> &Exchange<'c> {
        &self.exchange
    }
}

impl<'c> DerefMut for Record<'c> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Exchange<'c> {
        &mut self.exchange
    }
}

impl<'c> Record<'c> {
    /// A request whose head has just come.
    pub fn new(client: &'c Client<'c>, rules: &'c Rules) -> Record<'c> {
        Record {
            client,
            rules,
            exchange: Exchange::new(client.core, &client.peer, &client.listener.stats),
            route: rules.unrouted(),
            method: stats::METHODS.len() - 1,
            proto: "HTTP/1.1",
            tries: 0,
            received: Cell::new(None),
            status: Cell::new(0),
            call: Cell::default(),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            queue_ns: Cell::new(0),
            connect_ns: Cell::new(None),
            ttfb_ns: Cell::new(None),
            phase: Cell::new(Phase::Request),
            cause: Cell::new(Cause::Normal),
            asked: Vec::new(),
            why: None,
            watched: None,
            answered: RefCell::default(),
            tried: RefCell::default(),
            began_try: Began { at: Instant(0), number: 0, how: How::Picked },
            notes_response: false,
            broken: Cell::new(None),
            reason: OnceCell::new(),
            cut: Cell::new(None),
        }
    }

    /// Notes what was asked for.
    pub fn note_asked(&mut self, request: &Request<'_, '_>) {
        self.method = stats::method_index(request.method);
        let core = self.client.core;
        self.watched = core.taps.wants(request).or_else(|| self.head_of_span(request));
        if let Some(log) = &*core.log.borrow() {
            self.asked = core.scratch();
            self.notes_response = log.lines.wants_response();
            let trace_id = self.exchange.trace.as_ref().map(|trace| trace.id_text());
            log.lines.keep(request, trace_id, &mut self.asked);
        }
    }

    /// Notes who ended it; the first cause counts.
    pub fn blame(&self, cause: Cause) {
        if self.cause.get() == Cause::Normal {
            self.cause.set(cause);
        }
    }

    /// Returns the line of text that the client reads in the place of an endpoint's response. The access log gets the reason.
    #[cold]
    pub fn text_of(&self, response: &Response) -> String {
        let why = response.why();
        self.note_reason(&why);
        let is_logged = self.client.core.log.borrow().is_some();
        // An id that is found nowhere is of no use.
        let is_known = is_logged || self.rules.plan.request_id.is_some();
        let (status, phrase) = (response.status, phrase(response.status));
        match self.rules.plan.errors {
            Errors::Detailed => format!("{status} {phrase}: {why}\n"),
            Errors::Terse if is_known => format!("{status} {phrase} (request {})\n", self.request_id()),
            Errors::Terse => format!("{status} {phrase}\n"),
        }
    }

    /// Keeps the reason why the response is not an endpoint's, or not whole, where that is of use; the first reason counts.
    #[cold]
    pub fn note_reason(&self, why: &str) {
        if self.client.core.log.borrow().is_some() || self.watched.is_some() {
            self.reason.get_or_init(|| why.into());
        }
    }

    /// Adds bytes from the client.
    pub fn count_in(&self, n: usize) {
        self.bytes_in.set(self.bytes_in.get() + n as u64);
    }

    /// Adds bytes to the client.
    pub fn count_out(&self, n: usize) {
        self.bytes_out.set(self.bytes_out.get() + n as u64);
    }

    /// Writes its line. Out of the way of requests that have none.
    #[inline(never)]
    fn log(&mut self, log: &mut AccessLog, total_ns: u64) {
        let core = self.client.core;
        let ip = self.client.peer.ip_text();
        let origin = self.origin.map(AddressText::of);
        let peer = self.client.peer.announced_by().map(AddressText::of);
        let (answered, tried) = (self.answered.take(), self.tried.take());
        let attempts = self.attempts(&tried);
        let line = Line {
            began: self.began,
            request_id: self.request_id(),
            client: origin.as_ref().map_or(ip, AddressText::as_bytes),
            client_port: if origin.is_some() { 0 } else { self.client.peer.port },
            peer: peer.as_ref().map(AddressText::as_bytes).or(origin.is_some().then_some(ip)),
            taken: self.rules.named(self.client.listener, self.route),
            sent: self.pool.map_or(&NOWHERE, |pool| pool.named(self.endpoint.as_deref())),
            tries: self.tries,
            proto: self.proto,
            tls: self.client.peer.tls(),
            asked: &self.asked,
            answered: &answered,
            attempts: &attempts,
            status: self.status.get(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            queue_ns: self.queue_ns.get(),
            connect_ns: self.connect_ns.get(),
            ttfb_ns: self.ttfb_ns.get(),
            total_ns,
            term: [self.cause.get().letter(), self.phase.get().letter()],
            reason: self.reason.get().map(|reason| &**reason),
            grpc_status: self.call.get().ended().map(Status::name),
        };
        log.add(&line, &core.clock);
        core.give_back(std::mem::take(&mut self.asked));
    }
}

impl Record<'_> {
    /// Keeps why it went where it went.
    #[cold]
    fn explain(&self, why: Box<Why>, total_ns: u64) {
        let core = self.client.core;
        let route = self.rules.routes.planned.get(self.route);
        let mut explained = Explained {
            request_id: self.request_id().to_string(),
            trace_id: self.trace.as_ref().map(|trace| trace.id_text()),
            worker: core.index as u64,
            listener: self.client.listener.name.clone(),
            route: route.map(|route| route.name.clone()).unwrap_or_default(),
            pool: self.pool.map(|pool| pool.name.clone()).unwrap_or_default(),
            queue_ns: self.queue_ns.get(),
            status: self.status.get(),
            end: Cause::LABELS[self.cause.get() as usize].into(),
            phase: Phase::LABELS[self.phase.get() as usize].into(),
            total_ns,
            ..Explained::default()
        };
        let of_listener = self.rules.filters.steps(&self.exchange);
        let steps = of_listener.chain(self.rules.filters_of(self.route).steps(&self.exchange));
        explained.filters = steps.map(|(name, did)| FilterStep { name: name.into(), did }).collect();
        why.fill(&mut explained);
        core.explaining.keep(explained);
    }
}

/// A request dropped half-way, as its client vanished or the process ends, is counted and logged like any other.
impl Drop for Record<'_> {
    fn drop(&mut self) {
        let core = self.client.core;
        let total_ns = core.clock.now().since(self.began);
        let listener = &self.client.listener.stats;
        listener.bytes_in.add(self.bytes_in.get());
        listener.bytes_out.add(self.bytes_out.get());
        listener.ends[self.cause.get() as usize].add(1);
        self.rules.stats(self.route).count(self.method, self.status.get(), total_ns);
        if let (Some(pool), Some(_)) = (self.pool, &self.endpoint) {
            pool.stats.duration.record(total_ns);
            if let Some(ns) = self.ttfb_ns.get() {
                pool.stats.ttfb.record(ns);
            }
            if let Some(ns) = self.connect_ns.get() {
                pool.stats.connect.record(ns);
            }
            if let Some(status) = self.call.get().ended() {
                pool.stats.grpc[usize::from(status.code())].add(1);
            }
        }
        if let Some(why) = self.why.take() {
            self.explain(why, total_ns);
        }
        if let Some(head) = self.watched.take() {
            self.tell_watchers(*head, total_ns);
        }
        if let Some(log) = &mut *core.log.borrow_mut() {
            self.log(log, total_ns);
        }
    }
}
