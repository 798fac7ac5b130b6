//! Stored responses and purges as bytes, for another process and for files.
//!
//! A record is a [`frame`] with a kind, lengths and checksums; a head, whose form depends on the kind ([`response`],
//! [`purge`]); and a body, which only responses have. Reading is strict: bytes that no writer here could have written
//! are refused, so that neither a cut file nor a process with another build can make the cache serve a response that
//! was never stored.

// Order: purge, response, cursor, frame
mod cursor;
pub mod frame;
pub mod purge;
pub mod response;
#[cfg(test)]
mod tests;

pub use frame::{Broken, FRAME, Frame, HEAD_MAX, Kind, VERSION};
pub use purge::{Dropped, PurgeRecord, Scope};
pub use response::ResponseRecord;
