//! Result of the translation of a cluster. See [`Translation`].

use super::statuses::events::Event;
use super::statuses::status::Statuses;
use crate::providers::parts::Part;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A part of the plan, with statuses of the objects that it is made from, and events about them.
#[derive(Debug, Default)]
pub struct Translation {
    pub part: Part,
    pub statuses: Statuses,
    pub events: Vec<Event>,
}

/// Address and port at which Ingresses are served.
#[derive(Debug)]
pub struct Taken<'w> {
    pub addr: SocketAddr,
    pub is_tls: bool,
    /// Age of the oldest Ingress, see [`Meta::age`](super::world::objects::Meta::age).
    pub since: (&'w str, &'w str, &'w str),
}

/// Addresses that statuses show.
#[derive(Debug, Default)]
pub struct Shown {
    /// Addresses and host names under which clients reach this process. Empty while the load balancer has none; `None`
    /// = the addresses that evenkeel listens at.
    pub published: Option<Vec<Arc<str>>>,
    /// Address of this machine, for listeners at all of its addresses.
    pub own: Option<IpAddr>,
}
