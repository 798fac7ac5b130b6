//! How did a session go? Filled in while it runs, and written to counters and the access log at its end.

use super::duplex::Side;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::access_log::{Line, NOWHERE};
use crate::observe::end::{Cause, Phase};
use crate::observe::summary::Summary;
use crate::observe::timing::Timing;
use crate::peer::address_text::AddressText;
use crate::upstream::pool::{Endpoint, WorkerPool};
use evenkeel_balance::Clock;
use evenkeel_net::transport::Transport;
use std::cell::Cell;
use std::rc::Rc;

/// One session.
pub struct Record<'c> {
    client: &'c Client<'c>,
    transport: &'c Transport,
    rules: &'c Rules,
    /// Its times so far.
    pub timing: Cell<Timing>,
    /// Index in the plan; one more than the last if no route took it.
    pub route: usize,
    /// Its pool.
    pub pool: Option<&'c WorkerPool>,
    /// The endpoint that was picked.
    pub endpoint: Option<Rc<Endpoint>>,
    /// Endpoints that were tried.
    pub tries: u32,
    /// The server that it asked for, if that was read.
    pub host: Option<Box<str>>,
    /// Where it is.
    pub phase: Cell<Phase>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    cause: Cell<Cause>,
    /// Why it got to no endpoint.
    pub reason: Option<String>,
}

impl<'c> Record<'c> {
    /// A session that begins.
    pub fn new(client: &'c Client<'c>, transport: &'c Transport, rules: &'c Rules) -> Record<'c> {
        Record {
            client,
            transport,
            rules,
            timing: Cell::new(Timing::new(client.core.clock.now())),
            route: rules.unrouted(),
            pool: None,
            endpoint: None,
            tries: 0,
            host: None,
            phase: Cell::new(Phase::Request),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            cause: Cell::new(Cause::Normal),
            reason: None,
        }
    }

    /// Adds bytes from the client.
    pub fn count_in(&self, n: usize) {
        self.bytes_in.set(self.bytes_in.get() + n as u64);
        // At once: a session may last for months.
        self.client.listener.stats.bytes_in.add(n as u64);
    }

    /// Adds bytes to the client.
    pub fn count_out(&self, n: usize) {
        let timing = self.timing.get();
        if timing.ttfb_ns.is_none() {
            let ttfb_ns = Some(self.client.core.clock.now().since(timing.began));
            self.timing.set(Timing { ttfb_ns, ..timing });
        }
        self.bytes_out.set(self.bytes_out.get() + n as u64);
        self.client.listener.stats.bytes_out.add(n as u64);
    }

    /// Notes who ended it; the first cause counts.
    pub fn blame(&self, cause: Cause) {
        if self.cause.get() == Cause::Normal {
            self.cause.set(cause);
        }
    }

    /// Notes who has reset it.
    pub fn reset_by(&self, side: Side) {
        self.client.listener.stats.resets[side as usize].add(1);
        self.blame(match side {
            Side::Client => Cause::Client,
            Side::Endpoint => Cause::Endpoint,
        });
    }

    /// Whether the endpoint has sent anything.
    pub fn is_answered(&self) -> bool {
        self.timing.get().ttfb_ns.is_some()
    }

    /// It came to its normal end.
    pub fn done(&self) {
        self.phase.set(Phase::Done);
    }
}

/// A session dropped half-way, as its time or that of the process is over, is counted and logged like any other. A client
/// whose session had no normal end is told so by a reset.
impl Drop for Record<'_> {
    fn drop(&mut self) {
        if self.phase.get() != Phase::Done {
            self.blame(Cause::Proxy);
            self.transport.reset_on_close(true);
        }
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
        self.rules.stats(self.route).session.record(timing.total_ns);
        if let (Some(pool), Some(_)) = (self.pool, &self.endpoint) {
            pool.stats.record(&timing);
        }
        let mut log = core.log.borrow_mut();
        let Some(log) = log.as_mut() else { return };
        let mut asked = core.scratch();
        log.layout.keep_name(self.host.as_deref(), &mut asked);
        let peer = self.client.peer.announced_by().map(AddressText::of);
        let taken = self.rules.named(self.client.listener, self.route);
        let id = core.next_request_id();
        let line = Line {
            client_port: self.client.peer.port,
            peer: peer.as_ref().map(AddressText::as_bytes),
            sent: self.pool.map_or(&NOWHERE, |pool| pool.named(self.endpoint.as_deref())),
            tls: self.client.peer.tls(),
            asked: &asked,
            reason: self.reason.as_deref(),
            ..Line::new("TCP", &id, self.client.peer.ip_text(), taken, summary)
        };
        log.add(&line, &core.clock);
        core.give_back(asked);
    }
}
