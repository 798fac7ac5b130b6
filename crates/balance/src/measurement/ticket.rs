//! What does a request in flight hold? A [`Ticket`]: its endpoint, a share of its limit if that has one, and since when.
//!
//! A ticket has no `Drop`: shells own cancellation, by a guard whose drop calls `end(Cancelled)`, so that this crate
//! needs no reference counting on the hot path.

use crate::endpoints::set::{Member, Slot};
use crate::structures::time::Instant;

/// One request in flight. Must be given back to the [`Balancer`](crate::Balancer) that made it.
#[derive(Debug)]
#[must_use = "a ticket that is not ended counts as a request in flight forever"]
pub struct Ticket {
    pub(crate) slot: Slot,
    pub(crate) hold: Hold,
    pub(crate) began: Instant,
    pub(crate) answered: Option<Instant>,
}

/// What a request holds at its endpoint, as of its start, as the set may change while it is out: in the lowest bit whether
/// it counts towards a limit, above it the number of the trial that its outcome decides, and in the highest 15 the mark of
/// its row among the latest requests. One number, as it is moved around with each ticket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold(u32);

impl Hold {
    /// The highest mark.
    pub(crate) const MARK_MAX: u32 = (1 << 15) - 1;

    /// The same with the mark of its row.
    pub(crate) fn marked(self, mark: u32) -> Hold {
        Hold((self.0 & ((1 << 17) - 1)) | mark << 17)
    }

    /// The mark; 0 for none.
    #[inline]
    pub(crate) fn mark(self) -> u32 {
        self.0 >> 17
    }

    #[inline]
    pub(crate) fn at(member: &Member) -> Hold {
        Hold(u32::from(member.in_flight_max != 0) | u32::from(member.trial) << 1)
    }

    #[inline]
    pub(crate) fn is_limited(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline]
    pub(crate) fn trial(self) -> u16 {
        (self.0 >> 1) as u16
    }
}

impl Ticket {
    /// Of a request that starts now.
    #[inline]
    pub(crate) fn new(slot: Slot, hold: Hold, now: Instant) -> Ticket {
        Ticket { slot, hold, began: now, answered: None }
    }

    /// Of a request in a journal, which decides no trial.
    pub(crate) fn replayed(slot: Slot, held: bool, latency_ns: u64) -> Ticket {
        Ticket { slot, hold: Hold(u32::from(held)), began: Instant(0), answered: Some(Instant(latency_ns)) }
    }

    /// The endpoint's slot.
    #[inline]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// When the request started.
    #[inline]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// From the start to the first byte of the response, or to `now` where there is none yet; nanoseconds.
    #[inline]
    pub fn latency_ns(&self, now: Instant) -> u64 {
        self.answered.unwrap_or(now).since(self.began)
    }

    /// Notes that the first byte of the response came at `now`. The latency that algorithms see ends there: the rest
    /// of a large or streaming body says more about the client than about the endpoint.
    #[inline]
    pub fn answered(&mut self, now: Instant) {
        self.answered = Some(now);
    }
}
