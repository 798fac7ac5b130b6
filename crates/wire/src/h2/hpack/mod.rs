//! HPACK (RFC 7541), the compression of heads in HTTP/2: indexes of fields that both sides know, and Huffman-coded
//! strings.

// Order: encoder, decoder, table, static_table
mod decoder;
mod encoder;
mod static_table;
mod table;

pub use crate::multiplexed::integer::Error;
pub use crate::multiplexed::limits::{Decoded, HeaderLimits, Over};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use table::TABLE_SIZE;

#[cfg(test)]
mod tests;
