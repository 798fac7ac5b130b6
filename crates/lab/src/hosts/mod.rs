//! Simulated machines: network namespaces as hosts, control groups as their CPUs.

// Order: antagonist, cgroup, loopback, network, pins, left
pub mod antagonist;
mod cgroup;
mod left;
mod loopback;
mod network;
mod pins;

use crate::error::Result;

pub use cgroup::Group;
pub use loopback::Loopback;
pub use network::{Network, address, gateway, listens};
pub use pins::{kernel_name, remove_pins};

/// Removes control groups, namespaces and pins that killed labs left behind.
///
/// # Errors
/// They cannot be removed, for instance by this user.
pub fn sweep() -> Result<()> {
    cgroup::sweep().and(network::sweep()).and(pins::sweep())
}
