//! The latest requests of a worker at a pool: when each started, where it went and how long it took. The results of
//! other algorithms are predicted from them, away from the worker.
//!
//! A start writes a row and an end completes it, so recording costs a worker some nanoseconds per request. Rows of
//! another set would not apply to this set: they are dropped when the members of the set change.

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::request::{End, Outcome, Request};
use crate::measurement::ticket::Hold;
use crate::structures::time::Instant;

/// Most rows of a worker. The mark in a ticket can name as many; at 40 bytes each they take 1.3 MB.
pub const ROWS_MAX: usize = Hold::MARK_MAX as usize;

/// A request, or a try of it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Time at which the request started.
    pub began: Instant,
    /// Nanoseconds from the start to the end; [`Row::OPEN`] while the request is in flight.
    pub held_ns: u64,
    /// Nanoseconds from the start to the first byte of the response.
    pub latency_ns: u64,
    /// Hash of the request's key; 0 if it has none.
    pub key: u64,
    /// Slot of the chosen endpoint.
    pub slot: Slot,
    /// True if the request has a key, whose hash may be 0.
    pub keyed: bool,
    /// Way in which the endpoint was chosen.
    pub way: Way,
    /// True if the request failed in a way that algorithms learn from, or was cancelled by its client.
    pub failed: bool,
}

impl Row {
    /// Value of `held_ns` while a request is in flight.
    pub const OPEN: u64 = u64::MAX;
}

/// Way in which an endpoint was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the algorithm, on the first try.
    Picked,
    /// By the algorithm, after other endpoints were tried or from an overflow set.
    Elsewhere,
    /// By something else: a session or a hedge.
    Given,
}

/// The latest requests of a worker, and the set that they were picked from.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Requests in the order of their starts, oldest first.
    pub rows: Vec<Row>,
    /// Endpoint set of the latest pick.
    pub set: EndpointSet,
    /// Load reports accepted since the set changed.
    pub reports: u64,
}

/// Records the starts and ends of requests as rows.
#[derive(Default)]
pub(crate) struct Recorder {
    /// Ring buffer, once it has [`ROWS_MAX`] rows.
    rows: Vec<Row>,
    next: usize,
    members: Vec<(Slot, EndpointId, u32, u32)>,
    reports: u64,
}

impl Recorder {
    #[cold]
    pub(crate) fn on_set(&mut self, set: &EndpointSet) {
        let known = |m: &Member| (m.slot, m.id, m.weight, m.in_flight_max);
        let members: Vec<_> = set.members().iter().map(known).collect();
        if members != self.members {
            *self = Recorder { members, ..Recorder::default() };
        }
    }

    /// Records a pick, and returns the mark for its ticket.
    #[cold]
    pub(crate) fn picked(&mut self, set: &EndpointSet, request: &Request<'_>, slot: Slot, now: Instant) -> u32 {
        let first = request.tried.is_empty() && set.position_of(slot).is_some();
        self.note(slot, request.key, if first { Way::Picked } else { Way::Elsewhere }, now)
    }

    /// Records a start at an endpoint that something else chose, and returns the mark for its ticket.
    #[cold]
    pub(crate) fn given(&mut self, slot: Slot, now: Instant) -> u32 {
        self.note(slot, None, Way::Given, now)
    }

    fn note(&mut self, slot: Slot, key: Option<u64>, way: Way, began: Instant) -> u32 {
        let (keyed, key) = (key.is_some(), key.unwrap_or(0));
        let row = Row { began, held_ns: Row::OPEN, latency_ns: 0, key, slot, keyed, way, failed: false };
        let at = self.next;
        match self.rows.get_mut(at) {
            Some(oldest) => *oldest = row,
            None => self.rows.push(row),
        }
        self.next = if at + 1 == ROWS_MAX { 0 } else { at + 1 };
        at as u32 + 1
    }

    /// Completes the row of the request with this mark, if it still exists.
    #[cold]
    pub(crate) fn ended(&mut self, mark: u32, slot: Slot, began: Instant, end: &End) {
        let Some(row) = self.rows.get_mut(mark as usize - 1) else { return };
        if (row.slot, row.began, row.held_ns) == (slot, began, Row::OPEN) {
            row.held_ns = end.now.since(began).min(Row::OPEN - 1);
            row.latency_ns = end.latency_ns;
            row.failed = end.outcome.is_failure() || end.outcome == Outcome::Cancelled;
        }
    }

    #[cold]
    pub(crate) fn reported(&mut self) {
        self.reports += 1;
    }

    pub(crate) fn recent(&self, set: &EndpointSet) -> Recent {
        let (newer, older) = self.rows.split_at(self.next.min(self.rows.len()));
        Recent { rows: [older, newer].concat(), set: set.clone(), reports: self.reports }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::{Balancer, EndpointSpec, Params, Pool, Seat};

    fn recorded(pool: &Pool) -> Balancer {
        let algorithm = algorithms::find("round_robin").expect("it is registered");
        let params = Params::defaults(algorithm.params);
        pool.balancer(algorithm, &params, Seat::default(), 1).expect("its defaults").remembering()
    }

    fn start(b: &mut Balancer, now: u64) -> crate::Ticket {
        b.start(&Request { key: Some(now), ..Request::default() }, Instant(now)).expect("there is room")
    }

    #[test]
    fn the_oldest_row_gives_way_and_its_end_completes_no_other() {
        let mut pool = Pool::new(1);
        pool.update(&["a", "b"].map(EndpointSpec::new), Instant(0));
        let mut b = recorded(&pool);
        let long = start(&mut b, 0);
        for now in 1..=ROWS_MAX as u64 {
            let ticket = start(&mut b, now);
            b.end(ticket, Outcome::Success, Instant(now + 7));
        }
        b.end(long, Outcome::Cancelled, Instant(100_000));
        let rows = b.recent().expect("it remembers").rows;
        assert_eq!(rows.len(), ROWS_MAX);
        assert!(rows.windows(2).all(|two| two[0].began < two[1].began), "the oldest first");
        assert!(rows.iter().all(|row| row.held_ns == 7 && !row.failed && row.key == row.began.0));
    }

    #[test]
    fn rows_of_other_members_are_dropped_and_their_ends_ignored() {
        let mut pool = Pool::new(1);
        pool.update(&["a", "b"].map(EndpointSpec::new), Instant(0));
        let mut b = recorded(&pool);
        let before = start(&mut b, 5);
        pool.update(&["a", "b", "c"].map(EndpointSpec::new), Instant(6));
        let after = start(&mut b, 6);
        b.end(before, Outcome::Success, Instant(8));
        let rows = b.recent().expect("it remembers").rows;
        assert_eq!((rows.len(), rows[0].held_ns), (1, Row::OPEN));
        b.end(after, Outcome::Success, Instant(9));
        let rows = b.recent().expect("it remembers").rows;
        assert_eq!((rows[0].held_ns, rows[0].slot), (3, rows[0].slot));
    }
}
