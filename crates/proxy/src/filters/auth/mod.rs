//! Filters that authenticate the sender of a request, by a password or a token.

pub mod basic_auth;
pub mod jwt;
pub mod passwords;
mod token;
