//! Kernel planes of evenkeel: the kernel forwards, by rules and programs that follow the pools. Read the files in this
//! order:
//!
//! 1. [`service`]: the wishes of a listener for the kernel; [`driver`]: interface to a mechanism of the kernel.
//! 2. [`plane`]: the plane of the runtime; `worker`: the thread that follows the pools and has drivers change the
//!    kernel; `blueprint`: from listeners and sets to services; `ids`: numbers of endpoints.
//! 3. [`numbers`]: counts of endpoints and drivers; `shown`: the planes as operators see them; [`explain`]: state of
//!    the kernel for a listener.
//! 4. [`prerequisites`]: lacks of the machine, for starts and `check`; [`cleanup`]: removal of the objects of a stopped
//!    process; `claim`: a name has a single process.
//! 5. [`nftables`]: a driver, with `conntrack`; [`ebpf`], with `sockets`, and [`ipvs`]: others; [`netlink`]: messages
//!    to the kernel.

// Order: plane, shown, explain & worker, prerequisites, cleanup, claim, numbers, blueprint, ids, drivers, ebpf, ipvs,
// nftables, conntrack, sockets, driver, service, netlink
mod blueprint;
mod claim;
pub mod cleanup;
mod conntrack;
pub mod driver;
pub mod drivers;
pub mod ebpf;
pub mod explain;
mod ids;
pub mod ipvs;
pub mod netlink;
pub mod nftables;
pub mod numbers;
pub mod plane;
pub mod prerequisites;
pub mod service;
mod shown;
mod sockets;
mod worker;

pub use plane::Kernel;
pub use prerequisites::with_planes;
