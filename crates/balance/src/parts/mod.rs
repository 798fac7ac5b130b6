//! Code shared by several algorithms: everything but the rule that distinguishes each of them.

pub mod draw;
pub(crate) mod load_order;
pub(crate) mod maglev_table;
pub(crate) mod peer_load;
pub(crate) mod probe_budget;
pub(crate) mod probe_pool;
pub(crate) mod slowness;
