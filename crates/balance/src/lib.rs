//! Every balancing decision of evenkeel: which endpoint gets this request?
//!
//! The crate does no I/O and reads no clock: the moment and the random generator are passed in, so that a live proxy, a
//! DNS server and a simulator in virtual time run the very same code. Read the files in this order:
//!
//! 1. [`time`], [`rng`], [`decay`]: moments, seeded chance, and how old numbers fade.
//! 2. [`endpoint`], [`set`]: who could get the request, folded once into an immutable [`EndpointSet`].
//! 3. [`loads`], [`latency`]: what is known of each endpoint. Measurement is apart from choice.
//! 4. [`picker`]: what an algorithm is; [`algorithms`]: all of them, in one registry; [`params`]: what can be set.
//! 5. [`request`], [`ticket`] and [`balancer`]: one worker and one pool, the seam that shells call: `start` gives a
//!    [`Ticket`], `end` takes it.
//! 6. [`pool`], [`subset`] and [`published`]: from the configured endpoints to the set that every worker sees.
//! 7. [`health`], [`outlier`], [`slow_start`], [`concurrency`]: state machines of one endpoint. [`control`] keeps them and
//!    says when to look again, by what checks say and requests see; [`eligible`] folds them into the set, and [`state`]
//!    names them for whoever watches.
//! 8. [`queue`], [`retry`], [`hedge`]: may a request wait, try again, or go twice? Under a [`budget`], after a
//!    [`percentile`].
//! 9. [`sticky`]: which endpoint does a session belong to?
//! 10. [`report`], [`reported`], [`load_estimate`]: what an endpoint says of its own load, whether that is believed, and
//!     how it knows. `slowness`: who is slow by that.
//! 11. [`explain`]: why this pick. [`journal`]: all that picks depended on, and [`replay`]: would they be the same?
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
#![forbid(unsafe_code)]

mod structures;

mod machines;

mod endpoints;

mod measurement;

mod seam;

mod parts;

pub mod algorithms;

mod pools;

// Shells name a module without its folder: `evenkeel_balance::queue`.
pub use endpoints::{eligible, endpoint, set, state, sticky, subset};
pub use machines::{budget, concurrency, health, hedge, outlier, queue, retry, slow_start};
pub use measurement::{latency, load_estimate, loads, report, reported, request, ticket};
pub use parts::draw;
pub use pools::{control, pool, replay};
pub use seam::{balancer, explain, journal, params, picker};
pub use structures::{decay, percentile, published, rng, time};

use measurement::observed;
use parts::{load_order, maglev_table, probe_budget, probe_pool, slowness, told};
use structures::{atomics, buckets, heap, row, tally};

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
