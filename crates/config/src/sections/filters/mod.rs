//! Filters of routes: a file for each key, and sets of them that several routes share ([`sets`]).

pub(crate) mod access;
pub(crate) mod body_max;
pub(crate) mod cookies;
pub(crate) mod cors;
pub(crate) mod headers;
pub(crate) mod jwt;
pub(crate) mod limits;
pub(crate) mod rewrite;
pub(crate) mod sets;
