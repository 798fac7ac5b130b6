//! Response whose body the cache takes: a separate task reads it from the endpoint, at the endpoint's pace, and the
//! client is a reader of the growing body like all others. The task continues when clients leave.

use super::{Answered, Relay};
use crate::body::downstream::Downstream;
use crate::body::fault::{Due, Fault};
use crate::body::part::{Gone, Part};
use crate::body::upstream::{Head, Upstream};
use crate::cache::filling::Filling;
use crate::cache::growing::{Cut, Reader};
use crate::core::Core;
use crate::forward::outgoing::Outgoing;
use crate::forward::relay::decision::Accepted;
use crate::upstream::h1_endpoint::H1Rest;
use crate::upstream::pick::{InFlight, OwnedInFlight};
use crate::upstream::stream::EndpointStream;
use evenkeel_balance::{Clock, Outcome};
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::event_loop::spawn;
use evenkeel_net::transport::Transport;
use evenkeel_wire::http1::Body;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Longest time for which a fetch continues after its last client has left.
const UNATTENDED: Duration = Duration::from_secs(60);

/// Time after which clients that take nothing of a body that is not stored hold up the others no longer.
const SLOW: Duration = Duration::from_secs(5);

/// Result of a relay in parts.
pub enum Relayed {
    Answered(Answered),
    /// The cache takes the body of the response.
    Fills(Box<Fills>),
}

/// Response whose body the cache takes, once its head has arrived.
pub struct Fills {
    pub(super) filling: Box<Filling>,
    /// Outcome for the balancer.
    pub(super) outcome: Outcome,
    pub(super) status: u16,
    /// True if the endpoint has all of the request.
    pub(super) is_sent: bool,
    /// Head for the client; `None` if the client gets a response of this proxy.
    pub(super) head: Option<(Head, Accepted)>,
}

/// Rest of an endpoint's response.
pub enum Source {
    Connection(Transport, H1Rest),
    Stream(EndpointStream),
}

/// Task that reads the body of a response for the cache.
struct Task {
    core: Rc<Core>,
    source: Source,
    ticket: OwnedInFlight,
    filling: Box<Filling>,
    outcome: Outcome,
    status: u16,
    /// True if the connection may carry another request.
    may_keep: bool,
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

impl Relay<'_> {
    /// Reads the rest of a response in a separate task, and sends the response to the client.
    ///
    /// # Errors
    /// The fault that ended the response early.
    pub async fn fill<D: Downstream>(
        &self,
        down: &D,
        out: &mut Outgoing<'_>,
        fills: Fills,
        (source, ticket): (Source, InFlight<'_>),
    ) -> Result<Answered, Fault> {
        let Fills { filling, outcome, status, is_sent, head } = fills;
        let reader = head.as_ref().and_then(|_| filling.reader());
        let rules = self.record.rules;
        let is_pool = |pool: &&Rc<_>| std::ptr::eq(&***pool, ticket.pool);
        let pool =
            rules.target(self.record.route).pools().find(is_pool).expect("a request is sent to a pool of its route");
        let core = rules.prober.core();
        let task = Task {
            core: core.clone(),
            source,
            ticket: OwnedInFlight::new(ticket, pool, core),
            filling,
            outcome,
            status,
            may_keep: is_sent && !self.opened.close,
            idle: self.timeouts.idle,
            deadline: self.opened.route.deadline,
            unattended_until: None,
            held: None,
        };
        let mut task = Box::pin(task.run());
        // A body that has arrived with its head needs no further turn.
        if poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx).is_pending())).await {
            spawn(task);
        }
        let (Some((head, accepted)), Some(reader)) = (head, reader) else {
            return Ok(Answered { reusable: false, kept_secs: None, keep_alive: true, outcome });
        };
        self.send_filled(down, out, reader, (head, accepted)).await
    }

    /// Sends a response with a growing body.
    async fn send_filled<D: Downstream>(
        &self,
        down: &D,
        out: &mut Outgoing<'_>,
        reader: Reader,
        (head, accepted): (Head, Accepted),
    ) -> Result<Answered, Fault> {
        let body = std::mem::replace(&mut out.rest.body, Body::EMPTY);
        let side = down.parts(self.flow(), body, out.take_behind());
        let up = Filled(reader.into());
        self.allow_silence();
        let done = {
            let sending = pin!(self.take_final(&side, &up, head, accepted));
            self.timer.limit(pin!(self.while_there(|cx| down.poll_gone(cx), sending))).await
        };
        let keep_alive = out.take_rest(side);
        let done = done.unwrap_or_else(|Elapsed| Err(self.late()))?;
        Ok(Answered { keep_alive: keep_alive.unwrap_or(done.keep_alive), ..done })
    }
}

/// Growing body as the source of a response.
struct Filled(RefCell<Reader>);

impl Upstream for Filled {
    fn poll_head(&self, _: &mut Context<'_>) -> Poll<Result<Head, Fault>> {
        Poll::Ready(Err(Fault::NoResponse))
    }

    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        let next = ready!(self.0.borrow_mut().poll_next(cx)).map_err(|Cut| Fault::CutShort)?;
        Poll::Ready(Ok(next.map_or(Part::End, |bytes| Part::Data(Buf::holding(&bytes)))))
    }

    fn poll_room(&self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Err(Gone))
    }

    fn send(&self, _: Part) {}
}

impl Task {
    async fn run(mut self) {
        let timer = self.core.wheel.timer();
        let ended = self.read(&timer).await;
        let Task { core, source, mut ticket, filling, outcome, status, may_keep, held, .. } = self;
        match ended {
            Ok(()) => {
                if let Source::Connection(transport, mut rest) = source
                    && let kept = rest.kept()
                    && kept.reusable
                    && may_keep
                {
                    // First, as the end of this request may let a waiting request begin.
                    ticket.pool.keep_idle(&ticket.endpoint, transport, kept.secs, core.clock.now());
                }
                filling.end();
                if let Some(ticket) = ticket.take() {
                    ticket.finish(outcome, status);
                }
            }
            Err(ended) => {
                if let (Some(fault), Some(ticket)) = (ended, ticket.take()) {
                    ticket.give_up(fault);
                }
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
                Part::Data(buf) => self.filling.add(buf.filled(), self.core.clock.now()),
                Part::Trailers(_) | Part::End => return Ok(()),
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
            self.held = Some(Held::new(&self.core));
        }
        let part = match &mut self.source {
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
