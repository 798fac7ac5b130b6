//! Passwords of `basic_auth`: the [`credentials`] of requests, files of [`users`], and the [`verifier`], with its
//! threads, the [`places`] of passwords that wait, by the [`networks`] of their clients, and the [`results`] that it
//! remembers.

pub mod credentials;
mod hash;
mod networks;
mod places;
mod results;
pub mod users;
pub mod verifier;
