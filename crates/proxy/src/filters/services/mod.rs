//! Filters that send requests of their own to other services: `forward_auth`.

pub mod forward_auth;
