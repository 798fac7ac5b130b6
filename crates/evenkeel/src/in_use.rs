//! Addresses that something else has, of listeners that providers want: the listeners are served once these are free.

use evenkeel_config::Plan;
use evenkeel_config::plan::Mode;
use evenkeel_discovery::providers::merge::{Kind, Unwanted};
use evenkeel_net::listen::{Protocol, is_free};
use std::net::SocketAddr;

#[derive(Default)]
pub struct InUse(Vec<(Protocol, SocketAddr)>);

impl InUse {
    /// Adds the addresses of unwanted listeners of a plan, but those that are free: they are unwanted for another reason.
    pub fn add(&mut self, plan: &Plan, unwanted: &Unwanted) {
        let is_unwanted = |name| unwanted.contains_key(&(Kind::Listener, name));
        for listener in plan.listeners.iter().filter(|one| is_unwanted(one.name.clone()) && !one.plane.is_kernel()) {
            let protocol = if listener.mode == Mode::Udp { Protocol::Udp } else { Protocol::Tcp };
            let taken = listener.bind.iter().filter(|addr| !is_free(protocol, **addr));
            self.0.extend(taken.map(|addr| (protocol, *addr)));
        }
    }

    /// True if any of the addresses is free by now.
    pub fn is_over(&self) -> bool {
        self.0.iter().any(|(protocol, addr)| is_free(*protocol, *addr))
    }
}
