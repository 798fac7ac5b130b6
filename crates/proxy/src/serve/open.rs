//! Counts of an open client connection: on its worker, its listener, and for its address.

use crate::core::Core;
use crate::listener::rules::Listener;
use crate::peer::bandwidth::Paces;
use crate::peer::per_address::OpenConnection;
use std::rc::Rc;

/// Guard that counts a connection until it is dropped.
pub struct Open {
    pub core: Rc<Core>,
    pub listener: Rc<Listener>,
    /// Its count among the connections of its address, if these are limited.
    pub place: Option<OpenConnection>,
    /// Bytes that its requests have passed, for routes that limit bandwidth.
    pub paces: Paces,
}

impl Open {
    /// Counts a connection as active. Worker and listener total have counted it at the accept; the guard undoes those,
    /// too.
    pub fn new(core: Rc<Core>, listener: Rc<Listener>) -> Open {
        listener.stats.active.add(1);
        Open { core, listener, place: None, paces: Paces::default() }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.listener.stats.active.sub(1);
        self.listener.open.sub();
        self.core.connection_closed();
    }
}
