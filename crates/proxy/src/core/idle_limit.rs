//! Limit of the idle connections to endpoints that a worker keeps, over all pools. The most recently used are kept.

use evenkeel_balance::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Weak;

/// Part of the limit (1/16) that is closed in addition to the excess, so that the scan over all idle connections is
/// rare.
const CLOSED_SHARE: usize = 16;

/// Holder of the idle connections to an endpoint.
pub trait IdleHolder {
    /// Calls `add` with the time since which each connection has been idle.
    fn each_since(&self, add: &mut dyn FnMut(Instant));

    /// Closes at most `most` of the connections that have been idle since `until` or earlier. Returns the number
    /// closed.
    fn close_until(&self, until: Instant, most: usize) -> usize;
}

/// The limit, the number of idle connections, and their holders.
pub struct IdleLimit {
    most: Cell<usize>,
    count: Cell<usize>,
    holders: RefCell<Vec<Weak<dyn IdleHolder>>>,
}

impl Default for IdleLimit {
    fn default() -> IdleLimit {
        IdleLimit { most: Cell::new(usize::MAX), count: Cell::new(0), holders: RefCell::default() }
    }
}

impl IdleLimit {
    /// Sets the limit, and closes connections above it.
    pub fn set(&self, most: usize) {
        self.most.set(most);
        self.make_room();
    }

    /// Registers a holder of idle connections, until it is dropped.
    pub fn add_holder(&self, holder: Weak<dyn IdleHolder>) {
        let mut holders = self.holders.borrow_mut();
        // Dropped holders are removed only when the list would have to grow.
        if holders.len() == holders.capacity() {
            holders.retain(|holder| holder.strong_count() > 0);
        }
        holders.push(holder);
    }

    /// Counts `n` connections that have become idle.
    #[inline]
    pub fn add(&self, n: usize) {
        self.count.set(self.count.get() + n);
        if self.count.get() > self.most.get() {
            self.make_room();
        }
    }

    /// Subtracts `n` connections that are no longer idle.
    #[inline]
    pub fn sub(&self, n: usize) {
        self.count.set(self.count.get() - n);
    }

    /// If there are more connections than the limit, closes those that have been idle longest.
    #[cold]
    fn make_room(&self) {
        let most = self.most.get();
        if self.count.get() <= most {
            return;
        }
        let mut all = Vec::with_capacity(self.count.get());
        let holders: Vec<_> = self.holders.borrow().iter().filter_map(Weak::upgrade).collect();
        holders.iter().for_each(|holder| holder.each_since(&mut |since| all.push(since)));
        let over = self.count.get() - most;
        let mut left = (over + most / CLOSED_SHARE).min(all.len());
        let Some(last) = left.checked_sub(1) else { return };
        let until = *all.select_nth_unstable(last).1;
        for holder in &holders {
            left -= holder.close_until(until, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    struct Held<'l>(RefCell<Vec<u64>>, &'l IdleLimit);

    impl IdleHolder for Held<'static> {
        fn each_since(&self, add: &mut dyn FnMut(Instant)) {
            self.0.borrow().iter().for_each(|since| add(Instant(*since)));
        }

        fn close_until(&self, until: Instant, most: usize) -> usize {
            let mut held = self.0.borrow_mut();
            let n = held.iter().take_while(|since| **since <= until.0).count().min(most);
            held.drain(..n);
            self.1.sub(n);
            n
        }
    }

    #[test]
    fn those_that_were_used_last_are_kept_over_all_holders() {
        let limit: &'static IdleLimit = Box::leak(Box::default());
        limit.set(32);
        let held: Vec<Rc<Held<'static>>> = (0..4).map(|_| Rc::new(Held(RefCell::default(), limit))).collect();
        for holder in &held {
            let weak: Weak<Held<'static>> = Rc::downgrade(holder);
            limit.add_holder(weak);
        }
        for now in 0..1000 {
            held[now as usize % 4].0.borrow_mut().push(now);
            limit.add(1);
        }
        let mut all: Vec<u64> = held.iter().flat_map(|holder| holder.0.borrow().clone()).collect();
        all.sort_unstable();
        assert!((30..=32).contains(&all.len()), "{}", all.len());
        assert_eq!(all, (1000 - all.len() as u64..1000).collect::<Vec<_>>());
        drop(held);
        assert!(limit.holders.borrow().iter().all(|holder| holder.strong_count() == 0));
    }
}
