//! Brotli by the crate of that name.

use super::step::{Failed, Op, Room, Step};
use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderStateStruct};

/// Window of 128 KiB. A window of 64 KiB or less would select another search, which is ten times as slow for small
/// bodies.
const WINDOW_BITS: i32 = 17;

/// Window of 4 MiB, of a body that is compressed once.
const LARGE_WINDOW_BITS: i32 = 22;

/// Highest level of a body that is sent in small pieces over a long time: the next levels need megabytes.
const SMALL_LEVEL_MAX: u8 = 1;

/// Bytes after which a stream is flushed. It would gather 64 KiB and compress them in a step of up to 3 ms; with blocks
/// of 16 KiB, steps take 0.5 to 0.9 ms, for 1 to 2 % more bytes.
pub(super) const BLOCK: usize = 16 << 10;

/// Compressor for Brotli, made anew for each body.
pub struct Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>);

/// Memory of a compressor by level, in KiB, without that for a whole body.
pub fn kib(level: u8, room: Room) -> u64 {
    match (room, level) {
        (_, 0) => 320,
        (Room::Small, _) | (_, 1) => 704,
        (Room::Fitted(..=14), ..=4) => 768,
        (Room::Fitted(..=14), _) => 1280,
        (_, 2..=3) => 1056,
        (_, 4) => 2112,
        _ => 2560,
    }
}

impl Brotli {
    pub fn new(level: u8, room: Room) -> Brotli {
        let mut state = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
        let level = if room == Room::Small { level.min(SMALL_LEVEL_MAX) } else { level };
        state.params.quality = i32::from(level);
        state.params.lgwin = if room == Room::Large { LARGE_WINDOW_BITS } else { WINDOW_BITS };
        Brotli(state)
    }

    pub fn step(&mut self, from: &[u8], to: &mut [u8], op: Op) -> Result<Step, Failed> {
        let op = match op {
            Op::Go => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Op::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Op::End => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut left, mut taken, mut room, mut written) = (from.len(), 0, to.len(), 0);
        let is_well = self.0.compress_stream(
            op,
            &mut left,
            from,
            &mut taken,
            &mut room,
            to,
            &mut written,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !is_well {
            return Err(Failed);
        }
        let is_done = match op {
            BrotliEncoderOperation::BROTLI_OPERATION_PROCESS => left == 0,
            BrotliEncoderOperation::BROTLI_OPERATION_FINISH => self.0.is_finished(),
            _ => left == 0 && !self.0.has_more_output(),
        };
        Ok(Step { taken, written, is_done })
    }
}
