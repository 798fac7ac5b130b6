//! Event queue, ordered by time; events at the same time come in order of insertion.

use std::collections::VecDeque;

/// Simulated event. The numbers are indices into the arrays of [`World`](super::world::World).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A client sends a request.
    Arrive,
    /// A request reaches a balancer on a separate machine.
    AtBalancer(u32),
    /// A request reaches its server.
    AtServer(u32),
    /// A request that runs as if alone has done its work.
    Done(u32),
    /// A request at this server may have done its work. Ignored if the server has been rescheduled since.
    Depart(u32),
    /// An answer reaches the sender of the request.
    Answered(u32),
    /// The answer of a balancer on a separate machine reaches the caller.
    Returned(u32),
    /// Timeout of an attempt. Ignored if the request is no longer at the attempt of this number.
    TimedOut(u32, u16),
    /// Retry of a job after its back-off.
    Again(u32),
    /// Timeout of a request in the queue of a pool. Ignored if it no longer waits.
    WaitedLong(u32, u16),
    /// A probe reaches its server, or its answer reaches the balancer.
    Probe(u32),
    /// A server's capacity changes: its index, and the index of the process in its `capacity`.
    Capacity(u32, u16),
    /// Every balancer of a service gets load reports of all its servers.
    Board(u16),
    /// A pool asked to be polled at this time.
    Poll(u32),
    /// A pool learns of servers that joined or left.
    Members(u32),
    /// A pool checks its servers.
    Check(u32),
    /// The result of a check: which pool, which server of its service.
    Checked(u32, u16),
    /// The time series get a sample.
    Sample,
}

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    sequence: u64,
    event: Event,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.at, self.sequence)
    }
}

/// Times are numbers of [`DIGITS`] digits of this many bits.
const BITS: u32 = 6;
const DIGITS: u32 = u64::BITS.div_ceil(BITS);
const SLOTS: usize = 1 << BITS;

/// Future events, as a radix queue: a binary heap took a quarter of the CPU time at 10,000 requests in flight. An event
/// waits in the slot of the highest digit in which its time differs from `base`, and moves to a lower digit when `base`
/// reaches that slot, at most once per digit. Each slot keeps the order of insertion, also when its events move down.
pub(crate) struct Calendar {
    /// Lower bounds: no event is earlier than `base`, and none but those in `under_way` is earlier than `from`.
    base: u64,
    from: u64,
    /// Entries whose time is `base`.
    due: VecDeque<Entry>,
    /// Slot by digit, lowest first, and by the digit's value.
    slots: Vec<Vec<Entry>>,
    /// Bit sets: by digit, its slots that are not empty; and the digits with such slots.
    used: [u64; DIGITS as usize],
    digits: u16,
    /// Messages on links. All links have the same delay, so they arrive in the order in which they were sent.
    under_way: VecDeque<Entry>,
    sequence: u64,
}

impl Default for Calendar {
    fn default() -> Calendar {
        Calendar {
            base: 0,
            from: 0,
            due: VecDeque::new(),
            slots: vec![Vec::new(); DIGITS as usize * SLOTS],
            used: [0; DIGITS as usize],
            digits: 0,
            under_way: VecDeque::new(),
            sequence: 0,
        }
    }
}

impl Calendar {
    /// Inserts an event at a time not before the current time.
    #[inline]
    pub fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.put(Entry { at, sequence: self.sequence, event });
    }

    /// Inserts the arrival of a message sent now; `at` is now plus the delay of a link.
    #[inline]
    pub fn send(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        debug_assert!(self.under_way.back().is_none_or(|e| e.at <= at), "all ways are equally long");
        self.under_way.push_back(Entry { at, sequence: self.sequence, event });
    }

    #[inline]
    pub fn next(&mut self) -> Option<(u64, Event)> {
        self.next_entry().map(|entry| (entry.at, entry.event))
    }

    fn next_entry(&mut self) -> Option<Entry> {
        loop {
            let sent = self.under_way.front().map_or((u64::MAX, u64::MAX), Entry::key);
            if sent.0 < self.from {
                return self.under_way.pop_front();
            }
            if let Some(entry) = self.due.front() {
                return if sent < entry.key() { self.under_way.pop_front() } else { self.due.pop_front() };
            }
            if self.digits == 0 {
                return self.under_way.pop_front();
            }
            let digit = self.digits.trailing_zeros();
            let value = self.used[digit as usize].trailing_zeros();
            let from = ((self.base >> (digit * BITS)) & !(SLOTS as u64 - 1) | u64::from(value)) << (digit * BITS);
            let slot = digit as usize * SLOTS + value as usize;
            let alone = match self.slots[slot][..] {
                [entry] => Some(entry),
                _ => None,
            };
            let first = alone.map_or((from, 0), |entry| entry.key());
            self.from = first.0;
            if sent < first {
                return self.under_way.pop_front();
            }
            self.used[digit as usize] &= !(1 << value);
            self.digits &= !(u16::from(self.used[digit as usize] == 0) << digit);
            if let Some(entry) = alone {
                self.base = entry.at;
                return self.slots[slot].pop();
            }
            self.base = from;
            let mut entries = std::mem::take(&mut self.slots[slot]);
            entries.drain(..).for_each(|entry| self.put(entry));
            self.slots[slot] = entries; // keeps the allocation
        }
    }

    #[inline]
    fn put(&mut self, entry: Entry) {
        debug_assert!(entry.at >= self.base, "events of the past");
        self.from = self.from.min(entry.at);
        let differs = entry.at ^ self.base;
        if differs == 0 {
            return self.due.push_back(entry);
        }
        let digit = differs.ilog2() / BITS;
        let value = entry.at >> (digit * BITS) & (SLOTS as u64 - 1);
        self.slots[digit as usize * SLOTS + value as usize].push(entry);
        self.used[digit as usize] |= 1 << value;
        self.digits |= 1 << digit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_balance::Rng;
    use std::collections::BTreeSet;

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

    #[test]
    fn events_come_in_order_whatever_lies_between_them() {
        for seed in 0..200 {
            let (mut rng, mut calendar) = (Rng::new(seed), Calendar::default());
            // Expected events, by time and order of insertion; the number of the next event; the current time.
            let (mut want, mut entered, mut now) = (BTreeSet::new(), 0, 0u64);
            let way = 1 << rng.below(20);
            for _ in 0..2000 {
                // Grows or shrinks with the seed; delays from 0 to 2^52 ns (52 days).
                if rng.below(1000) < 500 + seed as u32 {
                    let sent = rng.below(3) == 0;
                    let longest = 1 << rng.below(53);
                    let (at, event) = (now + if sent { way } else { rng.below_u64(longest) }, Event::Done(entered));
                    if sent {
                        calendar.send(at, event)
                    } else {
                        calendar.at(at, event)
                    }
                    want.insert((at, entered));
                    entered += 1;
                } else {
                    let got = calendar.next().map(|(at, event)| match event {
                        Event::Done(i) => (at, i),
                        other => panic!("{other:?}"),
                    });
                    assert_eq!(got, want.pop_first(), "seed {seed}");
                    now = got.map_or(now, |(at, _)| at);
                }
            }
        }
    }
}
