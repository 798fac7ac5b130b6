//! evenkeel's balancing algorithms inside a tower stack: [`Balance`] takes the place of `tower::balance::p2c::Balance`,
//! over the same [`Discover`](tower::discover::Discover), and runs the code that evenkeel's proxy runs.
//!
//! # From tower's balancer to this one
//!
//! Before: each service is wrapped in a load.
//!
//! ```
//! use std::time::Duration;
//! use tower::balance::p2c::Balance;
//! use tower::discover::ServiceList;
//! use tower::load::{CompleteOnResponse, PeakEwma};
//! # use tower::{Service, ServiceExt, service_fn};
//! # async fn one(_: &'static str) -> Result<u16, std::io::Error> { Ok(200) }
//! # tokio_test::block_on(async {
//! # let services = vec![service_fn(one), service_fn(one)];
//!
//! let loaded = services.into_iter().map(|service| {
//!     PeakEwma::new(service, Duration::from_millis(30), 10e9, CompleteOnResponse::default())
//! });
//! let mut balance = Balance::new(ServiceList::new(loaded));
//! # assert_eq!(balance.ready().await.unwrap().call("/").await.unwrap(), 200);
//! # });
//! ```
//!
//! After: the services as they are, and an algorithm by its name.
//!
//! ```
//! use evenkeel_tower::Builder;
//! use tower::discover::ServiceList;
//! # use tower::{Service, ServiceExt, service_fn};
//! # async fn one(_: &'static str) -> Result<u16, std::io::Error> { Ok(200) }
//! # tokio_test::block_on(async {
//! # let services = vec![service_fn(one), service_fn(one)];
//!
//! let mut balance = Builder::new("peak_ewma").unwrap().build(ServiceList::new(services)).unwrap();
//! # assert_eq!(balance.ready().await.unwrap().call("/").await.unwrap(), 200);
//! # });
//! ```
//!
//! [`Balance::new`] replaces `PendingRequests`, and needs no name. A load's completion becomes a [`Completion`], which
//! also says which responses are failures: an endpoint that fails at once is not a fast one.
//!
//! # When it is ready, and when it chooses
//!
//! `poll_ready` takes what was discovered, polls the endpoints that are new, were called or woke up, and is ready when
//! one endpoint was seen to be ready during this very call. An endpoint that fails is dropped, as in tower, until it is
//! discovered again.
//!
//! The choice is made in `call`, among the endpoints that are ready, and not before: only then the request and its key
//! are known, and the loads are as new as possible. A caller that asks early and calls late neither holds an endpoint
//! meanwhile nor spoils its latency. The chosen endpoint is polled once more right before it gets the request; if it
//! failed since, another one is chosen.
//!
//! # What it counts
//!
//! A request is in flight from its `call` until its [`InFlight`] is dropped: with the head of the response, with the
//! last byte if a [`Completion`] says so, or with the response future, which counts as cancelled. Latency is the time
//! to the head. Endpoints are known by their key: one that is replaced, or that comes back while requests are out,
//! keeps what is known of it.
//!
//! # Threads
//!
//! A `Balance` belongs to one task and is not `Clone`, like tower's: put a
//! [`Buffer`](https://docs.rs/tower/latest/tower/buffer/) in front to share one. That balances better than one for each
//! thread, as each sees only its own requests. Responses may go to any thread; their ends come back without a lock. The
//! clock is read twice per request for algorithms that use latencies, and never for the others.

#![warn(missing_docs)]
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
