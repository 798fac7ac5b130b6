//! How did a request go? Filled in while it runs, and written to counters and the access log at its end.

use crate::access_log::{Batch, Line, NOWHERE};
use crate::address_text::AddressText;
use crate::client::Client;
use crate::end::{Cause, Phase};
use crate::http1::Version;
use crate::reports::Received;
use crate::rules::Rules;
use crate::sidecar::{self, Working};
use crate::upstream::{Endpoint, WorkerPool};
use evenkeel_balance::{Clock, Instant};
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

/// One request.
pub struct Record<'c> {
    client: &'c Client<'c>,
    /// By which it is served.
    pub rules: &'c Rules,
    /// The client, if a trusted proxy sent the request for it.
    pub origin: Option<IpAddr>,
    /// When its head was there.
    pub began: Instant,
    /// Index in the plan; one more than the last if no route took it.
    pub route: usize,
    /// Index of its method in [`crate::stats::METHODS`].
    pub method: usize,
    /// What the client speaks.
    pub version: Version,
    /// Its pool.
    pub pool: Option<&'c WorkerPool>,
    /// The endpoint that was picked.
    pub endpoint: Option<Rc<Endpoint>>,
    /// Endpoints it was sent to, or tried to be.
    pub tries: u32,
    /// Counts it in flight through its listener, where that is told.
    pub working: Option<Working<'c>>,
    /// What came with its response about the endpoint's load.
    pub received: Cell<Option<Received>>,
    /// Of the response; 0 if none was sent.
    pub status: Cell<u16>,
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
    /// Made by [`crate::access_log::asked`], if there is an access log.
    pub asked: Vec<u8>,
}

impl<'c> Record<'c> {
    /// A request whose head has just come.
    pub fn new(client: &'c Client<'c>, rules: &'c Rules) -> Record<'c> {
        Record {
            client,
            rules,
            origin: None,
            began: client.worker.clock.now(),
            route: rules.unrouted(),
            method: crate::stats::METHODS.len() - 1,
            version: Version::V11,
            pool: None,
            endpoint: None,
            tries: 0,
            working: None,
            received: Cell::new(None),
            status: Cell::new(0),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            queue_ns: Cell::new(0),
            connect_ns: Cell::new(None),
            ttfb_ns: Cell::new(None),
            phase: Cell::new(Phase::Request),
            cause: Cell::new(Cause::Normal),
            asked: Vec::new(),
        }
    }

    /// Notes who ended it; the first cause counts.
    pub fn blame(&self, cause: Cause) {
        if self.cause.get() == Cause::Normal {
            self.cause.set(cause);
        }
    }

    /// Appends a field with the load of its listener beside this request, where that is told.
    pub fn write_load(&self, out: &mut Vec<u8>) {
        if let Some(working) = self.working.as_ref().filter(|working| working.reporter().plan.header) {
            sidecar::write_field(&working.load(self.client.worker.clock.now()), out);
            self.client.listener.stats.reports_given[0].add(1);
        }
    }

    /// Adds bytes from the client.
    #[inline]
    pub fn count_in(&self, n: usize) {
        self.bytes_in.set(self.bytes_in.get() + n as u64);
    }

    /// Adds bytes to the client.
    #[inline]
    pub fn count_out(&self, n: usize) {
        self.bytes_out.set(self.bytes_out.get() + n as u64);
    }

    /// Writes its line. Out of the way of requests that have none.
    #[inline(never)]
    fn log(&mut self, log: &mut Batch, total_ns: u64) {
        let worker = self.client.worker;
        let ip = self.client.ip_text();
        let origin = self.origin.map(AddressText::of);
        let peer = self.client.peer().map(AddressText::of);
        let line = Line {
            began: self.began,
            request_id: worker.next_request_id(),
            client: origin.as_ref().map_or(ip, AddressText::as_bytes),
            peer: peer.as_ref().map(AddressText::as_bytes).or(origin.is_some().then_some(ip)),
            taken: self.rules.named(self.client.listener, self.route),
            sent: self.pool.map_or(NOWHERE, |pool| pool.named(self.endpoint.as_deref())),
            tries: self.tries,
            proto: if self.version == Version::V11 { "HTTP/1.1" } else { "HTTP/1.0" },
            asked: &self.asked,
            status: self.status.get(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            queue_ns: self.queue_ns.get(),
            connect_ns: self.connect_ns.get(),
            ttfb_ns: self.ttfb_ns.get(),
            total_ns,
            term: [self.cause.get().letter(), self.phase.get().letter()],
        };
        log.add(&line, &worker.clock);
        worker.give_back(std::mem::take(&mut self.asked));
    }
}

/// A request dropped half-way, as its client vanished or the process ends, is counted and logged like any other.
impl Drop for Record<'_> {
    fn drop(&mut self) {
        let worker = self.client.worker;
        let total_ns = worker.clock.now().since(self.began);
        let listener = &self.client.listener.stats;
        listener.bytes_in.add(self.bytes_in.get());
        listener.bytes_out.add(self.bytes_out.get());
        listener.ends[self.cause.get() as usize].add(1);
        self.rules.stats[self.route].count(self.method, self.status.get(), total_ns);
        if let (Some(pool), Some(_)) = (self.pool, &self.endpoint) {
            pool.stats.duration.record(total_ns);
            if let Some(ns) = self.ttfb_ns.get() {
                pool.stats.ttfb.record(ns);
            }
            if let Some(ns) = self.connect_ns.get() {
                pool.stats.connect.record(ns);
            }
        }
        if let Some(log) = &mut *worker.log.borrow_mut() {
            self.log(log, total_ns);
        }
    }
}
