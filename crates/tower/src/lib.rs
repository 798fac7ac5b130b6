//! evenkeel's balancing algorithms inside a tower stack: [`Balance`] replaces `tower::balance::p2c::Balance`, takes the
//! same [`Discover`](tower::discover::Discover), and runs the same code as evenkeel's proxy.
//!
//! # Migrating from tower's balancer
//!
//! Before: each service is wrapped in a load metric.
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
//! After: plain services, and an algorithm by name.
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
//! [`Balance::new`] replaces `PendingRequests`. The completion of a load metric becomes a [`Completion`], which also
//! classifies responses as failures, so that an endpoint that fails at once is not taken for a fast endpoint.
//!
//! # Readiness and picks
//!
//! `poll_ready` applies changes of discovery, polls the endpoints that are new, were called or woke up, and is ready if
//! some endpoint was found to be ready during this call. As in tower, an endpoint that fails is removed until
//! it is discovered again.
//!
//! `call` picks among the ready endpoints. Only then are the request and its key known and the loads current, and a
//! caller that waits between `poll_ready` and `call` neither reserves an endpoint nor distorts its latency. The picked
//! endpoint is polled again right before it gets the request; if it has failed, another endpoint is picked.
//!
//! # Requests in flight and latency
//!
//! A request is in flight from its `call` until its [`InFlight`] is dropped: with the head of the response, with the
//! last byte if a [`Completion`] keeps it that long, or with a response future that is dropped early, which counts as
//! cancelled. Latency is the time to the head. Endpoints are identified by their key: an endpoint that is replaced, or
//! that returns while it has requests in flight, keeps its counts and estimates.
//!
//! # Threads
//!
//! A `Balance` belongs to a single task and is not `Clone`, like tower's: put a
//! [`Buffer`](https://docs.rs/tower/latest/tower/buffer/) in front to share it. A shared balancer balances better than
//! a balancer per thread, each of which sees only its own requests. Responses may be used on any thread; their ends are
//! reported back without a lock. The clock is read twice per request for algorithms that use latencies or load reports,
//! and never for others.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

// Order: balance & builder, endpoints, future, completion, returns, wakes, clock, error
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
