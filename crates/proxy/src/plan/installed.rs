//! What runs on one core? A worker: what serving needs of its thread, and what it has of the plan. Nothing in it is shared with
//! another worker but counters that others read, so nothing is locked.

use super::accept;
use crate::core::Core;
use crate::listener::per_route::Routes;
use crate::listener::probe_answers::Answering;
use crate::listener::rules::Listener;
use crate::load::probe::Prober;
use crate::udp;
use crate::upstream::pool::WorkerPool;
use std::cell::RefCell;
use std::rc::Rc;

/// A worker: what it keeps whatever the plan says, and what it has of the plan.
pub struct Worker {
    pub core: Rc<Core>,
    pub installed: RefCell<Installed>,
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
    /// Which plan it is.
    pub number: u64,
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
