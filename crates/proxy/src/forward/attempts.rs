//! Attempts of a request: endpoint after endpoint until a response, within its retry rules.

use super::Forward;
use crate::body::downstream::Downstream;
use crate::body::response::Response;
use crate::forward::attempt_end;
use crate::forward::relay::Answered;
use crate::observe::end::Cause;
use crate::observe::tries::How;
use crate::record::explanation::Explanation;
use crate::upstream::pick::{self, InFlight, NoPlace, Wait};
use crate::upstream::retries::{self, Left};
use evenkeel_balance::retry::{Decision, Failed, Stop};
use evenkeel_balance::{Clock, NoPick, Outcome, Slot};
use evenkeel_wire::path::Unsendable;
use std::time::Duration;

impl<'r, D: Downstream> Forward<'_, 'r, D> {
    /// Sends the request, and relays the response of the endpoint that answers.
    ///
    /// # Errors
    /// The response for the client instead; `None` if it is gone, or if a response had begun.
    pub async fn send(&mut self) -> Result<Answered, Option<Response>> {
        let mut last: Option<Response> = None;
        loop {
            if self.is_expired() {
                self.record.blame(Cause::Proxy);
                let why = "the client's deadline (`grpc-timeout`) had passed before an endpoint was picked";
                return Err(Some(Response::new(504, why)));
            }
            let (ticket, how) = match self.place() {
                Ok(placed) => placed,
                Err(none) => {
                    let (timer, deadline) = (self.down.timer(), self.opened.route.deadline);
                    let (phase, timing) = (&self.record.phase, &self.record.exchange.timing);
                    let why = self.record.explanation().map(Explanation::pick);
                    let wait = Wait { timer, deadline, phase, timing, why };
                    match wait.place(&self.tries, none, |cx| self.poll_left(cx)).await {
                        Ok(ticket) => (ticket, How::Waited),
                        Err(none) => return Err(self.unplaced(none, last)),
                    }
                }
            };
            let slot = ticket.slot();
            if let Err(why) = self.begin_try(&ticket, how) {
                let why = format!("the path cannot follow that of endpoint {}: {why}", ticket.endpoint.name);
                ticket.end(Outcome::Cancelled);
                self.record.note_try_failed(slot, None, Cause::Proxy, None);
                self.record.blame(Cause::Proxy);
                return Err(Some(last.unwrap_or_else(|| Response::new(400, why))));
            }
            let failed = match self.attempt(ticket).await {
                Ok(answered) => return self.record.instead.take().map_or(Ok(answered), |instead| Err(Some(*instead))),
                Err(failed) => failed,
            };
            self.record.note_try_failed(slot, failed.failure, failed.cause, failed.reply.as_ref());
            // It was to follow the body, which is incomplete and which the client does not get.
            if let Some(instead) = self.record.instead.take() {
                return Err(Some(*instead));
            }
            let Some(after_ns) = self.pause_after(slot, &failed) else {
                self.record.blame(failed.cause);
                return Err(failed.reply);
            };
            self.tries.tried.borrow_mut().push(slot);
            last = failed.reply;
            if let Err(Left) = retries::pause(after_ns, |cx| self.poll_left(cx)).await {
                self.record.blame(Cause::Client);
                return Err(None);
            }
            self.tries.pool.stats.retries.add(1);
        }
    }

    /// True if the client's deadline of a gRPC call has passed. Short timeouts need an exact clock: the cached clock
    /// lags.
    fn is_expired(&self) -> bool {
        const SHORT: Duration = Duration::from_millis(100);
        let Some(limit) = self.opened.route.call_timeout else { return false };
        let clock = &self.client.core.clock;
        let now = if limit < SHORT { clock.read() } else { clock.now() };
        now.since(self.record.exchange.timing.get().began) >= limit.as_nanos() as u64
    }

    /// Picks an endpoint: by the session at the first try, else by the algorithm.
    fn place(&self) -> Result<(InFlight<'r>, How), NoPick> {
        if let Some(session) = self.record.exchange.facts.session.as_ref().filter(|_| self.record.tries == 0)
            && let Some(ticket) = session.at(self.tries.clock, self.tries.pool)
        {
            return Ok((ticket, How::Session));
        }
        let ticket = match self.record.explanation() {
            Some(explanation) => explanation.place(&self.tries),
            None => pick::place(&self.tries),
        };
        Ok((ticket?, How::Picked))
    }

    /// Returns the response to a request for which no endpoint was found: the response of the attempt before, if any.
    #[cold]
    fn unplaced(&self, none: NoPlace, last: Option<Response>) -> Option<Response> {
        let pool = self.tries.pool;
        let reply = none.count(pool).map(|why| Response::new(none.status(pool), why));
        self.record.blame(match (&reply, &last) {
            (None, _) => Cause::Client,
            (_, None) => Cause::Proxy,
            (_, Some(_)) => Cause::Endpoint,
        });
        reply.map(|reply| last.unwrap_or(reply))
    }

    /// Notes the endpoint of the next try, and writes its parts of the head.
    ///
    /// # Errors
    /// The path cannot follow the endpoint's own prefix.
    fn begin_try(&mut self, ticket: &InFlight<'r>, how: How) -> Result<(), Unsendable> {
        let (record, route, pool) = (&mut *self.record, &self.opened.route, self.tries.pool);
        let target = record.rules.target(record.route);
        let drawn = || target.pools().find(|drawn| std::ptr::eq(&***drawn, pool));
        if let Some(pool) = target.only().or_else(drawn) {
            record.rules.prober.after_start(pool);
        }
        record.exchange.facts.endpoint = Some(ticket.endpoint.clone());
        record.note_try_began(pool, ticket, how);
        self.call_left = route.call_timeout.map(|limit| {
            let used = Duration::from_nanos(self.tries.clock.now().since(record.exchange.timing.get().began));
            let left = self.down.timer().left_ns(route.deadline).map_or(limit, Duration::from_nanos);
            limit.saturating_sub(used).min(left)
        });
        self.out.begin_try(record, &ticket.endpoint, self.call_left)
    }

    /// Returns the pause in nanoseconds between the failed try at `here` and the next try; `None` if no try follows.
    fn pause_after(&self, here: Slot, failed: &attempt_end::Failed) -> Option<u64> {
        if failed.is_unprocessed && self.out.is_whole() && self.tries.has_other(here) {
            // The endpoint has not processed the request, so another try costs neither an attempt nor retry budget.
            return Some(0);
        }
        let failure = failed.failure?;
        let decision = match self.tries.take_decision() {
            // For a status, the decision was made when its response arrived.
            Some(_) if !self.out.again() => {
                self.tries.count_refused(Stop::BodyGone);
                return None;
            }
            Some(decision) => decision,
            None => {
                let replayable = self.out.is_whole() || (self.out.rest.is_here() && self.out.again());
                let left_ns = self.down.timer().left_ns(self.opened.route.deadline);
                let (idempotent, beyond) = (self.opened.idempotent, self.tries.has_beyond(here));
                self.tries.decide(&Failed { failure, idempotent, replayable, left_ns, beyond })
            }
        };
        if let Decision::Again { after_ns, .. } = decision { Some(after_ns) } else { None }
    }
}
