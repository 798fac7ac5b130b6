//! Passwords of `basic_auth`: hashes and their verification, and results that are remembered.

pub mod hash;
pub mod results;
