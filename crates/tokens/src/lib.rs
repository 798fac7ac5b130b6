//! Tokens of requests (JWT, RFC 7519), for the key `jwt` of routes. [`verifier`] decides on a [`token`] by its
//! signature and its [`claims`]; the [`keys`] come from a [`source`], a file or a URL that [`follow`] fetches, and
//! [`routes`] holds the verifiers of a plan.
#![forbid(unsafe_code)]

// Order: machine, metrics, follow, fetch, routes, check, cache, verifier, values, source, keys, token, claims,
// refused
mod cache;
mod check;
mod claims;
mod fetch;
mod follow;
mod keys;
mod machine;
mod metrics;
mod refused;
mod routes;
mod source;
mod token;
mod values;
mod verifier;

pub use check::{Check, Checked};
pub use claims::Claims;
pub use follow::{Pace, follow};
pub use keys::{KeySet, SET_MAX};
pub use machine::with_keys;
pub use metrics::Metrics;
pub use refused::Refused;
pub use routes::Tokens;
pub use source::Source;
pub use token::{TOKEN_MAX, Token};
pub use verifier::{Verified, Verifier};
