//! How did a session go? Filled in while it runs, and written to counters and the access log at its end.

use super::duplex::Side;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::access_log::{Line, NOWHERE};
use crate::observe::end::{Cause, Phase};
use crate::peer::address_text::AddressText;
use crate::upstream::pool::{Endpoint, WorkerPool};
use evenkeel_balance::{Clock, Instant};
use evenkeel_net::transport::Transport;
use std::cell::Cell;
use std::rc::Rc;

/// One session.
pub struct Record<'c> {
    client: &'c Client<'c>,
    transport: &'c Transport,
    rules: &'c Rules,
    began: Instant,
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
    /// Waiting for a place at an endpoint.
    pub queue_ns: Cell<u64>,
    /// Until the connection to the endpoint was open.
    pub connect_ns: Option<u64>,
    /// Where it is.
    pub phase: Cell<Phase>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    ttfb_ns: Cell<Option<u64>>,
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
            began: client.core.clock.now(),
            route: rules.unrouted(),
            pool: None,
            endpoint: None,
            tries: 0,
            host: None,
            queue_ns: Cell::new(0),
            connect_ns: None,
            phase: Cell::new(Phase::Request),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            ttfb_ns: Cell::new(None),
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
        if self.ttfb_ns.get().is_none() {
            self.ttfb_ns.set(Some(self.client.core.clock.now().since(self.began)));
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
        self.ttfb_ns.get().is_some()
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
        let total_ns = core.clock.now().since(self.began);
        let listener = &self.client.listener.stats;
        listener.ends[self.cause.get() as usize].add(1);
        self.rules.stats(self.route).session.record(total_ns);
        if let (Some(pool), Some(_)) = (self.pool, &self.endpoint) {
            pool.stats.duration.record(total_ns);
            if let Some(ns) = self.ttfb_ns.get() {
                pool.stats.ttfb.record(ns);
            }
            if let Some(ns) = self.connect_ns {
                pool.stats.connect.record(ns);
            }
        }
        let mut log = core.log.borrow_mut();
        let Some(log) = log.as_mut() else { return };
        let mut asked = core.scratch();
        log.lines.keep_name(self.host.as_deref(), &mut asked);
        let peer = self.client.peer.announced_by().map(AddressText::of);
        let line = Line {
            began: self.began,
            request_id: &core.next_request_id(),
            client: self.client.peer.ip_text(),
            client_port: self.client.peer.port,
            peer: peer.as_ref().map(AddressText::as_bytes),
            taken: self.rules.named(self.client.listener, self.route),
            sent: self.pool.map_or(&NOWHERE, |pool| pool.named(self.endpoint.as_deref())),
            tries: self.tries,
            proto: "TCP",
            tls: self.client.peer.tls(),
            asked: &asked,
            answered: &[],
            attempts: &[],
            status: 0,
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            queue_ns: self.queue_ns.get(),
            connect_ns: self.connect_ns,
            ttfb_ns: self.ttfb_ns.get(),
            total_ns,
            term: [self.cause.get().letter(), self.phase.get().letter()],
            grpc_status: None,
            reason: self.reason.as_deref(),
        };
        log.add(&line, &core.clock);
        core.give_back(asked);
    }
}
