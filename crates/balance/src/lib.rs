//! The load balancing of evenkeel: which endpoint gets a request, which endpoints may get one, and when a request
//! waits, is retried or is hedged.
//!
//! The crate does no I/O and reads no clock: the current time and a seeded random generator are passed in. So a live
//! proxy, a DNS server and a simulator in virtual time (the *shells*) run the very same code, and the same seed gives
//! the same picks.
//!
//! The folders are layers: each imports only from those above it in this list, which is also the order to read them in.
//! Their modules are re-exported without the name of the folder.
//!
//! 1. `structures`, building blocks without policy: [`time`] and [`rng`], plain instants and seeded randomness;
//!    [`decay`], how old numbers fade; [`percentile`], a percentile of recent latencies; [`token_bucket`], limits on
//!    how often something happens; [`networks`], values of IP networks; [`slab`], reusable slots; [`published`], a
//!    value that control code replaces for all workers; [`shares`], shares by weight.
//! 2. `machines`, state machines: of an endpoint ([`health`], [`outlier`], [`slow_start`], [`concurrency`]) and of
//!    requests that wait ([`queue`]), are tried again ([`retry`]) or are sent twice ([`hedge`]), the last two within a
//!    [`budget`].
//! 3. `endpoints`: [`endpoint`], the configuration of an endpoint, and [`subset`], the part of them that this process
//!    uses; [`set`], an immutable [`EndpointSet`] of those that may get a request now; [`eligible`], which derives that
//!    set from all that is known; [`state`], names of endpoint states for metrics and logs; [`sticky`], the endpoint of
//!    a session.
//! 4. `measurement`, kept apart from choice: [`request`] and [`ticket`], the start and end of requests; [`loads`] and
//!    [`latency`], measurements of each endpoint; [`report`], [`reported`] and [`load_estimate`], the load that
//!    an endpoint reports itself, the checks it has to pass, and the estimate on the endpoint's side.
//! 5. `seam`, between shells and algorithms: [`picker`], the interface of an algorithm, and [`params`], its
//!    parameters; [`balancer`], a worker's view of a pool, whose `start` returns a [`Ticket`] that `end` takes
//!    back; [`explore`], uniform draws for a share of the requests; [`tried`], the endpoints that a pick leaves out;
//!    [`explain`], the reasons of a pick; [`journal`], everything that picks depend on; [`recent`], the latest requests, from which the results of other algorithms are
//!    predicted.
//! 6. `parts`: code that several algorithms share, such as [`draw`].
//! 7. [`algorithms`]: all of them, in a registry.
//! 8. `pools`: [`pool`] turns configured endpoints into the set that every worker sees; [`control`] keeps the state
//!    machines of each endpoint and schedules when to look at them again; [`replay`] checks that the picks of a journal
//!    come out the same.
//!
//! ```
//! use evenkeel_balance::{algorithms, EndpointSpec, Instant, Outcome, Params, Pool, Request, Seat};
//!
//! let mut pool = Pool::new(1);
//! pool.update(&[EndpointSpec::new("10.0.0.1:80"), EndpointSpec::new("10.0.0.2:80").weight(2)], Instant(0));
//! let algorithm = algorithms::find("random").unwrap();
//! let params = Params::defaults(algorithm.params);
//! let mut balancer = pool.balancer(algorithm, &params, Seat { worker: 0, workers: 1 }, 42).unwrap();
//!
//! let ticket = balancer.start(&Request::default(), Instant(0)).unwrap();
//! assert_eq!(balancer.loads().in_flight(ticket.slot()), 1);
//! balancer.end(ticket, Outcome::Success, Instant(1_000_000));
//! ```

#![warn(missing_docs)]
#![forbid(unsafe_code)]

// Order: pools, algorithms, parts, seam, measurement, endpoints, machines, structures
pub mod algorithms;
mod endpoints;
mod machines;
mod measurement;
mod parts;
mod pools;
mod seam;
mod structures;

pub use endpoints::{eligible, endpoint, set, state, sticky, subset};
pub use machines::{budget, concurrency, health, hedge, outlier, queue, retry, slow_start};
pub use measurement::{latency, load_estimate, loads, report, reported, request, ticket};
pub use parts::draw;
pub use pools::{control, pool, replay};
pub use seam::balancer::explore;
pub use seam::{balancer, explain, journal, params, picker, recent, tried};
pub use structures::{decay, networks, percentile, published, rng, shares, slab, time, token_bucket};

pub use balancer::Balancer;
pub use endpoint::{EndpointId, EndpointSpec};
pub use explain::Explanation;
pub use load_estimate::LoadEstimate;
pub use loads::Loads;
pub use params::{Param, Params};
pub use picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises, Seat};
pub use pool::Pool;
pub use report::{LoadReport, Refused};
pub use request::{End, FailureKind, Outcome, Request};
pub use rng::Rng;
pub use set::{EndpointSet, Exclusion, Member, Slot};
pub use ticket::Ticket;
pub use time::{Clock, Instant};
pub use tried::Tried;
