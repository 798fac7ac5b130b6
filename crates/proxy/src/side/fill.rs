//! Response whose head has arrived, with the rest of it. For the cache, a separate task reads the body at the endpoint's
//! pace; clients read the growing body. The task continues when clients leave.

use crate::body::fault::{Due, Fault};
use crate::body::part::Part;
use crate::body::upstream::Upstream;
use crate::cache::counts::CutBy;
use crate::cache::filling::Filling;
use crate::core::Core;
use crate::load::reports::Received;
use crate::upstream::h1_endpoint::H1Rest;
use crate::upstream::pick::OwnedInFlight;
use crate::upstream::stream::EndpointStream;
use evenkeel_balance::{Clock, Outcome};
use evenkeel_config::plan::RouteTimeouts;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::event_loop::spawn;
use evenkeel_net::transport::Transport;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Longest time for which a fetch continues without a client.
const UNATTENDED: Duration = Duration::from_secs(60);

/// Time after which clients that take nothing of a body that is not stored hold up the others no longer.
const SLOW: Duration = Duration::from_secs(5);

/// Connection or stream of an endpoint, with the rest of its response.
pub enum Source {
    Connection(Transport, H1Rest),
    Stream(EndpointStream),
}

/// Rest of a response whose head has arrived. Dropped, the request counts as cancelled.
pub struct Rest {
    pub core: Rc<Core>,
    pub source: Source,
    pub ticket: OwnedInFlight,
    /// Outcome for the balancer.
    pub outcome: Outcome,
    pub status: u16,
    /// True if no body follows the head.
    pub ends: bool,
    /// Load that the endpoint reports, to be applied at the end.
    pub received: Option<Received>,
    /// True if the connection may carry another request.
    pub may_keep: bool,
}

/// Task that reads the body of a response for the cache.
struct Task {
    rest: Rest,
    filling: Box<Filling>,
    /// Longest silence of the endpoint.
    idle: Duration,
    /// Tick at which the request ends, whatever its state.
    deadline: u64,
    /// Tick at which it ends without a client, while there is none.
    unattended_until: Option<u64>,
    /// Holds the worker while clients read.
    held: Option<Held>,
}

/// Reason why a task ends before the end of its body: the endpoint's fault, or no client.
type Ended = Option<Fault>;

impl Rest {
    /// Reads the body for the cache in a separate task. `idle` is the longest silence of the endpoint, and `deadline` the
    /// tick at which the request ends.
    pub async fn fill(self, filling: Box<Filling>, idle: Duration, deadline: u64) {
        if self.ends {
            self.end();
            return filling.end();
        }
        let task = Task { rest: self, filling, idle, deadline, unattended_until: None, held: None };
        let mut task = Box::pin(task.run());
        // A body that has arrived with its head needs no further turn.
        if poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx).is_pending())).await {
            spawn(task);
        }
    }

    /// Reads the body for the cache within these timeouts. The timeout of the request begins now.
    pub async fn fill_within(self, filling: Box<Filling>, timeouts: &RouteTimeouts) {
        let deadline = timeouts.request.map_or(u64::MAX, |limit| self.core.wheel.timer().tick_after(limit));
        self.fill(filling, timeouts.idle, deadline).await;
    }

    /// Ends the response. Its connection can carry another request if the body has arrived.
    pub fn end(mut self) {
        let now = self.core.clock.now();
        if let Source::Connection(transport, mut rest) = self.source
            && let kept = rest.kept()
            && kept.reusable
            && self.may_keep
        {
            // First, as the end of this request may let a waiting request begin.
            self.ticket.pool.keep_idle(&self.ticket.endpoint, transport, kept.secs, now);
        }
        let Some(ticket) = self.ticket.take() else { return };
        let (pool, slot, endpoint) = (ticket.pool, ticket.slot(), ticket.endpoint.clone());
        ticket.finish(self.outcome, self.status);
        if let Some(received) = self.received {
            pool.take_received(slot, &endpoint, received, now);
        }
    }

    /// Ends the request without the rest of the response: by a fault, or cancelled.
    fn give_up(mut self, ended: Ended) {
        if let (Some(fault), Some(ticket)) = (ended, self.ticket.take()) {
            ticket.give_up(fault);
        }
    }
}

impl Task {
    async fn run(mut self) {
        let timer = self.rest.core.wheel.timer();
        let read = self.read(&timer).await;
        let Task { rest, mut filling, held, .. } = self;
        match read {
            Ok(()) => {
                rest.end();
                filling.end();
            }
            Err(ended) => {
                filling.cut_by(match ended {
                    Some(Fault::TimedOut(_)) => CutBy::Timeout,
                    _ => CutBy::Endpoint,
                });
                drop(filling);
                rest.give_up(ended);
            }
        }
        drop(held);
    }

    /// Reads the body to its end.
    ///
    /// # Errors
    /// The endpoint's fault; `None` if no client wants the body and it is not stored.
    async fn read(&mut self, timer: &Timer) -> Result<(), Ended> {
        loop {
            let by = timer.tick_after(SLOW).min(self.deadline);
            match timer.limit_by(by, pin!(poll_fn(|cx| self.filling.poll_wanted(cx)))).await {
                Ok(true) => {}
                Ok(false) => return Err(None),
                Err(Elapsed) if timer.left_ns(self.deadline) == Some(0) => return Err(self.late(timer)),
                Err(Elapsed) => {
                    self.filling.cut_slow();
                    continue;
                }
            }
            let mut due = timer.tick_after(self.idle).min(self.deadline);
            if self.filling.is_unattended() {
                let until = *self.unattended_until.get_or_insert_with(|| timer.tick_after(UNATTENDED));
                if timer.left_ns(until) == Some(0) {
                    return Err(None);
                }
                due = due.min(until);
            } else {
                self.unattended_until = None;
            }
            let next = timer.limit_by(due, pin!(poll_fn(|cx| self.poll_part(cx)))).await;
            match next.unwrap_or_else(|Elapsed| Err(self.late(timer)))? {
                Part::Data(buf) => self.filling.add(buf.filled(), self.rest.core.clock.now()),
                Part::Trailers(trailers) => {
                    self.filling.add_trailers(trailers);
                    return Ok(());
                }
                Part::End => return Ok(()),
            }
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Ended>> {
        if let Poll::Ready(false) = self.filling.poll_wanted(cx) {
            return Poll::Ready(Err(None));
        }
        if self.filling.is_unattended() {
            self.held = None;
        } else if self.held.is_none() {
            self.held = Some(Held::new(&self.rest.core));
        }
        let part = match &mut self.rest.source {
            Source::Connection(transport, rest) => rest.poll_part(transport, cx),
            Source::Stream(stream) => stream.poll_part(cx),
        };
        part.map_err(Some)
    }

    /// Reason why the body has not continued in time.
    fn late(&self, timer: &Timer) -> Ended {
        let has_passed = |tick| timer.left_ns(tick) == Some(0);
        match self.unattended_until {
            Some(until) if has_passed(until) => None,
            _ if has_passed(self.deadline) => Some(Fault::TimedOut(Due::Request)),
            _ => Some(Fault::TimedOut(Due::Idle)),
        }
    }
}

/// Keeps a worker that stops from ending before clients of other workers have the body.
struct Held(Rc<Core>);

impl Held {
    fn new(core: &Rc<Core>) -> Held {
        core.flow_opened();
        Held(core.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.flow_closed();
    }
}
