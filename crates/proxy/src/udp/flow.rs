//! A flow: the datagrams between an address and port of a client and a local address. It has one endpoint at a time,
//! and holds a ticket for it.

use crate::core::Core;
use crate::listener::rules::{Listener, Rules};
use crate::observe::access_log::{Line, NOWHERE};
use crate::observe::end::{Cause, Phase};
use crate::observe::flow_end::FlowEnd;
use crate::observe::summary::Summary;
use crate::observe::timing::Timing;
use crate::peer::address_text::AddressText;
use crate::peer::per_address::OpenConnection;
use crate::upstream::pool::{Endpoint, WorkerPool};
use evenkeel_balance::{Instant, Outcome, Slot, Ticket};
use rustix::fd::OwnedFd;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// Identity of a flow: datagrams with equal keys belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source of the client's datagrams.
    pub client: SocketAddr,
    /// Local address that the client sends to; `None` if the socket is bound to a single address.
    pub ours: Option<IpAddr>,
}

/// Worker and listener that serve a batch of datagrams, and the time at which it came.
#[derive(Clone, Copy)]
pub struct Batch<'b> {
    pub core: &'b Core,
    pub listener: &'b Listener,
    pub now: Instant,
}

/// State and counters of a flow.
pub struct Flow {
    /// Arrival of the first datagram.
    pub began: Instant,
    /// Pool that the flow was drawn for; `None` until its first datagram is passed on.
    pub pool: Option<Rc<WorkerPool>>,
    /// Connection to the endpoint; `None` until the next datagram picks an endpoint.
    pub link: Option<Link>,
    /// Endpoint that the first datagram names, in the pool of this name, to be used by the first pick.
    pub named: Option<(Arc<str>, Slot)>,
    /// The endpoint that failed last, to be avoided by the next pick if there is another.
    pub failed: Option<Slot>,
    /// Number of endpoints tried so far.
    pub tries: u32,
    /// Number of endpoints that the endpoint of the first try was drawn from; 0 if it was picked.
    drawn_from: u32,
    /// Datagrams sent to the client.
    pub answered: u64,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// Time from the first datagram to the first answer, nanoseconds.
    pub first_answer_ns: Option<u64>,
    /// Pool and endpoint that it had last, for the access log.
    pub was_at: Option<(Rc<WorkerPool>, Rc<Endpoint>)>,
    /// Its count among the flows of its client's address, if these are limited.
    pub _place: Option<OpenConnection>,
}

/// A flow's socket and ticket at its endpoint.
pub struct Link {
    /// Socket connected to the endpoint.
    pub socket: OwnedFd,
    /// Pool that the ticket belongs to.
    pub pool: Rc<WorkerPool>,
    /// Endpoint, held as the pool may release it meanwhile.
    pub endpoint: Rc<Endpoint>,
    /// Returned to the balancer by [`end`](Self::end).
    pub ticket: Ticket,
    /// Datagrams sent on this link. Those that were lost, or went to an earlier endpoint, need no answer.
    pub asked: u64,
    /// Datagrams received on this link.
    pub answered: u64,
    /// Value of `asked` when the last answer came.
    pub asked_before: u64,
}

impl Link {
    /// Number of datagrams that are lost if the endpoint refuses a datagram: all since its last answer, at least the
    /// refused datagram.
    pub fn refused(&self) -> u64 {
        self.asked.saturating_sub(self.asked_before).max(1)
    }

    /// True if every datagram sent has got this many answers.
    pub fn has_all(&self, answers: u64) -> bool {
        self.answered >= self.asked.saturating_mul(answers)
    }

    /// Returns the ticket and closes the socket.
    pub fn end(self, outcome: Outcome, now: Instant) {
        self.pool.take_back(self.ticket, &self.endpoint, outcome, now);
    }
}

impl Flow {
    /// Begins a flow at its first datagram, without a link.
    pub fn new(place: Option<OpenConnection>, now: Instant) -> Flow {
        Flow {
            began: now,
            pool: None,
            link: None,
            named: None,
            failed: None,
            tries: 0,
            drawn_from: 0,
            answered: 0,
            bytes_in: 0,
            bytes_out: 0,
            first_answer_ns: None,
            was_at: None,
            _place: place,
        }
    }

