//! How are the fields of heads written in HTTP/2? By numbers of fields that both sides know, and strings that are shortened
//! (HPACK, RFC 7541).

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
