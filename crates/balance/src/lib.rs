//! Every balancing decision of evenkeel: which endpoint gets this request?
//!
//! The crate does no I/O and reads no clock: the moment and the random generator are passed in, so that a live proxy, a
//! DNS server and a simulator in virtual time run the very same code.
//!
//! Its folders have an order: each imports from those above it in this list, and none from those below it. It is the
//! order to read them in, too. Shells name a module without its folder.
//!
//! 1. `structures`, which decide nothing: [`time`] and [`rng`], moments and seeded chance; [`decay`], how old
//!    numbers fade; [`percentile`], how long most requests take; [`token_bucket`], how often something may
//!    happen; [`slab`], slots that are used again; [`published`], a value that control replaces for all workers.
//! 2. `machines`, the state machines: of one endpoint ([`health`], [`outlier`], [`slow_start`], [`concurrency`]) and of
//!    requests ([`queue`], [`retry`], [`hedge`]: may one wait, be tried again, or go twice? Under a [`budget`]).
//! 3. `endpoints`: [`endpoint`], what is configured, and [`subset`], which part of it is used; [`set`], an immutable
//!    [`EndpointSet`] of those that may get a request now, into which [`eligible`] folds all that is known; [`state`],
//!    names for that, for metrics and logs; [`sticky`], which endpoint a session belongs to.
//! 4. `measurement`: [`request`] and [`ticket`], what starts and ends; [`loads`] and [`latency`], what that shows of
//!    each endpoint; [`report`], [`reported`] and [`load_estimate`], what an endpoint reports of its own load, whether
//!    that is believed, and how the endpoint measures it. Measurement is apart from choice.
//! 5. `seam`: [`picker`], what an algorithm is, and [`params`], what can be set on one; [`balancer`], one worker and
//!    one pool, which shells call: `start` gives a [`Ticket`], `end` takes it. [`tried`]: the endpoints that a pick
//!    leaves out. [`explain`]: why this pick. [`journal`]: everything that picks depended on. [`recent`]: the
//!    latest requests, from which other algorithms are predicted.
//! 6. `parts`: what several algorithms are made of, such as [`draw`].
//! 7. [`algorithms`]: all of them, in one registry.
//! 8. `pools`: [`control`] keeps the machines of each endpoint and says when to look again; [`pool`] turns configured
//!    endpoints into the set that every worker sees; [`replay`]: would the picks of a journal be the same?
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
pub use seam::{balancer, explain, journal, params, picker, recent, tried};
pub use structures::{decay, percentile, published, rng, slab, time, token_bucket};

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
