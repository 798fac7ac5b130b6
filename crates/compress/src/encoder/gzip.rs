//! Deflate, the blocks of gzip, by zlib-rs, a port of zlib-ng.

use super::step::{Failed, Op, Room, Step};
use flate2::{Compress, Compression, FlushCompress, Status};
use std::cell::RefCell;

/// Window of 32 KiB, the largest.
const WINDOW_BITS: u8 = 15;

/// Window of 4 KiB, of a body that is sent in small pieces over a long time.
const SMALL_WINDOW_BITS: u8 = 12;

/// Fewest bytes of room for a flush. In less, zlib cannot tell that a flush is over, and writes its mark again with
/// each call.
const FLUSH_ROOM: usize = 7;

/// Most idle compressors that a thread keeps.
const KEPT_MAX: usize = 8;

thread_local! {
    static IDLE: RefCell<Vec<(u8, Compress)>> = const { RefCell::new(Vec::new()) };
}

/// Compressor for the blocks of gzip. Returns to its thread when dropped.
pub struct Gzip {
    level: u8,
    room: Room,
    /// `None` only during `drop`.
    inner: Option<Compress>,
    /// Bytes of a flush for which there was no room.
    left: Vec<u8>,
}

/// Memory of a compressor, in KiB: half of it is a table of a size that cannot be chosen, and room for output.
pub fn kib(room: Room) -> u64 {
    match room {
        Room::Small => 224,
        Room::Fitted(..=12) => 224,
        Room::Fitted(..=14) => 256,
        Room::Fitted(_) | Room::Usual | Room::Large => 352,
    }
}

impl Gzip {
    pub fn new(level: u8, room: Room) -> Gzip {
        let idle = |idle: &mut Vec<(u8, Compress)>| {
            let at = idle.iter().rposition(|(other, _)| *other == level)?;
            Some(idle.swap_remove(at).1)
        };
        let idle = if room == Room::Usual { IDLE.with_borrow_mut(idle) } else { None };
        let window = match room {
            Room::Small => SMALL_WINDOW_BITS,
            Room::Fitted(bits) => bits.clamp(SMALL_WINDOW_BITS, WINDOW_BITS),
            Room::Usual | Room::Large => WINDOW_BITS,
        };
        let new = || Compress::new_with_window_bits(Compression::new(u32::from(level)), false, window);
        Gzip { level, room, inner: Some(idle.unwrap_or_else(new)), left: Vec::new() }
    }

    pub fn step(&mut self, from: &[u8], to: &mut [u8], op: Op) -> Result<Step, Failed> {
        let taken = match op {
            Op::Flush if self.left.is_empty() && to.len() < FLUSH_ROOM => self.flush_aside(from)?,
            _ if self.left.is_empty() => return self.compress(from, to, op),
            _ => 0,
        };
        let written = self.left.len().min(to.len());
        to[..written].copy_from_slice(&self.left[..written]);
        self.left.drain(..written);
        Ok(Step { taken, written, is_done: op == Op::Flush && taken == from.len() && self.left.is_empty() })
    }

    /// Flushes into a separate buffer. Returns the number of bytes taken: all.
    fn flush_aside(&mut self, from: &[u8]) -> Result<usize, Failed> {
        let (mut taken, mut room) = (0, [0; 1024]);
        loop {
            let step = self.compress(&from[taken..], &mut room, Op::Flush)?;
            taken += step.taken;
            self.left.extend_from_slice(&room[..step.written]);
            if step.is_done {
                return Ok(taken);
            }
        }
    }

    fn compress(&mut self, from: &[u8], to: &mut [u8], op: Op) -> Result<Step, Failed> {
        let inner = self.inner.as_mut().ok_or(Failed)?;
        let flush = match op {
            Op::Go => FlushCompress::None,
            Op::Flush => FlushCompress::Sync,
            Op::End => FlushCompress::Finish,
        };
        let (taken, written) = (inner.total_in(), inner.total_out());
        let status = inner.compress(from, to, flush).map_err(|_| Failed)?;
        let taken = (inner.total_in() - taken) as usize;
        let written = (inner.total_out() - written) as usize;
        let is_done = match op {
            Op::Go => taken == from.len(),
            // Of a flush, all is written once there is room left.
            Op::Flush => taken == from.len() && written < to.len(),
            Op::End => status == Status::StreamEnd,
        };
        Ok(Step { taken, written, is_done })
    }
}

impl Drop for Gzip {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take().filter(|_| self.room == Room::Usual) else { return };
        // During the end of the thread the memory is simply freed.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            if idle.len() < KEPT_MAX {
                inner.reset();
                idle.push((self.level, inner));
            }
        });
    }
}
