//! Filters of routes: a file for each key, and sets of them that several routes share ([`sets`]).

pub(crate) mod access;
mod active;
pub(crate) mod bandwidth;
pub(crate) mod basic_auth;
pub(crate) mod body_max;
pub(crate) mod cache;
pub(crate) mod compress;
pub(crate) mod cookies;
pub(crate) mod cors;
pub(crate) mod forward_auth;
pub(crate) mod headers;
pub(crate) mod jwt;
pub(crate) mod limits;
pub(crate) mod mirror;
pub(crate) mod rewrite;
pub(crate) mod sets;
