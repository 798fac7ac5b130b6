//! Load of endpoints, read from [`reports`] and requested by [`probe`]s; and the [`load_report`] of this process
//! itself.

pub mod load_report;
pub mod probe;
pub mod reports;
