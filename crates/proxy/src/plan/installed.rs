//! What runs on one core? A worker: what serving needs of its thread, and what it has of the plan. Nothing in it is shared with
//! another worker but counters that others read, so nothing is locked.

use super::accept;
use crate::core::Core;
use crate::listener::per_route::Routes;
use crate::listener::probe_answers::Answering;
use crate::listener::rules::Listener;
use crate::load::probe::Prober;
use crate::udp;
use crate::upstream::marked::Marked;
use crate::upstream::pool::WorkerPool;
use std::cell::RefCell;
use std::rc::Rc;

/// A worker: what it keeps whatever the plan says, and what it has of the plan.
pub struct Worker {
    pub core: Rc<Core>,
    pub installed: RefCell<Installed>,
    /// Pools that hold something to look after.
    pub marked: Rc<Marked>,
    /// Asks endpoints for their load.
    pub prober: Rc<Prober>,
}

/// What a worker has of the plan.
#[derive(Default)]
pub struct Installed {
    pub listeners: Vec<Rc<Listener>>,
    pub pools: Vec<Rc<WorkerPool>>,
    pub routes: Rc<Routes>,
    pub accepting: Vec<accept::Accepting>,
    pub answering: Vec<Answering>,
    pub datagrams: Vec<udp::Serving>,
    /// Which plan it is; `None` before the first.
    pub number: Option<u64>,
}

impl Installed {
    /// Whether the worker has not got the plan of this number yet.
    pub fn is_behind(&self, number: u64) -> bool {
        self.number.is_none_or(|installed| installed < number)
    }
}

impl Worker {
    /// Accepts no more, but for those that wait.
    pub fn stop_accepting(self: &Rc<Worker>) {
        let accepting = std::mem::take(&mut self.installed.borrow_mut().accepting);
        accepting.iter().for_each(|accepting| accepting.close(self));
        // A balancer that asks how busy we are is about to send something.
        self.installed.borrow_mut().answering.clear();
        self.installed.borrow().datagrams.iter().for_each(udp::Serving::take_no_more);
    }

    /// Has idle connections end, to clients and to endpoints.
    pub fn close_idle(&self) {
        self.core.wheel.wake_all();
        self.installed.borrow().pools.iter().for_each(|pool| pool.close_idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker may be handed connections before its first plan, whose number is 0: they wait for it.
    #[test]
    fn a_worker_without_a_plan_is_behind_the_first_one() {
        let of = |number| Installed { number, ..Installed::default() };
        assert_eq!([None, Some(0), Some(1)].map(|number| of(number).is_behind(0)), [true, false, false]);
        assert_eq!([None, Some(0), Some(1)].map(|number| of(number).is_behind(1)), [true, true, false]);
    }
}
