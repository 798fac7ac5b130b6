//! Filters that ask for proof of who sends a request.

pub mod basic_auth;
