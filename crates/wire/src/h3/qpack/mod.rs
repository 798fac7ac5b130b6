//! QPACK (RFC 9204), the compression of heads in HTTP/3, without a dynamic table in either direction: a block depends
//! on nothing but itself, so no stream waits for another.

// Order: encoder, decoder, instructions, static_table
mod decoder;
mod encoder;
mod instructions;
mod static_table;

pub use crate::multiplexed::integer::Error;
pub use crate::multiplexed::limits::{Decoded, HeaderLimits, Over};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use instructions::{DecoderInstructions, are_encoder_instructions};
pub use static_table::STATIC;

#[cfg(test)]
mod tests;
