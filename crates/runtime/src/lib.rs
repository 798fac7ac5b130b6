//! State shared by all planes: the plan in use, the pools, and the thread that watches them. Read the files in this
//! order:
//!
//! 1. [`runtime`]: prepares, installs and publishes a plan in every [`plane`]; [`generation`]: the plan in use, and its
//!    differences to the next one; [`lost`]: workers that ended unexpectedly.
//! 2. [`membership`]: current endpoints of the pools; [`pool`]: from configured endpoints to the sets that workers pick
//!    from.
//! 3. [`control`]: the thread that watches the pools; [`check`]: health checks.
//! 4. [`orders`]: orders of operators beside the configuration; [`splits`]: weights of splits; [`events`]: the latest events.
//! 5. [`history`]: counts of checks and state changes, for metrics and logs; [`snapshot`]: current state, for pages and
//!    tools.
//! 6. [`ledger`]: requests per endpoint over all planes; [`metrics`]: the state of plan and pools for Prometheus;
//!    [`journal`]: a record of the inputs of every pick.

// Order: runtime, lost, metrics, plane, control, check, ledger, generation, membership, splits, snapshot, pool,
// history, events, journal, orders
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
pub mod splits;

pub use control::Control;
pub use events::Events;
pub use generation::{Generation, Summary};
pub use ledger::Ledger;
pub use metrics::Metrics;
pub use orders::Orders;
pub use plane::{Change, Diagnostic, Next, Plane, Prepared, Sending, StartError, View, Work};
pub use pool::{Pools, SharedPool};
pub use runtime::Runtime;
pub use snapshot::{EndpointSnapshot, PoolSnapshot};
