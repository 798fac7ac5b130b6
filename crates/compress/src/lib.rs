//! Content codings of responses (RFC 9110 section 8.4), without I/O and without a clock: which coding a client gets,
//! what changes in the head, and the compressors.
//!
//! An exchange passes these files in this order:
//!
//! 1. [`accept`]: the coding that the client prefers, among the codings of [`coding`].
//! 2. [`tags`]: conditions of the request, in which the endpoint recognises its own tags.
//! 3. [`response`]: the response is compressed, by its type ([`media`]) among others, or there is a [`refusal`].
//! 4. [`encoder`]: the bytes.
#![forbid(unsafe_code)]

// Order: response, tags, refusal, media, encoder, accept, coding
pub mod accept;
pub mod coding;
pub mod encoder;
pub mod media;
pub mod refusal;
pub mod response;
pub mod tags;
