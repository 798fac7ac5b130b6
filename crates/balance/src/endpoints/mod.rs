//! Endpoints: their configuration, their state, and the immutable set of those that may get a request.

// Order: eligible, state, sticky, set, subset, endpoint
pub mod eligible;
pub mod endpoint;
pub mod set;
pub mod state;
pub mod sticky;
pub mod subset;
