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

pub mod algorithms;
mod atomics;
pub mod balancer;
pub(crate) mod buckets;
pub mod budget;
pub mod concurrency;
pub mod control;
pub mod decay;
pub mod draw;
pub mod eligible;
pub mod endpoint;
pub mod explain;
pub mod health;
pub(crate) mod heap;
pub mod hedge;
pub mod journal;
pub mod latency;
pub mod load_estimate;
pub(crate) mod load_order;
pub mod loads;
pub(crate) mod maglev_table;
pub(crate) mod observed;
pub mod outlier;
pub mod params;
pub mod percentile;
pub mod picker;
pub mod pool;
pub(crate) mod probe_budget;
pub(crate) mod probe_pool;
pub mod published;
pub mod queue;
pub mod replay;
pub mod report;
pub mod reported;
pub mod request;
pub mod retry;
pub mod rng;
pub(crate) mod row;
pub mod set;
pub mod slow_start;
mod slowness;
pub mod state;
pub mod sticky;
pub mod subset;
pub(crate) mod tally;
pub mod ticket;
pub mod time;
pub(crate) mod told;

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
