//! Simulated machines: network namespaces as hosts, control groups as their CPUs.

pub mod antagonist;
mod cgroup;
mod left;
mod loopback;
mod network;

use crate::error::Result;

pub use cgroup::Group;
pub use loopback::Loopback;
pub use network::{Network, address, gateway, listens};

/// Removes what labs left behind that were killed.
///
/// # Errors
/// It cannot be removed: not by this user, for one.
pub fn sweep() -> Result<()> {
    cgroup::sweep().and(network::sweep())
}
