//! The plan that is wanted, and the endpoints that exist: providers of whole plans, and sources of the endpoints of a pool. Both
//! push while evenkeel runs. Read the files in this order:
//!
//! 0. [`providers`]: where plans are from, and those that were.
//! 1. [`following`]: the sources of a plan, and what its pools have by them. Everything runs as tasks of the event loop
//!    that follows; no other source is ever waited for.
//! 2. [`kept`] decides (sans-io) what of an answer counts; [`out`] is where a source puts its answers.
//! 3. [`sources`]: where answers come from, a file for each kind. What they share is in [`context`]; those that have to ask
//!    again and again do it by [`polling`].
//! 4. Underneath the names: [`ask`] asks servers what [`message`] writes and reads; [`system`] reads what the machine says
//!    of names.
//! 5. [`metrics`]: how the sources fare.
#![forbid(unsafe_code)]

mod ask;
mod context;
mod following;
mod kept;
mod lock;
mod message;
mod metrics;
mod out;
mod polling;
pub mod providers;
mod sources;
mod system;

pub use following::{Discovery, Following, Unresolved};
pub use metrics::Numbers;
