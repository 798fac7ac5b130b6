//! Code shared by several algorithms: everything but the rule that distinguishes each of them.

// Order: draw, load_order, maglev_table, peer_load, probe_budget, probe_pool, slowness
pub mod draw;
pub(crate) mod load_order;
pub(crate) mod maglev_table;
pub(crate) mod peer_load;
pub(crate) mod probe_budget;
pub(crate) mod probe_pool;
pub(crate) mod slowness;
