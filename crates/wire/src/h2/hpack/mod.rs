//! HPACK (RFC 7541), the compression of heads in HTTP/2: indexes of fields that both sides know, and Huffman-coded
//! strings.

// Order: encoder, decoder, table, static_table, huffman, integer
mod decoder;
mod encoder;
mod huffman;
mod integer;
mod static_table;
mod table;

pub use decoder::{Decoded, Decoder, HeaderLimits, Over};
pub use encoder::Encoder;
pub use integer::{Error, TABLE_SIZE};

use integer::{read_integer, write_integer};

#[cfg(test)]
mod tests;
