//! Compressors: one interface over those of other crates. Bytes in, bytes out, as many as there is room for.

mod brotli;
mod gzip;
#[cfg(test)]
mod tests;
mod zstd;

use crate::coding::Coding;
use std::fmt;

/// Purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Compresses; bytes may be held back until there are more.
    Go,
    /// Writes all that is held back, so that the receiver can decode all bytes given so far.
    Flush,
    /// Ends the body. No bytes may be given after it.
    End,
}

/// Memory of a compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// At most about 4 MiB, and 2 MiB at the default levels.
    Usual,
    /// Some hundred KiB, for a body that is sent in small pieces over a long time, as events are.
    Small,
}

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of bytes taken from the input.
    pub taken: usize,
    /// Number of bytes written to the output.
    pub written: usize,
    /// True if the call has done all that was asked: all input was taken and, for a flush or the end, all output was written.
    pub is_done: bool,
}

/// Error of a compressor. None is known to occur: it would be an error of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the compressor failed")
    }
}

impl std::error::Error for Failed {}

/// Compressor of one body.
pub enum Encoder {
    /// Compressor for gzip.
    Gzip(gzip::Gzip),
    /// Compressor for Brotli.
    Brotli(brotli::Brotli),
    /// Compressor for Zstandard.
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
