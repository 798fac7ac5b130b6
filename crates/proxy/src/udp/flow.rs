//! What is a flow? What one client address and port sends to one address of ours, and what comes back: at one endpoint at a
//! time, whose ticket it holds until it ends.

use crate::core::Core;
use crate::listener::rules::Listener;
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

/// What makes two datagrams of the same flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who sends, as the socket says it.
    pub client: SocketAddr,
    /// The address of ours that it sends to, where the socket has several.
    pub ours: Option<IpAddr>,
}

/// One flow.
pub struct Flow {
    /// When its first datagram came.
    pub began: Instant,
    /// Where its datagrams go; `None` until the next one finds a place.
    pub link: Option<Link>,
    /// The endpoint that failed it last: the next is another one, if there is another.
    pub failed: Option<Slot>,
    /// Endpoints it was at, or tried to be.
    pub tries: u32,
    /// Datagrams to its client.
    pub answered: u64,
    /// Bytes from its client.
    pub bytes_in: u64,
    /// Bytes to its client.
    pub bytes_out: u64,
    /// Until the first answer.
    pub first_answer_ns: Option<u64>,
    /// Where it was last, for its line in the log.
    pub was_at: Option<(Rc<WorkerPool>, Rc<Endpoint>)>,
    /// Counts it for its client's address, where that is limited.
    pub _place: Option<OpenConnection>,
}

/// A flow's way to its endpoint.
pub struct Link {
    /// Connected to the endpoint.
    pub socket: OwnedFd,
    /// Whose ticket it is.
    pub pool: Rc<WorkerPool>,
    /// Held, as its pool may let go of it meanwhile.
    pub endpoint: Rc<Endpoint>,
    /// To be given back.
    pub ticket: Ticket,
    /// Datagrams that went this way. Those that went nowhere, or to an endpoint before this one, are owed no answer.
    pub asked: u64,
    /// Datagrams that came back.
    pub answered: u64,
    /// Datagrams that went before the last one came back.
    pub asked_before: u64,
}

impl Link {
    /// Returns the datagrams that are lost if the endpoint refuses: those since its last answer, or at least the one that was
    /// refused.
    pub fn refused(&self) -> u64 {
        self.asked.saturating_sub(self.asked_before).max(1)
    }

    /// Whether so many came back for each that went.
    pub fn has_all(&self, answers: u64) -> bool {
        self.answered >= self.asked.saturating_mul(answers)
    }

    /// Gives the place back, and closes the socket.
    pub fn end(self, outcome: Outcome, now: Instant) {
        self.pool.take_back(self.ticket, &self.endpoint, outcome, now);
    }
}

impl Flow {
    /// A flow whose first datagram has just come.
    pub fn new(place: Option<OpenConnection>, now: Instant) -> Flow {
        Flow {
            began: now,
            link: None,
            failed: None,
            tries: 0,
            answered: 0,
            bytes_in: 0,
            bytes_out: 0,
            first_answer_ns: None,
            was_at: None,
            _place: place,
        }
    }

    /// Counts answers.
    pub fn on_answer(&mut self, datagrams: usize, bytes: usize, now: Instant) {
        if self.first_answer_ns.is_none() {
            self.first_answer_ns = Some(now.since(self.began));
        }
        if let Some(link) = &mut self.link {
            if link.answered == 0 {
                link.ticket.answered(now);
            }
            link.answered += datagrams as u64;
            link.asked_before = link.asked;
        }
        self.answered += datagrams as u64;
        self.bytes_out += bytes as u64;
    }

    /// Ends what it has at its endpoint. One that never answered may be of those that never do: it says nothing.
    pub fn leave(&mut self, now: Instant) {
        if let Some(link) = self.link.take() {
            let outcome = if link.answered > 0 { Outcome::Success } else { Outcome::Cancelled };
            link.end(outcome, now);
        }
    }

    /// Writes its line, if there is a log.
    pub fn log(&self, key: &Key, why: FlowEnd, core: &Core, listener: &Listener, now: Instant) {
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
        let timing =
            Timing { ttfb_ns: self.first_answer_ns, total_ns: now.since(self.began), ..Timing::new(self.began) };
        let (tries, bytes_in, bytes_out) = (self.tries, self.bytes_in, self.bytes_out);
        let summary = Summary { tries, bytes_in, bytes_out, timing, cause, phase, ..Summary::default() };
        let taken = rules.named(listener, rules.unrouted());
        let id = core.next_request_id();
        let line = Line {
            client_port: key.client.port(),
            sent: self.was_at.as_ref().map_or(&NOWHERE, |(pool, endpoint)| pool.named(Some(endpoint))),
            ..Line::new("UDP", &id, client.as_bytes(), taken, summary)
        };
        log.add(&line, &core.clock);
    }
}
