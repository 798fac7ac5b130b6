//! In which state are the endpoints? The pools of a plan as every plane shares them. Read the files in this order:
//!
//! 1. [`pool`]: from configured endpoints to the sets that workers pick from.
//! 2. [`control`]: the thread that watches them; [`check`]: whether an endpoint is healthy.
//! 3. [`orders`]: what operators want beside the configuration; [`events`]: what has happened of late.
//! 4. [`history`]: what has happened to them, for metrics and logs; [`snapshot`]: their present state, for pages and
//!    tools.
//! 5. [`journal`]: what every pick depended on.

pub mod check;
pub mod control;
pub mod events;
pub mod history;
pub mod journal;
pub mod orders;
pub mod pool;
pub mod snapshot;

pub use control::Control;
pub use events::Events;
pub use orders::Orders;
pub use pool::{Pools, SharedPool};
pub use snapshot::{EndpointSnapshot, PoolSnapshot};
