//! Response whose body the cache takes: a separate task reads it from the endpoint, and the client is a reader of the
//! growing body like all others.

use super::{Answered, Relay};
use crate::body::downstream::Downstream;
use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use crate::body::upstream::{Head, Upstream};
use crate::cache::filling::Filling;
use crate::cache::growing::{Cut, Reader};
use crate::forward::outgoing::Outgoing;
use crate::forward::relay::decision::Accepted;
use crate::side::fill::{Rest, Source};
use crate::upstream::pick::{InFlight, OwnedInFlight};
use evenkeel_balance::Outcome;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Elapsed;
use evenkeel_wire::http1::Body;
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

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
        let rest = Rest {
            core: core.clone(),
            source,
            ticket: OwnedInFlight::new(ticket, pool, core),
            outcome,
            status,
            ends: false,
            received: None,
            may_keep: is_sent && !self.opened.close,
        };
        rest.fill(filling, self.timeouts.idle, self.opened.route.deadline).await;
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
        let mut reader = self.0.borrow_mut();
        let next = ready!(reader.poll_next(cx)).map_err(|Cut| Fault::CutShort)?;
        let end = || reader.trailers().map_or(Part::End, Part::Trailers);
        Poll::Ready(Ok(next.map_or_else(end, |bytes| Part::Data(Buf::holding(&bytes)))))
    }

    fn poll_room(&self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Err(Gone))
    }

    fn send(&self, _: Part) {}
}
