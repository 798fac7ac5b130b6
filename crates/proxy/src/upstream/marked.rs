//! Pools of a worker that need a sweep once a second. A pool marks itself when it gets a connection to keep, so that
//! the cost of a sweep depends on the marked pools and not on the number of pools.

use evenkeel_balance::Instant;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// A pool, as seen by the sweep.
pub trait Swept {
    /// Closes and flushes connections that are due. Returns true if something is left for the next sweep.
    fn sweep(&self, now: Instant) -> bool;
}

/// Pools to visit in the next sweep.
#[derive(Default)]
pub struct Marked(RefCell<Vec<Rc<Mark>>>);

/// The mark of a pool, shared by everything that may hold connections for it.
pub struct Mark {
    all: Rc<Marked>,
    is_set: Cell<bool>,
    /// The pool; replaced when its algorithm changes.
    pool: RefCell<Option<Weak<dyn Swept>>>,
}

impl Mark {
    /// Creates a mark that is not set and has no pool.
    pub fn new(all: &Rc<Marked>) -> Rc<Mark> {
        Rc::new(Mark { all: all.clone(), is_set: Cell::new(false), pool: RefCell::default() })
    }

    /// Assigns the pool to sweep, and marks it so that it is swept at least once.
    pub fn follow(self: &Rc<Mark>, pool: Weak<dyn Swept>) {
        self.pool.replace(Some(pool));
        self.set();
    }

    /// Marks the pool for the next sweep.
    #[inline]
    pub fn set(self: &Rc<Mark>) {
        if !self.is_set.replace(true) {
            self.all.0.borrow_mut().push(self.clone());
        }
    }
}

impl Marked {
    /// True if the next sweep has a pool to visit.
    pub fn any(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Sweeps the marked pools. Those with nothing left lose their mark.
    pub fn sweep(&self, now: Instant) {
        for mark in self.0.take() {
            mark.is_set.set(false);
            let pool = mark.pool.borrow().as_ref().and_then(Weak::upgrade);
            if pool.is_some_and(|pool| pool.sweep(now)) {
                mark.set();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that needs sweeping for the first number of sweeps, and counts them in the second.
    struct Pool(Cell<usize>, Cell<usize>);

    impl Swept for Pool {
        fn sweep(&self, _: Instant) -> bool {
            self.1.set(self.1.get() + 1);
            self.0.set(self.0.get().saturating_sub(1));
            self.0.get() > 0
        }
    }

    #[test]
    fn a_pool_is_swept_while_it_holds_something_and_others_are_not() {
        let marked = Rc::<Marked>::default();
        let pool = |holds| {
            let (mark, pool) = (Mark::new(&marked), Rc::new(Pool(Cell::new(holds), Cell::new(0))));
            let weak: Weak<Pool> = Rc::downgrade(&pool);
            mark.follow(weak);
            (mark, pool)
        };
        let (busy, idle) = (pool(3), pool(0));
        let swept = || {
            marked.sweep(Instant(0));
            (busy.1.1.get(), idle.1.1.get(), marked.any())
        };
        assert_eq!([swept(), swept(), swept(), swept()], [(1, 1, true), (2, 1, true), (3, 1, false), (3, 1, false)]);
        busy.1.0.set(1);
        (0..2).for_each(|_| busy.0.set());
        assert_eq!(swept(), (4, 1, false), "once, however often it was marked");
        idle.0.set();
        drop(idle.1);
        marked.sweep(Instant(0));
        assert!(!marked.any(), "it is gone");
    }
}
