//! Certificates from an ACME authority (RFC 8555). A task of the process orders and renews them, and writes them to a
//! folder, from which they are read like any others. Read the modules in this order:
//!
//! 1. `schedule`: times of renewals and retries.
//! 2. `folder`: files of an authority, locked by a single process at a time.
//! 3. `failed`: reasons why there is no certificate.
//! 4. `sender`: requests to an authority; `account` and `order`: accounts and orders there; `pending`: an order that
//!    was begun.
//! 5. `known`: the state of a certificate, and its failures.
//! 6. [`issuer`]: all certificates of a plan, and [`metrics`] of them.

// Order: metrics, issuer, known, schedule, order, pending, account, folder, sender, failed
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
