//! What is known of each endpoint? What its requests show, and what it reports. Measurement is apart from choice.

pub mod latency;
pub mod load_estimate;
pub mod loads;
pub(crate) mod observed;
pub mod report;
pub mod reported;
pub mod request;
pub mod ticket;
