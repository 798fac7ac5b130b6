//! The record of a session, filled in while it runs and written to counters and the access log when it is dropped.

use super::duplex::Side;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::access_log::{Line, NOWHERE};
use crate::observe::end::{Cause, Phase};
use crate::observe::summary::Summary;
use crate::observe::timing::Timing;
use crate::peer::address_text::AddressText;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::{Endpoint, WorkerPool};
use evenkeel_balance::Clock;
use evenkeel_net::transport::Transport;
use std::cell::Cell;
use std::rc::Rc;

/// Facts about a session so far.
pub struct Record<'c> {
    pub client: &'c Client<'c>,
    transport: &'c Transport,
    pub rules: &'c Rules,
    /// Times so far, counted from the start of the session, after a TLS handshake.
    pub timing: Cell<Timing>,
    /// Index of the route in the plan, once it is known; the number of routes if none matches.
    route: Option<usize>,
    /// Pool of the route; `None` until it is known.
    pool: Option<&'c WorkerPool>,
    /// The endpoint that was picked last.
    pub endpoint: Option<Rc<Endpoint>>,
    /// Number of tries so far, including failed connects.
    pub tries: u32,
    /// Number of endpoints that the endpoint of the first try was drawn from; 0 if it was picked.
    drawn_from: u32,
    /// Server name from the ClientHello, if it is known.
    pub host: Option<Box<str>>,
    /// Current phase; the access log has the last phase.
    pub phase: Cell<Phase>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    cause: Cell<Cause>,
    /// Reason why no endpoint was reached, for the log.
    pub reason: Option<String>,
}

impl<'c> Record<'c> {
    /// Begins the record of a session that has no route yet.
    pub fn new(client: &'c Client<'c>, transport: &'c Transport, rules: &'c Rules) -> Record<'c> {
        Record {
            client,
            transport,
            rules,
            timing: Cell::new(Timing::new(client.core.clock.now())),
            route: None,
            pool: None,
            endpoint: None,
            tries: 0,
            drawn_from: 0,
            host: None,
            phase: Cell::new(Phase::Request),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            cause: Cell::new(Cause::Normal),
            reason: None,
        }
    }

    /// Counts the session at its route. `pool` is `None` if no route matches.
    pub fn note_routed(&mut self, route: usize, pool: Option<&'c WorkerPool>) {
        (self.route, self.pool) = (Some(route), pool);
        self.rules.stats(route).sessions.add(1);
    }

    /// Notes the endpoint of the next try.
    pub fn note_try_began(&mut self, ticket: &InFlight<'_>) {
        self.endpoint = Some(ticket.endpoint.clone());
        self.tries += 1;
        self.phase.set(Phase::Connect);
        if ticket.drawn_from > 0 && self.tries == 1 {
            self.drawn_from = ticket.drawn_from;
            ticket.pool.stats.explored.add(1);
        }
    }

    /// Counts the session at its endpoint, which has just been connected and gets the bytes that have come so far.
    pub fn note_connected(&self, connect_ns: u64) {
        self.timing.update(|timing| Timing { connect_ns: Some(connect_ns), ..timing });
        self.phase.set(Phase::Data);
        if let Some(endpoint) = &self.endpoint {
            endpoint.stats.sessions.add(1);
            endpoint.stats.sent.add(self.bytes_in.get());
            endpoint.stats.latency.record(connect_ns);
        }
    }

    /// Adds bytes received from the client.
    pub fn count_in(&self, n: usize) {
        self.bytes_in.set(self.bytes_in.get() + n as u64);
        // To the listener at once, as a session may last for months.
        self.client.listener.stats.bytes_in.add(n as u64);
        if let Some(endpoint) = &self.endpoint {
            endpoint.stats.sent.add(n as u64);
        }
    }

    /// Adds bytes sent to the client. The first bytes set the time to first byte.
    pub fn count_out(&self, n: usize) {
        let timing = self.timing.get();
        if timing.ttfb_ns.is_none() {
            let ttfb_ns = Some(self.client.core.clock.now().since(timing.began));
            self.timing.set(Timing { ttfb_ns, ..timing });
        }
        self.bytes_out.set(self.bytes_out.get() + n as u64);
        self.client.listener.stats.bytes_out.add(n as u64);
        if let Some(endpoint) = &self.endpoint {
            endpoint.stats.received.add(n as u64);
        }
    }

    /// Notes the side that ended the session; the first cause counts.
    pub fn blame(&self, cause: Cause) {
        if self.cause.get() == Cause::Normal {
            self.cause.set(cause);
        }
    }

    /// Counts a reset by `side`, and blames it for the end.
    pub fn reset_by(&self, side: Side) {
        self.client.listener.stats.resets[side as usize].add(1);
        self.blame(match side {
            Side::Client => Cause::Client,
            Side::Endpoint => Cause::Endpoint,
        });
    }

    /// True if the endpoint has sent anything.
    pub fn is_answered(&self) -> bool {
        self.timing.get().ttfb_ns.is_some()
    }

    /// True if the session reached no endpoint of its pool, or failed by the fault of its endpoint.
    fn has_failed(&self, summary: &Summary) -> bool {
        match summary.cause {
            Cause::Endpoint => true,
            Cause::Proxy | Cause::EndpointSlow => self.pool.is_some() && summary.phase != Phase::Data,
            _ => false,
        }
    }

    /// Notes that the session ended normally.
    pub fn done(&self) {
        self.phase.set(Phase::Done);
    }
}

/// Counts and logs the session, even if it was dropped half-way because its time or the process ends. Unless it ended
/// normally, the client's connection is reset, so that a cut does not look like the end of the data.
impl Drop for Record<'_> {
    fn drop(&mut self) {
        if self.phase.get() != Phase::Done {
            self.blame(Cause::Proxy);
            self.transport.reset_on_close(true);
        }
        if self.route.is_none() {
            self.note_routed(self.rules.unrouted(), None);
        }
        let route = self.route.unwrap_or(self.rules.unrouted());
        let core = self.client.core;
        let timing = self.timing.get();
        let timing = Timing { total_ns: core.clock.now().since(timing.began), ..timing };
        let summary = Summary {
            tries: self.tries,
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            timing,
            cause: self.cause.get(),
            phase: self.phase.get(),
            ..Summary::default()
        };
        let listener = &self.client.listener.stats;
        listener.ends[summary.cause as usize].add(1);
        let of_route = self.rules.stats(route);
        of_route.session.record(timing.total_ns);
        of_route.sessions_failed.add(u64::from(self.has_failed(&summary)));
        if let (Some(pool), Some(_)) = (self.pool, &self.endpoint) {
            pool.stats.record(&timing);
        }
        let mut log = core.log.borrow_mut();
        let Some(log) = log.as_mut() else { return };
        let mut asked = core.scratch();
        log.layout.keep_name(self.host.as_deref(), &mut asked);
        let peer = self.client.peer.announced_by().map(AddressText::of);
        let taken = self.rules.named(self.client.listener, route);
        let id = core.next_request_id();
        let line = Line {
            client_port: self.client.peer.port,
            peer: peer.as_ref().map(AddressText::as_bytes),
            sent: self.pool.map_or(&NOWHERE, |pool| pool.named(self.endpoint.as_deref())),
            tls: self.client.peer.tls(),
            asked: &asked,
            drawn_from: self.drawn_from,
            reason: self.reason.as_deref(),
            ..Line::new("TCP", &id, self.client.peer.ip_text(), taken, summary)
        };
        log.add(&line, &core.clock);
        core.give_back(asked);
    }
}
