//! The state that all planes share: the plan that runs, the pools, and what looks after them. Read the files in this order:
//!
//! 1. [`runtime`]: a plan is prepared, installed and published in every [`plane`]; [`generation`]: a plan that runs, and what the
//!    next one changes; [`lost`]: a worker that ended on its own.
//! 2. [`membership`]: the endpoints that its pools have now; [`pool`]: from configured endpoints to the sets that workers pick from.
//! 3. [`control`]: the thread that watches them; [`check`]: whether an endpoint is healthy.
//! 4. [`orders`]: what operators want beside the configuration; [`events`]: what has happened of late.
//! 5. [`history`]: what has happened to them, for metrics and logs; [`snapshot`]: their present state, for pages and
//!    tools.
//! 6. [`ledger`]: the requests that planes count, per endpoint; [`metrics`]: all of that for Prometheus; [`journal`]: what every
//!    pick depended on.

pub mod check;
pub mod control;
pub mod events;
pub mod generation;
pub mod history;
pub mod journal;
pub mod ledger;
mod lost;
pub mod membership;
pub mod metrics;
pub mod orders;
pub mod plane;
pub mod pool;
mod runtime;
pub mod snapshot;

pub use control::Control;
pub use events::Events;
pub use generation::{Generation, Summary};
pub use ledger::Ledger;
pub use metrics::Metrics;
pub use orders::Orders;
pub use plane::{Change, Diagnostic, Next, Plane, Prepared, Sending, StartError};
pub use pool::{Pools, SharedPool};
pub use runtime::Runtime;
pub use snapshot::{EndpointSnapshot, PoolSnapshot};
