//! Filters for bodies and their readers: `body_max`, `bandwidth` and `compress`, and which pages may read responses, `cors`.

pub mod bandwidth;
pub mod body_max;
pub mod compress;
pub mod compress_body;
mod compressed;
pub mod cors;
pub mod host_groups;
pub mod preflight;
