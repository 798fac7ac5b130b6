//! Passwords of `basic_auth`: the [`credentials`] of requests, files of [`users`], and the [`verifier`], with its
//! threads and the [`results`] that it remembers.

pub mod credentials;
mod hash;
mod results;
pub mod users;
pub mod verifier;
