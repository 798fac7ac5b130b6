//! Comparison of requests and responses with the criteria of the plan, for the router and for filters.

pub mod criteria;
