//! Client of netlink, by which Linux programs nftables and IPVS and shows connections: sockets, messages, attributes,
//! batches, and families of generic netlink.
//!
//! Some hundred lines of an own layer are fewer than those that would join the crates of netlink: those model each family
//! as types, have none for IPVS, and leave sockets, acknowledgements and dumps to their caller.

// Order: generic, batch, socket, events, message, attributes
mod attributes;
mod batch;
mod events;
mod generic;
mod message;
mod socket;

pub use attributes::{Attribute, Attributes, Payload};
pub use batch::{Batch, Refused};
pub use events::Events;
pub use generic::Family;
pub use message::{Error, Message};
pub use socket::{ACK, APPEND, CREATE, DUMP, EXCL, GENERIC, NETFILTER, Protocol, REPLACE, SOCK_DIAG, Socket};
