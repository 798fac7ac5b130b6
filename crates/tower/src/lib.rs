//! evenkeel's algorithms inside a [tower](tower) stack.
#![forbid(unsafe_code)]

mod balance;
mod builder;
mod clock;
mod completion;
mod endpoints;
mod error;
mod future;
mod returns;
mod wakes;

pub use balance::Balance;
pub use builder::Builder;
pub use clock::SystemClock;
pub use completion::{AtHead, Completion, InFlight};
pub use error::{BuildError, DiscoverError, Unready};
pub use future::ResponseFuture;

pub use evenkeel_balance::endpoint::stable_hash;
pub use evenkeel_balance::params::{ParamError, Value};
pub use evenkeel_balance::{Clock, EndpointId, FailureKind, Instant, LoadReport, Outcome};
