//! What is answered at an address? A worker's binding there: what its listener says now, whatever plan the tasks of its
//! sockets began with.

use crate::answer::{Answerer, Moment};
use crate::core::Core;
use evenkeel_config::plan;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// One address of a worker.
pub struct Binding {
    pub core: Rc<Core>,
    listener: RefCell<Listener>,
    /// Whether its connections are to end.
    is_closed: Cell<bool>,
}

/// What a listener says at all of its addresses.
#[derive(Clone)]
pub struct Listener {
    /// As planned.
    pub plan: Arc<plan::Listener>,
    pub answerer: Rc<RefCell<Answerer>>,
    /// Open connections of this worker.
    pub connections_max: usize,
}

impl Binding {
    /// An address of a listener.
    pub fn new(core: Rc<Core>, listener: Listener) -> Rc<Binding> {
        Rc::new(Binding { core, listener: RefCell::new(listener), is_closed: Cell::new(false) })
    }

    /// From now on it is this listener's.
    pub fn change(&self, listener: Listener) {
        self.listener.replace(listener);
    }

    /// What answers now.
    pub fn answerer(&self) -> Rc<RefCell<Answerer>> {
        self.listener.borrow().answerer.clone()
    }

    /// How long a client may be idle.
    pub fn idle(&self) -> Duration {
        self.listener.borrow().plan.timeouts.client_idle
    }

    /// The time right now.
    pub fn moment(&self) -> Moment {
        self.core.moment()
    }

    /// One more connection, if there is room.
    pub fn connect(self: &Rc<Binding>) -> Option<Open> {
        let room = self.core.open() < self.listener.borrow().connections_max;
        room.then(|| {
            self.core.connection_opened();
            Open(self.clone())
        })
    }

    /// Has connections end that wait for their client.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.core.wheel.wake_all();
    }

    /// Whether connections are to end.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }
}

/// A connection that is counted as long as this is held.
pub struct Open(Rc<Binding>);

impl Deref for Open {
    type Target = Binding;

    fn deref(&self) -> &Binding {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.core.connection_closed();
    }
}
