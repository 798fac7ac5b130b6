//! Filters that answer requests of known users only.

pub mod jwt;
mod token;
