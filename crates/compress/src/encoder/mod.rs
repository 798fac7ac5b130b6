//! Compressors: one interface over those of other crates. Bytes in, bytes out, as many as there is room for.

mod brotli;
mod gzip;
mod step;
#[cfg(test)]
mod tests;
mod whole;
mod zstd;

pub use step::{Failed, Op, Room, Step};
pub use whole::{whole, whole_at};

use crate::coding::Coding;

/// Compressor of one body, which returns to its thread when dropped, unless its library cannot begin anew.
pub enum Encoder {
    Gzip(gzip::Gzip),
    Brotli(brotli::Brotli),
    Zstd(zstd::Zstd),
}

impl Encoder {
    /// Creates a compressor, or takes one that was used before on this thread. `level` is one of [`Coding::levels`].
    pub fn new(coding: Coding, level: u8, room: Room) -> Encoder {
        match coding {
            Coding::Gzip => Encoder::Gzip(gzip::Gzip::new(level, room)),
            Coding::Brotli => Encoder::Brotli(brotli::Brotli::new(level, room)),
            Coding::Zstd => Encoder::Zstd(zstd::Zstd::new(level, room)),
        }
    }

    /// Bytes after which a stream is to be flushed, so that no step takes longer than a millisecond.
    pub fn block(&self) -> usize {
        match self {
            Encoder::Brotli(_) => brotli::BLOCK,
            Encoder::Gzip(_) | Encoder::Zstd(_) => usize::MAX,
        }
    }

    /// Compresses bytes of `from` into `to`. With the same `op`, the rest is given again until all is done.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn step(&mut self, from: &[u8], to: &mut [u8], op: Op) -> Result<Step, Failed> {
        match self {
            Encoder::Gzip(gzip) => gzip.step(from, to, op),
            Encoder::Brotli(brotli) => brotli.step(from, to, op),
            Encoder::Zstd(zstd) => zstd.step(from, to, op),
        }
    }
}
