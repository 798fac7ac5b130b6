//! Who issues the certificates that evenkeel shows? An authority that speaks ACME (RFC 8555). One task for the whole process orders
//! them, keeps them in a folder, from which they are taken like any other, and renews them. Read the modules in this order:
//!
//! 1. `schedule`: when is a certificate renewed, and when is tried again what failed?
//! 2. `folder`: what is kept, by one process at a time.
//! 3. `failed`: why there is no certificate, in words.
//! 4. `sender`: requests to an authority; `account` and `order`: accounts and orders there; `pending`: an order that was begun.
//! 5. `known`: the state of a certificate, and how often its orders failed.
//! 6. [`issuer`]: all certificates of a plan, and [`metrics`] of them.

mod account;
mod failed;
mod folder;
pub mod issuer;
mod known;
pub mod metrics;
mod order;
mod pending;
mod schedule;
mod sender;

pub use issuer::Issuer;
pub use metrics::Metrics;
