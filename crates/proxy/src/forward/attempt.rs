//! Attempt of a request at an endpoint over HTTP/1: connects, sends the request, relays the response. [`on_stream`] is
//! the variant for HTTP/2.

mod moves;
mod on_stream;

use super::Forward;
use crate::body::downstream::Downstream;
use crate::body::fault::Fault;
use crate::forward::attempt_end::{Failed, answered, began, failed, failed_within};
use crate::forward::relay::fill::Relayed;
use crate::forward::relay::{Answered, Relay, Shape, Terms};
use crate::observe::end::Phase;
use crate::record::grpc::Call;
use crate::side::fill::Source;
use crate::upstream::connections::{Acquired, UpstreamConn, unreachable};
use crate::upstream::h1_endpoint::H1Endpoint;
use crate::upstream::pick::InFlight;
use evenkeel_balance::Clock;
use evenkeel_net::boxed::reused;
use evenkeel_net::deadline::Elapsed;
use std::pin::pin;

impl<'r, D: Downstream> Forward<'_, 'r, D> {
    /// Sends the request to an endpoint. If an idle connection turns out to be closed, opens a new connection. If the
    /// request was already sent on the idle connection, only an idempotent request is sent again.
    ///
    /// # Errors
    /// The failure, and the response for the client if there is no retry.
    pub(super) async fn attempt(&mut self, mut ticket: InFlight<'r>) -> Result<Answered, Failed> {
        if self.out.message().is_some() {
            return reused(|| self.attempt_on_stream(ticket)).await;
        }
        let (core, timer, opened) = (self.client.core, self.down.timer(), self.opened);
        let (pool, deadline) = (opened.route.pool, opened.route.deadline);
        let wanted = self.wanted();
        let slot = ticket.slot();
        let mut idle = pool.take_idle(&ticket.endpoint, core.clock.now());
        loop {
            self.record.phase.set(Phase::Connect);
            self.out.write();
            let is_reused = idle.is_some();
            let timeouts = self.tries.timeouts(opened.route.timeouts);
            let connect_by = timer.tick_after(timeouts.connect).min(deadline);
            let acquiring = wanted.acquire(&ticket.endpoint, idle.take(), self.out.unsent());
            let acquired = timer.limit_by(connect_by, pin!(acquiring)).await;
            let Acquired { mut transport, sent, connect_ns } =
                match acquired.map_err(|Elapsed| None).and_then(|acquired| acquired.map_err(Some)) {
                    Ok(acquired) => acquired,
                    // The endpoint had closed the idle connection and took nothing: open a new one.
                    Err(Some(_)) if is_reused => continue,
                    Err(error) => return Err(unreachable(ticket, error).into()),
                };
            self.record.note_connected(connect_ns);
            self.out.advance(sent);
            self.record.phase.set(Phase::Head);
            let repeatable = self.out.rest.is_here()
                && self.out.is_small()
                && (opened.idempotent || self.tries.may_repeat(self.record.call.get() != Call::Not));
            if repeatable
                && opened.idempotent
                && self.out.unsent().is_empty()
                && let Some(delay_ns) = self.tries.hedge_after(timer.left_ns(deadline))
            {
                self.out.let_go(true);
                // Boxed: only routes with hedging need room for it.
                match Box::pin(self.hedge(UpstreamConn { ticket, transport }, delay_ns)).await {
                    Ok(first) => UpstreamConn { ticket, transport } = first,
                    Err((first, fault)) => return Err(failed(self.record, first.ticket, fault)),
                }
            }
            let second = ticket.slot() != slot;
            let terms = Terms { timeouts, tries: repeatable.then_some(&self.tries), is_reused };
            let relay = Relay::new(self.client, timer, self.record, opened, terms);
            let relayed = match Shape::of(self.down, opened.route.wants_body) {
                Shape::Bytes(connection) => relay.bytes(connection, &transport, &mut ticket, self.out).await,
                Shape::Parts => {
                    let in_chunks = self.out.rest.is_length_open();
                    let up = H1Endpoint::new(&transport, core, opened.asked, relay.leniency(), in_chunks);
                    // In a separate allocation: requests relayed as bytes need no room for it.
                    let (down, out, from) = (self.down, &mut *self.out, &up);
                    match reused(|| relay.parts(down, from, &mut ticket, out)).await {
                        Ok(Relayed::Answered(done)) => Ok(done),
                        Ok(Relayed::Fills(fills)) => {
                            began(self.record, &ticket, (!second).then_some(&self.tries));
                            let rest = up.into_rest();
                            let from = (Source::Connection(transport, rest), ticket);
                            let filled = Box::pin(relay.fill(self.down, self.out, *fills, from)).await;
                            return filled.map_err(|fault| failed_within(self.record, fault));
                        }
                        Err(fault) => Err(fault),
                    }
                }
            };
            let done = match relayed {
                Err(Fault::NoResponse | Fault::Stray)
                    if is_reused && repeatable && opened.idempotent && self.out.again() =>
                {
                    continue;
                }
                Err(fault) => {
                    if let Fault::Refused { reusable: true, kept_secs, .. } = fault
                        && !opened.close
                    {
                        pool.keep_idle(&ticket.endpoint, transport, kept_secs, core.clock.now());
                    }
                    return Err(failed(self.record, ticket, fault));
                }
                Ok(done) => done,
            };
            // First, as the end of this request may let a waiting request begin.
            if done.reusable && self.out.rest.body.is_done() && !opened.close {
                pool.keep_idle(&ticket.endpoint, transport, done.kept_secs, core.clock.now());
            }
            answered(self.record, ticket, done, (!second).then_some(&self.tries));
            return Ok(done);
        }
    }
}
