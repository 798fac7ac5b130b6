//! Requests in progress: a [`Job`] each, in slots that are reused, so that a request allocates nothing.

use evenkeel_balance::retry::{self, Retry};
use evenkeel_balance::slab::SlotNumbers;
use evenkeel_balance::{FailureKind, LoadReport, Slot, Ticket};

/// Parent of a client's own request.
pub(super) const CLIENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Well,
    Bad(crate::run::Failure),
}

impl Answer {
    /// Returns the failure as balancers and retries classify it; `None` for success.
    pub fn as_failure(self) -> Option<(FailureKind, retry::Failure)> {
        use crate::run::Failure;
        match self {
            Answer::Well => None,
            Answer::Bad(Failure::Refused) => Some((FailureKind::Connect, retry::Failure::Connect)),
            Answer::Bad(Failure::Failed) => Some((FailureKind::Gateway, retry::Failure::Status(503))),
            Answer::Bad(Failure::TimedOut) => Some((FailureKind::Gateway, retry::Failure::Timeout)),
            // No server was involved, so no outcome is reported.
            Answer::Bad(Failure::NoPick) => None,
        }
    }
}

/// A request of a client, or of a server to another service.
pub(super) struct Job {
    /// Job that waits for this job, or [`CLIENT`].
    pub parent: u32,
    pub service: u16,
    /// Index of the step that it is at.
    pub step: u16,
    pub dispatcher: u32,
    pub worker: u32,
    pub server: u32,
    pub ticket: Option<Ticket>,
    /// Start time; time of arrival at the server; requests that were in flight there on arrival.
    pub began: u64,
    pub arrived: u64,
    pub found: u32,
    /// Seed of all random choices for this request.
    pub seed: u64,
    /// Number of the attempt, wrapping. Not reset when the slot is reused, so that timeouts of an earlier job do not
    /// match.
    pub attempt: u16,
    pub answer: Answer,
    pub rest: Option<Box<Rest>>,
    /// True after a timeout: its caller no longer waits for the answer.
    pub orphan: bool,
    pub measured: bool,
}

/// State that few requests need. Kept out of [`Job`] to make that smaller: with 10,000 requests in flight, a fifth of
/// the time is spent on cache misses on jobs. Stays in its slot for the next job.
#[derive(Default)]
pub(super) struct Rest {
    pub retry: Retry,
    pub tried: Vec<Slot>,
    /// True if the next attempt must leave the tier in which the previous attempt failed.
    pub beyond: bool,
    /// Load report that came with the server's answer.
    pub report: Option<LoadReport>,
}

impl Job {
    #[inline]
    pub fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// True if the next attempt must leave the tier in which the previous attempt failed.
    #[inline]
    pub fn is_beyond(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.beyond)
    }

    /// Slots of the servers on which it failed.
    #[inline]
    pub fn tried(&self) -> &[Slot] {
        self.rest.as_ref().map_or(&[], |rest| &rest.tried)
    }

    #[inline]
    pub fn take_report(&mut self) -> Option<LoadReport> {
        self.rest.as_mut()?.report.take()
    }
}

#[derive(Default)]
pub(super) struct Jobs {
    all: Vec<Job>,
    slots: SlotNumbers,
}

impl Jobs {
    pub fn add(&mut self, parent: u32, service: u16, seed: u64, began: u64, measured: bool) -> u32 {
        let index = self.slots.occupy();
        if let Some(job) = self.all.get_mut(index as usize) {
            (job.parent, job.service, job.seed, job.began, job.measured) = (parent, service, seed, began, measured);
            (job.step, job.answer, job.orphan) = (0, Answer::Well, false);
            job.attempt = job.attempt.wrapping_add(1);
            if let Some(rest) = &mut job.rest {
                (rest.retry, rest.beyond, rest.report) = (Retry::default(), false, None);
                rest.tried.clear();
            }
            return index;
        }
        self.all.push(Job {
            parent,
            service,
            step: 0,
            dispatcher: 0,
            worker: 0,
            server: 0,
            ticket: None,
            began,
            arrived: 0,
            found: 0,
            seed,
            attempt: 0,
            answer: Answer::Well,
            rest: None,
            orphan: false,
            measured,
        });
        index
    }

    pub fn free(&mut self, index: u32) {
        debug_assert!(self.all[index as usize].ticket.is_none(), "a ticket would be lost");
        self.slots.vacate(index);
    }

    #[inline]
    pub fn get(&mut self, index: u32) -> &mut Job {
        &mut self.all[index as usize]
    }
}

impl Jobs {
    /// Returns the start times of client requests that have not ended.
    pub fn open_of_clients(&self) -> impl Iterator<Item = u64> + '_ {
        let vacant: std::collections::BTreeSet<u32> = self.slots.vacant().iter().copied().collect();
        let open = move |(i, job): (usize, &Job)| {
            (!vacant.contains(&(i as u32)) && job.parent == CLIENT && !job.orphan).then_some(job.began)
        };
        self.all.iter().enumerate().filter_map(open)
    }
}
