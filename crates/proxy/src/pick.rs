//! Which endpoint, and who gives its place back? The guard that owns a ticket while a request runs.

use crate::clock::CachedClock;
use crate::upstream::{Endpoint, WorkerPool};
use evenkeel_balance::{Clock, Exclusion, Instant, NoPick, Outcome, Request, Slot, Ticket};
use std::fmt::Write;
use std::rc::Rc;

/// A request in flight at an endpoint. Dropped without [`end`](Self::end), it counts as cancelled: its client went
/// away, and the future that served it with it.
pub struct InFlight<'r> {
    clock: &'r CachedClock,
    pool: &'r WorkerPool,
    /// The endpoint, held as its pool may let go of it meanwhile.
    pub endpoint: Rc<Endpoint>,
    ticket: Option<Ticket>,
}

impl<'r> InFlight<'r> {
    /// Picks an endpoint.
    ///
    /// # Errors
    /// Why there is none.
    #[inline]
    pub fn start(
        clock: &'r CachedClock,
        pool: &'r WorkerPool,
        key: Option<u64>,
        tried: &[Slot],
    ) -> Result<InFlight<'r>, NoPick> {
        let ticket = pool.balancer.borrow_mut().start(&Request { key, tried }, clock.now())?;
        let endpoint = pool.endpoints.at(ticket.slot());
        endpoint.stats.active.add(1);
        Ok(InFlight { clock, pool, endpoint, ticket: Some(ticket) })
    }

    /// Which endpoint it is at. There is a ticket until the guard is gone.
    #[inline]
    pub fn slot(&self) -> Slot {
        self.ticket.as_ref().expect("the ticket is taken only by end and drop").slot()
    }

    /// The first byte of the response came.
    #[inline]
    pub fn answered(&mut self, now: Instant) {
        if let Some(ticket) = &mut self.ticket {
            ticket.answered(now);
        }
    }

    /// Gives the place back.
    #[inline]
    pub fn end(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    #[inline]
    fn give_back(&mut self, outcome: Outcome) {
        let Some(ticket) = self.ticket.take() else { return };
        self.endpoint.stats.active.sub(1);
        let decided = self.pool.balancer.borrow_mut().end(ticket, outcome, self.clock.now());
        if decided {
            self.pool.control.poke(&self.pool.name);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.give_back(Outcome::Cancelled);
    }
}

/// The text of a 503: which pool, and why none of its endpoints.
#[cold]
pub fn no_pick_text(pool: &WorkerPool, why: NoPick) -> String {
    pool.stats.no_pick[why as usize].add(1);
    let balancer = pool.balancer.borrow();
    let (set, excluded) = (balancer.set(), balancer.set().excluded());
    let mut text =
        format!("pool \"{}\": {why}: {} of {} endpoints eligible", pool.name, set.len(), set.len() + excluded.len());
    let reasons = Exclusion::STANDING.map(|reason| {
        let n = excluded.iter().filter(|(_, _, r)| *r == reason).count();
        if n > 0 { format!("{n} {reason}") } else { String::new() }
    });
    let reasons: Vec<_> = reasons.into_iter().filter(|r| !r.is_empty()).collect();
    if !reasons.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, " ({})", reasons.join(", "));
    }
    text
}
