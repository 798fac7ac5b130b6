//! How busy are endpoints? [`reports`] takes what they say, [`probe`] asks them. What this process says of itself is a
//! [`load_report`].

pub mod load_report;
pub mod probe;
pub mod reports;
