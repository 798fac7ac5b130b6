//! Load of endpoints: [`reports`] reads it, [`probe`] requests it. What this process reports of itself is a
//! [`load_report`].

pub mod load_report;
pub mod probe;
pub mod reports;
