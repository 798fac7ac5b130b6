//! Counts of an open client connection: on its worker, its listener, and for its address.

use crate::core::Core;
use crate::listener::rules::Listener;
use crate::peer::connection_states::ConnectionStates;
use crate::peer::per_address::OpenConnection;
use std::rc::Rc;

/// Guard that counts a connection until it is dropped.
pub struct Open {
    pub core: Rc<Core>,
    pub listener: Rc<Listener>,
    /// Its count among the connections of its address, if these are limited.
    pub place: Option<OpenConnection>,
    /// States that filters keep of it.
    pub states: ConnectionStates,
}

impl Open {
    /// Counts a connection as active. Worker and listener total have counted it at the accept; the guard undoes those,
    /// too.
    pub fn new(core: Rc<Core>, listener: Rc<Listener>) -> Open {
        listener.stats.active.add(1);
        Open { core, listener, place: None, states: ConnectionStates::default() }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.listener.stats.active.sub(1);
        self.listener.open.sub();
        self.core.connection_closed();
    }
}
