//! What algorithms share: everything but the rule that tells them apart.

pub mod draw;
pub(crate) mod load_order;
pub(crate) mod maglev_table;
pub(crate) mod peer_load;
pub(crate) mod probe_budget;
pub(crate) mod probe_pool;
pub(crate) mod slowness;
