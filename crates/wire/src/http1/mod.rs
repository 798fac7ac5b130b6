//! A sans-io engine for HTTP/1: bytes in, decisions out, no socket and no clock, so that the live proxy, tests and
//! fuzzers drive the same code.
//!
//! Decides which messages are refused, where a body ends and which fields are forwarded (RFC 9110, RFC 9112). The rule
//! behind all of it: an endpoint never sees a request that was not counted.

// Order: translate, mend, request, response, tolerance, max_forwards, fields, tokens, body, chunked, kind, limits,
// reject, version
pub mod body;
pub mod chunked;
pub mod fields;
pub mod kind;
mod limits;
pub mod max_forwards;
pub mod mend;
pub mod reject;
pub mod request;
pub mod response;
pub mod tokens;
pub mod tolerance;
pub mod translate;
mod version;

pub use crate::head::Room;
pub use body::Body;
pub use limits::{FIELDS_MAX, INTERIM_MAX, Limits, RESPONSE_FIELDS_MAX, has_head, head_len, leading_empty_lines};
pub use reject::Reject;
pub use request::Request;
pub use response::Response;
pub use version::Version;

use tokens::alphanumeric_and;
