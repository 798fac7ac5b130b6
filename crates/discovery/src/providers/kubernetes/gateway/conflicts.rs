//! Ports that several objects ask for. A port that cannot be shared goes to the oldest object.

use super::addresses::overlap;
use super::gateways::{Gateway, Gateways, Listener, Protocol};
use crate::providers::kubernetes::services::Fault;
use crate::providers::kubernetes::translation::Taken;
use crate::providers::kubernetes::world::store::{Kind, World};
use std::net::IpAddr;

impl Gateways<'_> {
    /// Leaves each port to the oldest object that asks for it. `taken`: ports of Ingresses.
    pub fn divide_ports(&mut self, world: &World, taken: &[Taken<'_>]) {
        self.sort_listeners(world);
        self.leave_taken(world, taken);
        self.find_conflicts();
    }

    /// Sorts listeners by the age of their objects: no object takes a port from an older object.
    fn sort_listeners(&mut self, world: &World) {
        let Gateways { all, listeners, .. } = self;
        listeners.sort_by_cached_key(|listener| listener.age(all, world));
    }

    /// Leaves ports to Ingresses that were there before, unless they can be shared.
    fn leave_taken(&mut self, world: &World, taken: &[Taken<'_>]) {
        let Gateways { all, listeners, .. } = self;
        for listener in listeners {
            let (age, addresses) = (listener.age(all, world), &all[listener.gateway].addresses);
            let protocol = listener.protocol.filter(|protocol| *protocol != Protocol::Udp);
            let excludes = |one: &&Taken<'_>| {
                let shares = match protocol {
                    None => return false,
                    Some(Protocol::Http) => !one.is_tls,
                    Some(Protocol::Https) => one.is_tls && listener.clients.is_none(),
                    Some(_) => false,
                };
                let mut here = addresses.iter().filter(|ip| overlap(**ip, one.addr.ip()));
                let is_here = one.addr.port() == listener.spec.port && one.since < age;
                is_here && here.any(|ip| !shares || *ip != one.addr.ip())
            };
            if let Some(one) = taken.iter().find(excludes) {
                let message = format!("older Ingresses have port {}", one.addr.port());
                listener.accepted = Err(("PortUnavailable", message));
            }
        }
    }

    /// Finds listeners that cannot share their port with an earlier listener, of the same Gateway or of another Gateway
    /// at the same address.
    fn find_conflicts(&mut self) {
        for at in 0..self.listeners.len() {
            let Some((fault, other)) = self.conflict(at) else { continue };
            if self.listeners[other].gateway != self.listeners[at].gateway {
                // An address that another Gateway has is none of the listener's faults.
                self.listeners[at].accepted = Err(("PortUnavailable", fault.1));
                continue;
            }
            if self.listeners[other].owner == self.listeners[at].owner {
                // If both listeners belong to the same object, neither is preferred.
                let listener = &self.listeners[at];
                let message = format!("listener {} has the same port {}", listener.spec.name, listener.spec.port);
                self.listeners[other].conflict = Some((fault.0, message));
            }
            self.listeners[at].conflict = Some(fault);
        }
    }

    /// Conflict of a listener with an earlier listener, and the index of the earlier listener.
    fn conflict(&self, at: usize) -> Option<(Fault, usize)> {
        let listener = &self.listeners[at];
        let protocol = listener.protocol?;
        for (index, other) in self.listeners[..at].iter().enumerate() {
            let Some(theirs) = other.protocol else { continue };
            let is_own = other.gateway == listener.gateway;
            let own = &self.all[listener.gateway].addresses;
            let overlaps = |addr: &IpAddr| own.iter().any(|one| overlap(*one, *addr));
            let shares = is_own || self.all[other.gateway].addresses.iter().any(overlaps);
            let same_transport = (theirs == Protocol::Udp) == (protocol == Protocol::Udp);
            if !shares || other.spec.port != listener.spec.port || !other.is_valid() || !same_transport {
                continue;
            }
            let owner = format!("listener {} of {} {}", other.spec.name, other.owner.0.name(), other.owner.1);
            if theirs != protocol {
                let message = format!("{owner} has port {} for another protocol", listener.spec.port);
                return Some((("ProtocolConflict", message), index));
            }
            if !is_own && overlap_in_part(own, &self.all[other.gateway].addresses) {
                let message = format!("{owner} has port {} at an address that includes this one", other.spec.port);
                return Some((("PortUnavailable", message), index));
            }
            if !is_own && other.clients != listener.clients {
                let message = format!("{owner} has port {} with other client certificates", other.spec.port);
                return Some((("PortUnavailable", message), index));
            }
            // Gateways that share an address may have the same hosts: their Routes are served together.
            if !protocol.has_hosts() || is_own && other.host() == listener.host() {
                let message = format!("{owner} has the same host on port {}", listener.spec.port);
                return Some((("HostnameConflict", message), index));
            }
        }
        None
    }
}

impl Listener<'_> {
    /// Age of the object that it came with. A ListenerSet is not older than its Gateway.
    fn age<'o>(&self, all: &[Gateway<'o>], world: &'o World) -> (&'o str, &'o str, &'o str) {
        let gateway = all[self.gateway].object.metadata.age();
        match &self.owner {
            (Kind::ListenerSet, key) => {
                world.listener_sets.get(key).map_or(gateway, |set| set.metadata.age().max(gateway))
            }
            _ => gateway,
        }
    }
}

/// True if an address in one list includes a different address in the other, or is included by it.
fn overlap_in_part(ours: &[IpAddr], theirs: &[IpAddr]) -> bool {
    ours.iter().any(|one| theirs.iter().any(|other| one != other && overlap(*one, *other)))
}
