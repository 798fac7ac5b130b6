//! How is a client connection counted while it is open? By its worker and its listener, and among those of its address.

use crate::core::Core;
use crate::listener::rules::Listener;
use crate::peer::per_address::OpenConnection;
use std::rc::Rc;

/// Counts a connection until it is dropped.
pub struct Open {
    pub core: Rc<Core>,
    pub listener: Rc<Listener>,
    /// Among those of its address, where they are limited.
    pub place: Option<OpenConnection>,
}

impl Open {
    /// One that its worker has accepted.
    pub fn new(core: Rc<Core>, listener: Rc<Listener>) -> Open {
        listener.stats.active.add(1);
        Open { core, listener, place: None }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.listener.stats.active.sub(1);
        self.listener.open.sub();
        self.core.connection_closed();
    }
}
