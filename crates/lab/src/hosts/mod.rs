//! Which machines does an experiment need that this one is not? Namespaces of the network for hosts, control groups for their processors.

pub mod antagonist;
mod cgroup;
mod network;

pub use cgroup::Group;
pub use network::{Network, address, gateway, listens};
