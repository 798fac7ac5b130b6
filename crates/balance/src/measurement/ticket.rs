//! The ticket of a request in flight: its endpoint, its place under a limit, and its start.
//!
//! A ticket has no `Drop`. Shells own cancellation, by a guard that calls `end(Cancelled)` when dropped, so that this
//! crate needs no reference counting on the hot path.

use crate::endpoints::set::{Member, Slot};
use crate::structures::time::Instant;

/// A request in flight. Must be given back to the [`Balancer`](crate::Balancer) that made it.
#[derive(Debug)]
#[must_use = "a ticket that is not ended counts as a request in flight forever"]
pub struct Ticket {
    pub(crate) slot: Slot,
    pub(crate) hold: Hold,
    pub(crate) began: Instant,
    pub(crate) answered: Option<Instant>,
}

/// State of a request at its endpoint as of its start, since the set may change while it is in flight. The lowest bit
/// is set if it counts towards a limit; the 16 bits above are the number of the trial that its outcome decides, and the
/// highest 15 the mark of its row among the latest requests. A single number, as it is moved around with each ticket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold(u32);

impl Hold {
    /// Largest mark that fits into 15 bits.
    pub(crate) const MARK_MAX: u32 = (1 << 15) - 1;

    /// Returns this hold with the mark of the request's row.
    pub(crate) fn marked(self, mark: u32) -> Hold {
        Hold((self.0 & ((1 << 17) - 1)) | mark << 17)
    }

    /// Mark of the request's row; 0 for none.
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
    /// Returns the ticket of a request that starts now.
    #[inline]
    pub(crate) fn new(slot: Slot, hold: Hold, now: Instant) -> Ticket {
        Ticket { slot, hold, began: now, answered: None }
    }

    /// Returns the ticket of a request in a journal, which decides no trial.
    pub(crate) fn replayed(slot: Slot, held: bool, latency_ns: u64) -> Ticket {
        Ticket { slot, hold: Hold(u32::from(held)), began: Instant(0), answered: Some(Instant(latency_ns)) }
    }

    /// Slot of the request's endpoint.
    #[inline]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Time at which the request started.
    #[inline]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Nanoseconds from the start to the first byte of the response, or to `now` if there is none yet.
    #[inline]
    pub fn latency_ns(&self, now: Instant) -> u64 {
        self.answered.unwrap_or(now).since(self.began)
    }

    /// Records that the first byte of the response arrived at `now`, which ends the latency that algorithms see. The
    /// rest of a large or streaming body depends more on the client than on the endpoint.
    #[inline]
    pub fn answered(&mut self, now: Instant) {
        self.answered = Some(now);
    }
}
