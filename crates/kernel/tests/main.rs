//! Behaviour of the drivers, on the kernel that runs the tests or one of their own.

mod connect;
mod forward;
mod ipvs;
mod nftables;
mod packets;
mod spaces;
mod tables;
mod uml;
