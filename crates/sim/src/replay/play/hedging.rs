//! Second copies of requests that take long, at another endpoint: the faster copy is the response.

use super::run::{Job, Run};
use crate::engine::calendar::Event;
use evenkeel_balance::{Instant, Outcome, Request, Ticket};

impl Run<'_> {
    /// Sets the time after which a request, whose endpoint was picked or given, gets a second copy.
    pub(super) fn await_slow(&mut self, first: u32, is_picked: bool) {
        let Some(Job { worker, number, .. }) = self.jobs.get(first) else { return };
        let (worker, tag, now) = (*worker, *number as u16, Instant(self.now));
        let delay = self.hedges.get_mut(worker).and_then(|hedge| hedge.begin(is_picked, None, now));
        if let Some(delay) = delay {
            self.calendar.at(self.now + delay, Event::TimedOut(first, tag));
        }
    }

    /// Sends a second copy of a request that has taken long, unless it has ended.
    pub(super) fn hedge(&mut self, first: u32, tag: u16) {
        let now = Instant(self.now);
        let Some(job) = self.jobs.get(first).filter(|job| job.number as u16 == tag && job.tried.is_empty()) else {
            return;
        };
        let (Some(slot), true) = (job.ticket.as_ref().map(Ticket::slot), job.twin.is_none()) else { return };
        let Job { worker, came, key, number, index, block, explored, .. } = *job;
        if !self.hedges[worker].send(now) {
            return;
        }
        let tried = vec![slot];
        let request = Request { key, tried: &tried, ..Request::default() };
        let Ok(ticket) = self.balancers[worker].start(&request, now) else { return self.hedges[worker].cancel() };
        let member = self.member_of[ticket.slot().index()];
        let copy = Job {
            ticket: Some(ticket),
            worker,
            member,
            sample: self.system.ways[member].samples[0],
            found: 0,
            began: self.now,
            came,
            key,
            explored,
            number,
            index,
            tried,
            twin: Some(first),
            is_copy: true,
            block,
        };
        let copy = self.go(copy);
        if let Some(job) = self.jobs.get_mut(first) {
            job.twin = Some(copy);
        }
    }

    /// Ends the other copy of a request, one of whose copies has ended; false if the other is still to answer.
    pub(super) fn settles_copies(&mut self, job: &Job, first_byte: u64) -> bool {
        let now = Instant(self.now);
        if let Some(other) = job.twin.and_then(|twin| self.jobs.get_mut(twin)) {
            other.twin = None;
            if job.sample.failed {
                return false;
            }
            if let Some(ticket) = other.ticket.take() {
                self.balancers[job.worker].end(ticket, Outcome::Cancelled, now);
            }
        }
        if let Some(hedge) = self.hedges.get_mut(job.worker) {
            // Of a first copy that was overtaken, the time that it had taken.
            hedge.record(if job.is_copy { self.now - job.came } else { first_byte - job.began }, now);
        }
        true
    }
}