    /// Counts a batch of answers. The first answer ends the latency of the ticket.
    pub fn on_answer(&mut self, datagrams: usize, bytes: usize, now: Instant) {
        if self.first_answer_ns.is_none() {
            self.first_answer_ns = Some(now.since(self.began));
        }
        if let Some(link) = &mut self.link {
            if link.answered == 0 {
                link.ticket.answered(now);
                link.endpoint.stats.latency.record(link.ticket.latency_ns(now));
            }
            link.endpoint.stats.received.add(bytes as u64);
            link.answered += datagrams as u64;
            link.asked_before = link.asked;
        }
        self.answered += datagrams as u64;
        self.bytes_out += bytes as u64;
    }

    /// Leaves the endpoint. Without an answer the outcome is `Cancelled`: some services never answer, so silence proves
    /// nothing.
    pub fn leave(&mut self, now: Instant) {
        if let Some(link) = self.link.take() {
            let outcome = if link.answered > 0 { Outcome::Success } else { Outcome::Cancelled };
            link.end(outcome, now);
        }
    }

    /// True if no endpoint could be used, at first or since the last endpoint failed.
    pub fn has_failed(&self) -> bool {
        self.link.is_none() && (self.failed.is_some() || self.was_at.is_none())
    }

    /// Counts a try in this pool.
    pub fn note_try_began(&mut self, pool: &WorkerPool) {
        self.tries += 1;
        let drawn_from = pool.balancer.borrow().drawn_from();
        if drawn_from > 0 && self.tries == 1 {
            self.drawn_from = drawn_from;
            pool.stats.explored.add(1);
        }
    }

    /// Counts the end of the flow at its route and pool.
    pub fn count(&self, rules: &Rules, has_failed: bool, now: Instant) {
        let timing = self.timing(now);
        let route = rules.stats(rules.compiled.router.of_datagrams().unwrap_or(rules.unrouted()));
        route.session.record(timing.total_ns);
        route.sessions_failed.add(u64::from(has_failed));
        if let Some((pool, _)) = &self.was_at {
            pool.stats.record(&timing);
        }
    }

    fn timing(&self, now: Instant) -> Timing {
        Timing { ttfb_ns: self.first_answer_ns, total_ns: now.since(self.began), ..Timing::new(self.began) }
    }

    /// Writes the flow's line to the access log, if that is on.
    pub fn log(&self, key: &Key, why: FlowEnd, batch: Batch<'_>) {
        let Batch { core, listener, now } = batch;
        let mut log = core.log.borrow_mut();
        let Some(log) = log.as_mut() else { return };
        let client = AddressText::of(key.client.ip());
        let cause = match why {
            FlowEnd::Idle if self.failed.is_some() => Cause::Endpoint,
            FlowEnd::Idle | FlowEnd::Answered => Cause::Normal,
            FlowEnd::Evicted | FlowEnd::Closed => Cause::Proxy,
        };
        let phase = match (cause, self.answered) {
            (Cause::Normal, _) => Phase::Done,
            (_, 0) => Phase::Head,
            _ => Phase::Data,
        };
        let rules = listener.rules();
        let timing = self.timing(now);
        let (tries, bytes_in, bytes_out) = (self.tries, self.bytes_in, self.bytes_out);
        let summary = Summary { tries, bytes_in, bytes_out, timing, cause, phase, ..Summary::default() };
        let taken = rules.named(listener, rules.unrouted());
        let id = core.next_request_id();
        let line = Line {
            client_port: key.client.port(),
            sent: self.was_at.as_ref().map_or(&NOWHERE, |(pool, endpoint)| pool.named(Some(endpoint))),
            drawn_from: self.drawn_from,
            ..Line::new("UDP", &id, client.as_bytes(), taken, summary)
        };
        log.add(&line, &core.clock);
    }
}
