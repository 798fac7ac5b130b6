//! Filters that send requests of their own to other pools: `forward_auth` and `mirror`.

pub mod forward_auth;
pub mod mirror;
