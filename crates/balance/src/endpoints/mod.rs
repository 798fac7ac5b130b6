//! Which endpoints are there, and which of them may get a request?

pub mod eligible;
pub mod endpoint;
pub mod set;
pub mod state;
pub mod sticky;
pub mod subset;
