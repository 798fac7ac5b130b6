//! Compressors: an interface over compressors of other crates. Bytes in, bytes out, as many as there is room for.
//!
//! A compressor can be given up in the midst of a body: its content is flushed, its memory is freed, and the rest of
//! the body follows in blocks that are not compressed, which each coding has ([`stored`]). So a body keeps its coding,
//! whatever happens to its compressor.

// Order: brotli, gzip, stored, whole, zstd, step
mod brotli;
mod gzip;
mod step;
mod stored;
#[cfg(test)]
mod tests;
mod whole;
mod zstd;

pub use step::{Failed, Op, Room, Step};
pub use whole::{whole, whole_at};

use crate::coding::Coding;
use stored::Stored;

/// Body in a coding, with its compressor, if any.
pub struct Encoder {
    coding: Coding,
    level: u8,
    compressor: Option<Compressor>,
    stored: Stored,
    /// Bytes of the coded body for which there was no room yet.
    left: Vec<u8>,
    /// True if the compressor was asked to end the body, and has not done so yet.
    is_ending: bool,
    /// True once the coded body is complete, apart from `left`.
    has_ended: bool,
}

/// Compressor of a body, which returns to its thread when dropped, unless its library cannot begin anew.
enum Compressor {
    Gzip(gzip::Gzip),
    Brotli(brotli::Brotli),
    Zstd(zstd::Zstd),
}

impl Encoder {
    /// Creates an encoder with its compressor. `level` is within [`Coding::levels`].
    pub fn new(coding: Coding, level: u8, room: Room) -> Encoder {
        let mut encoder = Encoder::without_compressor(coding, level);
        encoder.make(room);
        encoder
    }

    /// Creates an encoder that has no compressor yet, see [`make`](Self::make), and needs no memory until then.
    pub fn without_compressor(coding: Coding, level: u8) -> Encoder {
        let (stored, left) = (Stored::new(coding), stored::begin(coding));
        Encoder { coding, level, compressor: None, stored, left, is_ending: false, has_ended: false }
    }

    /// Creates the compressor, or takes a compressor that was used before on this thread. Returns false if the body has
    /// to stay without: the rest of a body in Brotli whose compressor was given up.
    pub fn make(&mut self, room: Room) -> bool {
        if self.compressor.is_some() || self.has_ended || !self.stored.leave(&mut self.left) {
            return self.compressor.is_some();
        }
        self.compressor = Some(match self.coding {
            Coding::Gzip => Compressor::Gzip(gzip::Gzip::new(self.level, room)),
            Coding::Brotli => Compressor::Brotli(brotli::Brotli::new(self.level, room)),
            Coding::Zstd => Compressor::Zstd(zstd::Zstd::new(self.level, room)),
        });
        true
    }

    /// True if it has a compressor.
    pub fn has_compressor(&self) -> bool {
        self.compressor.is_some()
    }

    /// Gives up the compressor, and returns the number of bytes that it held back, which are the first to be written
    /// next.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn give_up(&mut self) -> Result<usize, Failed> {
        let Some(compressor) = &mut self.compressor else { return Ok(0) };
        let op = if self.is_ending { Op::End } else { Op::Flush };
        let mut room = [0; 4096];
        loop {
            let step = compressor.step(&[], &mut room, op)?;
            self.stored.follows(step.written);
            self.left.extend_from_slice(&room[..step.written]);
            if step.is_done {
                break;
            }
            if step.written == 0 {
                return Err(Failed);
            }
        }
        if self.is_ending {
            self.end();
        }
        self.compressor = None;
        Ok(self.left.len())
    }

    /// Bytes after which a stream is to be flushed, so that no step takes longer than a millisecond.
    pub fn block(&self) -> usize {
        match self.coding {
            Coding::Brotli => brotli::BLOCK,
            Coding::Gzip | Coding::Zstd => usize::MAX,
        }
    }

    /// Compresses bytes of `from` into `to`. With the same `op`, the rest is given again until all is done.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn step(&mut self, from: &[u8], to: &mut [u8], op: Op) -> Result<Step, Failed> {
        let mut written = self.drain(to);
        if !self.left.is_empty() || (written == to.len() && written > 0) {
            return Ok(Step { taken: 0, written, is_done: false });
        }
        if self.has_ended {
            return Ok(Step { taken: 0, written, is_done: from.is_empty() && op == Op::End });
        }
        let room = &mut to[written..];
        let mut step = match &mut self.compressor {
            Some(compressor) => compressor.step(from, room, op)?,
            None => self.stored.step(from, room, op, &mut self.left),
        };
        self.stored.count(&from[..step.taken]);
        if self.compressor.is_some() {
            self.stored.follows(step.written);
            self.is_ending = op == Op::End && !step.is_done;
        }
        if op == Op::End && step.is_done {
            self.end();
        }
        written += step.written;
        written += self.drain(&mut to[written..]);
        step.is_done &= self.left.is_empty();
        Ok(Step { written, ..step })
    }

    /// Adds the bytes behind the last block.
    fn end(&mut self) {
        self.stored.end(&mut self.left);
        (self.is_ending, self.has_ended) = (false, true);
    }

    /// Writes bytes that were left before. Returns their number.
    fn drain(&mut self, to: &mut [u8]) -> usize {
        let n = self.left.len().min(to.len());
        if n > 0 {
            to[..n].copy_from_slice(&self.left[..n]);
            self.left.drain(..n);
            if self.left.is_empty() && self.left.capacity() > LEFT_KEPT {
                self.left = Vec::new();
            }
        }
        n
    }
}

/// Bytes of memory that a compressor takes at most, as measured (`tests/memory.rs`). `level` is within
/// [`Coding::levels`].
pub fn memory_of(coding: Coding, level: u8, room: Room) -> u64 {
    let kib = match coding {
        Coding::Gzip => gzip::kib(room),
        Coding::Brotli => brotli::kib(level, room),
        Coding::Zstd => zstd::kib(level, room),
    };
    kib << 10
}

/// Capacity up to which the bytes that were left keep their memory.
const LEFT_KEPT: usize = 64;

impl Compressor {
    fn step(&mut self, from: &[u8], to: &mut [u8], op: Op) -> Result<Step, Failed> {
        match self {
            Compressor::Gzip(gzip) => gzip.step(from, to, op),
            Compressor::Brotli(brotli) => brotli.step(from, to, op),
            Compressor::Zstd(zstd) => zstd.step(from, to, op),
        }
    }
}
