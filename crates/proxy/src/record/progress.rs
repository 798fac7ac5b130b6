//! Progress of a request: the facts known so far. Filled in while it runs, and read by the observers.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::load::reports::Received;
use crate::observe::end::{Cause, Phase};
use crate::observe::stats;
use crate::observe::summary::Summary;
use crate::observe::timing::Timing;
use crate::observe::tries::{How, Try, TryStart};
use crate::record::grpc::{self, Call};
use crate::upstream::pool::Endpoint;
use evenkeel_balance::{Clock, Instant};
use evenkeel_wire::grpc::Status;
use evenkeel_wire::h2::Malformed;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Facts about a request so far.
pub struct Progress<'c> {
    pub(super) client: &'c Client<'c>,
    /// Rules of the listener that apply to the request.
    pub rules: &'c Rules,
    /// The part of the request that filters see.
    exchange: Exchange<'c>,
    /// Index of the route in the plan; one past the last route if none matches.
    pub route: usize,
    /// Index of the method in [`stats::METHODS`].
    pub(super) method: usize,
    /// Protocol of the client, as written to the access log.
    pub proto: &'static str,
    /// Number of tries so far, including failed connects.
    pub tries: u32,
    /// True once all filters have passed the request on to its pool, whether or not that has an endpoint for it.
    pub is_sent: bool,
    /// Start of the current or last try.
    pub current_try: TryStart,
    /// Load that the endpoint reported with its response.
    pub received: Cell<Option<Received>>,
    /// Status of the response; 0 if none was sent.
    pub status: Cell<u16>,
    /// State of the request as a gRPC call.
    pub call: Cell<Call>,
    /// Bytes received from the client.
    pub bytes_in: Cell<u64>,
    /// Bytes sent to the client.
    bytes_out: Cell<u64>,
    /// Current phase; the access log has the last one.
    pub phase: Cell<Phase>,
    /// The side that ended the request early; `Normal` until then.
    cause: Cell<Cause>,
    /// The rule that the endpoint broke in the last try, if it is known more precisely than the kind of fault.
    pub broken: Cell<Option<Malformed>>,
    /// Reason why this proxy answers instead of an endpoint, for the log.
    pub reason: OnceCell<Box<str>>,
    /// Status and response with which to end a gRPC call that was cut short after its response began.
    pub cut: Cell<Option<Box<(Status, Response)>>>,
    /// Response of this proxy that the client gets instead of the endpoint's.
    pub instead: Cell<Option<Box<Response>>>,
}

impl<'c> Deref for Progress<'c> {
    type Target = Exchange<'c>;

    #[inline]
    fn deref(&self) -> &Exchange<'c> {
        &self.exchange
    }
}

impl<'c> DerefMut for Progress<'c> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Exchange<'c> {
        &mut self.exchange
    }
}

impl<'c> Progress<'c> {
    /// A request whose head is being read, with no route yet.
    pub fn new(client: &'c Client<'c>, rules: &'c Rules) -> Progress<'c> {
        Progress {
            client,
            rules,
            exchange: Exchange::new(client.core, &client.peer, &client.listener.stats),
            route: rules.unrouted(),
            method: stats::METHODS.len() - 1,
            proto: "HTTP/1.1",
            tries: 0,
            is_sent: false,
            current_try: TryStart { at: Instant(0), number: 0, how: How::Picked },
            received: Cell::new(None),
            status: Cell::new(0),
            call: Cell::default(),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            phase: Cell::new(Phase::Request),
            cause: Cell::new(Cause::Normal),
            broken: Cell::new(None),
            reason: OnceCell::new(),
            cut: Cell::new(None),
            instead: Cell::new(None),
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
            self.timing.update(|timing| Timing { connect_ns, ..timing });
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

    /// Appends what only the endpoint of this try gets: to `lines` its span and the remaining deadline of a gRPC call, to
    /// `host` its host, if endpoints get their own.
    #[inline]
    pub fn write_try(&self, endpoint: &Endpoint, call_left: Option<Duration>, lines: &mut Vec<u8>, host: &mut Vec<u8>) {
        if self.facts.sends_host_of_endpoint
            && let Some(pool) = self.facts.pool
        {
            pool.write_host(endpoint, host);
        }
        if let Some(trace) = &self.facts.trace {
            trace.write(self.current_try.number, lines);
        }
        if let Some(left) = call_left {
            grpc::write_timeout(left, lines);
        }
    }

    /// Summary of the request until now.
    #[inline]
    pub(super) fn summary(&self) -> Summary {
        let timing = self.timing.get();
        Summary {
            tries: self.tries,
            status: self.status.get(),
            call_status: self.call.get().ended(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            timing: Timing { total_ns: self.core.clock.now().since(timing.began), ..timing },
            cause: self.cause.get(),
            phase: self.phase.get(),
        }
    }

    /// Names of the listener, route and pool; empty where there is none.
    pub(super) fn names(&self) -> (Arc<str>, Arc<str>, Arc<str>) {
        let route = self.rules.routes.planned.get(self.route);
        (
            self.client.listener.name.clone(),
            route.map(|route| route.name.clone()).unwrap_or_default(),
            self.facts.pool.map(|pool| pool.name.clone()).unwrap_or_default(),
        )
    }

    /// The last try, unless it is one of the `lost` tries that are in the list already.
    pub(super) fn last_try(&self, lost: usize, summary: &Summary) -> Option<Try> {
        let last = self.facts.endpoint.as_deref().filter(|_| (lost as u64) < u64::from(summary.tries))?;
        let end = match summary.cause {
            Cause::Normal => "answered",
            cause => cause.label(),
        };
        Some(self.try_of(last, self.current_try, end.into()))
    }

    /// Describes a try that ends now.
    pub(super) fn try_of(&self, endpoint: &Endpoint, start: TryStart, end: Cow<'static, str>) -> Try {
        Try {
            endpoint: endpoint.name.clone(),
            addr: endpoint.addr.clone(),
            number: start.number,
            how: start.how,
            span: self.facts.trace.as_ref().map_or(0, |trace| trace.span(start.number)),
            at_ns: start.at.since(self.timing.get().began),
            took_ns: self.core.clock.now().since(start.at),
            end,
        }
    }
}
