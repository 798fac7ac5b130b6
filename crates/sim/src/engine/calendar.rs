//! What happens next? Events in order of time, ties in the order in which they were entered.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// What happens. Numbers are indices into the world's arrays.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A client's request, from the stream of arrivals or a user who has thought.
    Arrive,
    /// A request reaches its server.
    AtServer(u32),
    /// The work of a request is done that shares nothing with others.
    Done(u32),
    /// The work of some request at a server may be done.
    Depart(u32),
    /// An answer reaches whoever sent the request.
    Answered(u32),
    /// A try has taken too long, if it is still the try of this number.
    TimedOut(u32, u16),
    /// A try after a pause.
    Again(u32),
    /// A request has waited too long in the queue of a pool, if it still waits.
    WaitedLong(u32, u16),
    /// A message of a probe: question or answer.
    Probe(u32),
    /// A server's capacity changes: its number, and which of its processes.
    Capacity(u32, u16),
    /// Every balancer of a service is told the load of its servers.
    Board(u16),
    /// A pool has something to decide.
    Poll(u32),
    /// A pool learns which servers there are.
    Members(u32),
    /// A pool checks its servers.
    Check(u32),
    /// The result of a check: which pool, which server of its service.
    Checked(u32, u16),
    /// Figures over time are noted.
    Sample,
}

struct Entry {
    at: u64,
    sequence: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, as heaps give the greatest first.
    #[inline]
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

/// Everything that is going to happen.
#[derive(Default)]
pub(super) struct Calendar {
    heap: BinaryHeap<Entry>,
    /// What is under way between machines: as every way takes equally long, in order by itself.
    under_way: VecDeque<Entry>,
    sequence: u64,
}

impl Calendar {
    /// Enters an event.
    #[inline]
    pub fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.heap.push(Entry { at, sequence: self.sequence, event });
    }

    /// Enters an event one way from now.
    #[inline]
    pub fn send(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        debug_assert!(self.under_way.back().is_none_or(|e| e.at <= at), "all ways are equally long");
        self.under_way.push_back(Entry { at, sequence: self.sequence, event });
    }

    /// The next event.
    #[inline]
    pub fn next(&mut self) -> Option<(u64, Event)> {
        let sent_first = match (self.heap.peek(), self.under_way.front()) {
            (Some(entry), Some(sent)) => (sent.at, sent.sequence) < (entry.at, entry.sequence),
            (None, sent) => sent.is_some(),
            (Some(_), None) => false,
        };
        let entry = if sent_first { self.under_way.pop_front() } else { self.heap.pop() }?;
        Some((entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_come_in_the_order_in_which_they_were_entered() {
        let mut calendar = Calendar::default();
        calendar.at(5, Event::Done(1));
        calendar.send(5, Event::Done(2));
        calendar.at(3, Event::Done(0));
        calendar.at(5, Event::Done(3));
        let order = std::iter::from_fn(|| calendar.next()).map(|(_, event)| match event {
            Event::Done(i) => i,
            other => panic!("{other:?}"),
        });
        assert_eq!(order.collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
