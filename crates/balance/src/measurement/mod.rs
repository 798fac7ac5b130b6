//! Knowledge about each endpoint: what its requests show, and what it reports itself. Measurement is apart from choice.

// Order: latency, load_estimate, loads, observed, reported, report, request, ticket
pub mod latency;
pub mod load_estimate;
pub mod loads;
pub(crate) mod observed;
pub mod report;
pub mod reported;
pub mod request;
pub mod ticket;
