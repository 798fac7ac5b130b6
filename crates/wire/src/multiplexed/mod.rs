//! Rules and codings that HTTP/2 and HTTP/3 share. Both send messages on streams of a connection, with decoded heads.
//!
//! 1. [`head`]: heads of messages, and the rules for their fields. `body.rs`: lengths of bodies.
//! 2. `limits.rs`, `integer.rs`, `string.rs`, `huffman.rs` and `static_index.rs`: parts of HPACK and QPACK.
//! 3. [`flood`]: budgets for useless frames of a peer.

// Order: body, head, limits, string, huffman, integer, secrets, static_index, flood
pub mod body;
pub mod flood;
pub mod head;
pub mod huffman;
pub mod integer;
pub mod limits;
pub mod secrets;
pub mod static_index;
pub mod string;
