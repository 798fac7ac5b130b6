//! A worker: its thread's resources, and the state built from the plan. Workers share nothing but counters, so nothing
//! is locked.

use super::accept;
use crate::core::Core;
use crate::listener::per_route::Routes;
use crate::listener::probe_answers::Answering;
use crate::listener::rules::Listener;
use crate::load::probe::Prober;
use crate::serve::h3;
use crate::udp;
use crate::upstream::marked::Marked;
use crate::upstream::pool::WorkerPool;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// A worker: the state that outlives plans, and the plan that is installed.
pub struct Worker {
    pub core: Rc<Core>,
    pub installed: RefCell<Installed>,
    /// QUIC of the worker, once a listener has HTTP/3.
    pub quic: OnceCell<Rc<h3::Quic>>,
    /// Pools that the next sweep has to visit.
    pub marked: Rc<Marked>,
    /// Probes endpoints for their load.
    pub prober: Rc<Prober>,
}

/// State that a worker has built from the plan.
#[derive(Default)]
pub struct Installed {
    pub listeners: Vec<Rc<Listener>>,
    pub pools: Vec<Rc<WorkerPool>>,
    pub routes: Rc<Routes>,
    pub accepting: Vec<accept::Accepting>,
    pub answering: Vec<Answering>,
    pub datagrams: Vec<udp::Serving>,
    pub quic: Vec<h3::Serving>,
    /// Generation number of the plan; `None` before the first.
    pub number: Option<u64>,
}

impl Installed {
    /// True if the worker has not installed the plan with this number yet.
    pub fn is_behind(&self, number: u64) -> bool {
        self.number.is_none_or(|installed| installed < number)
    }
}

impl Worker {
    /// Stops accepting, after taking the connections in the backlog.
    pub fn stop_accepting(self: &Rc<Worker>) {
        let accepting = std::mem::take(&mut self.installed.borrow_mut().accepting);
        accepting.iter().for_each(|accepting| accepting.close(self));
        // Answering a load probe would attract requests from the balancer that asks.
        self.installed.borrow_mut().answering.clear();
        self.installed.borrow().datagrams.iter().for_each(udp::Serving::take_no_more);
        self.installed.borrow().quic.iter().for_each(h3::Serving::take_no_more);
    }

    /// Closes idle connections, to clients and to endpoints.
    pub fn close_idle(&self) {
        self.core.wheel.wake_all();
        self.installed.borrow().pools.iter().for_each(|pool| pool.close_idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker may be handed connections before it has its first plan, number 0: they have to wait for it.
    #[test]
    fn a_worker_without_a_plan_is_behind_the_first_one() {
        let of = |number| Installed { number, ..Installed::default() };
        assert_eq!([None, Some(0), Some(1)].map(|number| of(number).is_behind(0)), [true, false, false]);
        assert_eq!([None, Some(0), Some(1)].map(|number| of(number).is_behind(1)), [true, true, false]);
    }
}
