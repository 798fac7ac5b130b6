//! Frames of the codings around blocks, and blocks whose bytes are not compressed. They need no memory, and may follow
//! blocks of a compressor that was flushed: in gzip (RFC 1952) and Brotli (RFC 7932) within the same stream of blocks,
//! in Zstandard (RFC 8878) within the same frame.

use super::step::{Op, Step};
use crate::coding::Coding;
use flate2::Crc;

/// Most bytes of a block: the window of the smallest compressor for Zstandard, whose blocks may not be longer.
const BLOCK_MAX: usize = 16 << 10;

/// Bytes of room below which a block passes by a separate buffer.
const ROOM_MIN: usize = 64;

/// Most bytes in front of the bytes of a block.
const FRONT_MAX: usize = 9;

/// Frame and blocks of a coded body.
pub struct Stored {
    coding: Coding,
    /// True once the stream of blocks has begun: in Brotli and Zstandard, it begins with the size of the window.
    has_begun: bool,
    /// Checksum and length of the body, for gzip.
    crc: Crc,
}

/// Returns the bytes in front of all blocks, where these do not depend on the compressor.
pub fn begin(coding: Coding) -> Vec<u8> {
    match coding {
        // Deflate, no name, no time, an unknown system.
        Coding::Gzip => vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
        Coding::Brotli | Coding::Zstd => Vec::new(),
    }
}

impl Stored {
    pub fn new(coding: Coding) -> Stored {
        Stored { coding, has_begun: false, crc: Crc::new() }
    }

    /// Notes that a compressor has written so many bytes.
    pub fn follows(&mut self, written: usize) {
        self.has_begun |= written > 0;
    }

    /// Counts bytes of the body.
    pub fn count(&mut self, body: &[u8]) {
        if self.coding == Coding::Gzip {
            self.crc.update(body);
        }
    }

    /// Prepares the body for the blocks of a new compressor. Returns false if none may follow.
    pub fn leave(&mut self, to: &mut Vec<u8>) -> bool {
        match self.coding {
            Coding::Gzip => true,
            // The distances of a second compressor would count from its own beginning.
            Coding::Brotli => !self.has_begun,
            Coding::Zstd => {
                // It begins another frame. Frames in sequence have a single content.
                if std::mem::take(&mut self.has_begun) {
                    to.extend_from_slice(&ZSTD_END);
                }
                true
            }
        }
    }

    /// Adds the bytes behind the last block of a compressor, or of this.
    pub fn end(&self, to: &mut Vec<u8>) {
        if self.coding == Coding::Gzip {
            to.extend_from_slice(&self.crc.sum().to_le_bytes());
            to.extend_from_slice(&self.crc.amount().to_le_bytes());
        }
    }

    /// Passes bytes on in blocks. Bytes without room are added to `left`.
    pub fn step(&mut self, from: &[u8], to: &mut [u8], op: Op, left: &mut Vec<u8>) -> Step {
        let (mut taken, mut written) = (0, 0);
        while taken < from.len() {
            let rest = &from[taken..];
            if to.len() - written < ROOM_MIN {
                if written == 0 {
                    let block = &rest[..rest.len().min(ROOM_MIN)];
                    self.front(block.len(), left);
                    left.extend_from_slice(block);
                    taken += block.len();
                }
                break;
            }
            let block = &rest[..rest.len().min(BLOCK_MAX).min(to.len() - written - FRONT_MAX)];
            let mut front = Vec::with_capacity(FRONT_MAX);
            self.front(block.len(), &mut front);
            for bytes in [&front[..], block] {
                to[written..written + bytes.len()].copy_from_slice(bytes);
                written += bytes.len();
            }
            taken += block.len();
        }
        let is_all = taken == from.len();
        if is_all && op == Op::End {
            self.last(left);
        }
        Step { taken, written, is_done: is_all }
    }

    /// Adds the header of a block of so many bytes, at most [`BLOCK_MAX`].
    fn front(&mut self, len: usize, to: &mut Vec<u8>) {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        match self.coding {
            Coding::Gzip => {
                let len = len as u16;
                to.push(0);
                to.extend_from_slice(&len.to_le_bytes());
                to.extend_from_slice(&(!len).to_le_bytes());
            }
            // Not the last; a length of 16 bits, less 1; not compressed. A stream begins with a bit for a window of 64
            // KiB.
            Coding::Brotli => {
                let bits = (len as u32 - 1) << 3 | 1 << 19;
                let bits = if has_begun { bits } else { bits << 1 };
                to.extend_from_slice(&bits.to_le_bytes()[..3]);
            }
            Coding::Zstd => {
                if !has_begun {
                    to.extend_from_slice(&ZSTD_BEGIN);
                }
                to.extend_from_slice(&((len as u32) << 3).to_le_bytes()[..3]);
            }
        }
    }

    /// Adds an empty last block.
    fn last(&mut self, to: &mut Vec<u8>) {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        match self.coding {
            Coding::Gzip => to.extend_from_slice(&[1, 0, 0, 0xff, 0xff]),
            Coding::Brotli => to.push(if has_begun { 0b11 } else { 0b110 }),
            Coding::Zstd => {
                if !has_begun {
                    to.extend_from_slice(&ZSTD_BEGIN);
                }
                to.extend_from_slice(&ZSTD_END);
            }
        }
    }
}

/// Front of a frame of Zstandard: its magic number, no content size, no checksum, and a window of 16 KiB.
const ZSTD_BEGIN: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, 4 << 3];

/// Empty last block of a frame.
const ZSTD_END: [u8; 3] = [1, 0, 0];
