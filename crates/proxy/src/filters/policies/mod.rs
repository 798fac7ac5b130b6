//! Filters for bodies, `body_max`, `bandwidth` and `compress`, and for the pages that may read them, `cors`.

pub mod bandwidth;
pub mod body_max;
pub mod compress;
pub mod compress_body;
mod compressed;
pub mod cors;
pub mod host_groups;
pub mod preflight;
