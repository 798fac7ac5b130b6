//! Filters that decide which requests and which readers of responses a route accepts: `body_max` and `cors`.

pub mod bandwidth;
pub mod body_max;
pub mod cors;
pub mod preflight;
