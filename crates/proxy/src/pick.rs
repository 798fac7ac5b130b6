//! Which endpoint, and who gives its place back? The guard that owns a ticket while a request runs.

use crate::stats::PoolStats;
use crate::upstream::WorkerPool;
use crate::worker::Worker;
use evenkeel_balance::{Clock, Exclusion, Instant, NoPick, Outcome, Request, Slot, Ticket};
use std::fmt::Write;

/// A request in flight at an endpoint. Dropped without [`end`](Self::end), it counts as cancelled: its client went
/// away, and the future that served it with it.
pub struct InFlight<'w> {
    worker: &'w Worker,
    pool: usize,
    ticket: Option<Ticket>,
}

impl<'w> InFlight<'w> {
    /// Picks an endpoint.
    ///
    /// # Errors
    /// Why there is none.
    #[inline]
    pub fn start(worker: &'w Worker, pool: usize, key: Option<u64>, tried: &[Slot]) -> Result<InFlight<'w>, NoPick> {
        let here = &worker.pools[pool];
        let ticket = here.balancer.borrow_mut().start(&Request { key, tried }, worker.clock.now())?;
        worker.stats.pools[pool].endpoints[here.endpoint(ticket.slot()).index].active.add(1);
        Ok(InFlight { worker, pool, ticket: Some(ticket) })
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
        let pool = &self.worker.pools[self.pool];
        self.worker.stats.pools[self.pool].endpoints[pool.endpoint(ticket.slot()).index].active.sub(1);
        pool.balancer.borrow_mut().end(ticket, outcome, self.worker.clock.now());
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.give_back(Outcome::Cancelled);
    }
}

/// The text of a 503: which pool, and why none of its endpoints.
#[cold]
pub fn no_pick_text(pool: &WorkerPool, stats: &PoolStats, why: NoPick) -> String {
    stats.no_pick[why as usize].add(1);
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
