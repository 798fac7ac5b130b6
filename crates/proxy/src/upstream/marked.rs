//! Pools of a worker that hold something to look after once a second. Each marks itself when it gets a connection to keep, so that
//! a sweep costs what there is to sweep, however many pools there are.

use evenkeel_balance::Instant;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// A pool, as a sweep sees it.
pub trait Swept {
    /// Looks after what it holds. Returns true if there is something left for the next sweep.
    fn sweep(&self, now: Instant) -> bool;
}

/// The pools that are marked.
#[derive(Default)]
pub struct Marked(RefCell<Vec<Rc<Mark>>>);

/// The mark of a pool, shared by all that may hold something for it.
pub struct Mark {
    all: Rc<Marked>,
    is_set: Cell<bool>,
    /// The pool; another one when its algorithm changes.
    pool: RefCell<Option<Weak<dyn Swept>>>,
}

impl Mark {
    /// Creates a mark that is not set.
    pub fn new(all: &Rc<Marked>) -> Rc<Mark> {
        Rc::new(Mark { all: all.clone(), is_set: Cell::new(false), pool: RefCell::default() })
    }

    /// Follows this pool from now on, which is looked at once in any case.
    pub fn follow(self: &Rc<Mark>, pool: Weak<dyn Swept>) {
        self.pool.replace(Some(pool));
        self.set();
    }

    /// Notes that there is something to look after.
    #[inline]
    pub fn set(self: &Rc<Mark>) {
        if !self.is_set.replace(true) {
            self.all.0.borrow_mut().push(self.clone());
        }
    }
}

impl Marked {
    /// True if there is a pool to look after.
    pub fn any(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Sweeps the pools. Those that hold nothing more are marked no longer.
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

    /// Holds something for so many sweeps, and counts them.
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
