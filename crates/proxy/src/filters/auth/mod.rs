//! Filters that ask for proof of who sends a request: a password, or a token.

pub mod basic_auth;
pub mod jwt;
pub mod passwords;
mod token;
