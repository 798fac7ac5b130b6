//! A worker's binding at an address: gives its sockets the current answers of the listener, whatever plan
//! they started under.

use crate::answer::{Answerer, Moment};
use crate::core::Core;
use evenkeel_config::plan;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// An address served by a worker.
pub struct Binding {
    pub core: Rc<Core>,
    listener: RefCell<Listener>,
    /// True if its connections must end.
    is_closed: Cell<bool>,
}

/// Settings of a listener, common to all of its addresses.
#[derive(Clone)]
pub struct Listener {
    /// The listener of the current plan.
    pub plan: Arc<plan::Listener>,
    pub answerer: Rc<RefCell<Answerer>>,
    /// Most open connections of this worker.
    pub connections_max: usize,
}

impl Binding {
    /// Binds an address to a listener.
    pub fn new(core: Rc<Core>, listener: Listener) -> Rc<Binding> {
        Rc::new(Binding { core, listener: RefCell::new(listener), is_closed: Cell::new(false) })
    }

    /// Binds the address to another listener, for all later messages.
    pub fn change(&self, listener: Listener) {
        self.listener.replace(listener);
    }

    /// Answerer of the current listener.
    pub fn answerer(&self) -> Rc<RefCell<Answerer>> {
        self.listener.borrow().answerer.clone()
    }

    /// Longest idle time of a client.
    pub fn idle(&self) -> Duration {
        self.listener.borrow().plan.timeouts.client_idle
    }

    /// Current time on both clocks.
    pub fn moment(&self) -> Moment {
        self.core.moment()
    }

    /// Counts a new connection; `None` if the limit is reached.
    pub fn connect(self: &Rc<Binding>) -> Option<Open> {
        let room = self.core.open() < self.listener.borrow().connections_max;
        room.then(|| {
            self.core.connection_opened();
            Open(self.clone())
        })
    }

    /// Ends the connections that wait for their client.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.core.wheel.wake_all();
    }

    /// True if connections must end.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }
}

/// An open connection, which counts until this is dropped.
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
