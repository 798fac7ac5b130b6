//! Knowledge about each endpoint: the results of its requests, and its reports. Measurement is apart from choice.

// Order: latency, load_estimate, loads, observed, reported, report, request, ticket
pub mod latency;
pub mod load_estimate;
pub mod loads;
pub(crate) mod observed;
pub mod report;
pub mod reported;
pub mod request;
pub mod ticket;
