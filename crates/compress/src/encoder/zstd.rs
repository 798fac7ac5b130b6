//! Zstandard by its reference implementation.

use super::step::{Failed, Op, Room, Step};
use std::cell::RefCell;
use zstd_safe::zstd_sys::ZSTD_EndDirective as End;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// Window of 256 KiB. Decoders must support 8 MiB (RFC 9659), but memory of the compressor grows with it.
const WINDOW_LOG: u32 = 18;

/// Window of 16 KiB, the smallest. Blocks are no longer than a window, and those without compression are as long as
/// this.
const SMALL_WINDOW_LOG: u32 = 14;

/// Sizes of the window and of the tables of a body that is sent in small pieces over a long time, 16 KiB each.
const SMALL: [CParameter; 3] =
    [CParameter::WindowLog(SMALL_WINDOW_LOG), CParameter::HashLog(13), CParameter::ChainLog(12)];

/// Most idle compressors that a thread keeps.
const KEPT_MAX: usize = 4;

thread_local! {
    static IDLE: RefCell<Vec<CCtx<'static>>> = const { RefCell::new(Vec::new()) };
}

/// Compressor for Zstandard. Returns to its thread when dropped.
pub struct Zstd {
    /// `None` if its memory could not be allocated, and during `drop`.
    inner: Option<CCtx<'static>>,
    room: Room,
}

/// Memory of a compressor by level, in KiB, without that for a whole body.
pub fn kib(level: u8, room: Room) -> u64 {
    match (room, level) {
        (Room::Small | Room::Fitted(..=14), _) => 160,
        (Room::Fitted(15), _) => 256,
        (Room::Fitted(16), _) => 384,
        (Room::Fitted(17), _) => 736,
        (_, ..=2) => 704,
        (_, 3) => 1280,
        (_, 4) => 2560,
        (_, 5..=6) => 3072,
        _ => 5632,
    }
}

impl Zstd {
    /// Creates a compressor. The length of the body is not given to it even if it is known: that chooses other tables,
    /// which are slower and hardly better.
    pub fn new(level: u8, room: Room) -> Zstd {
        // A compressor that stays for long gets no large tables that were used before.
        let idle = if room == Room::Usual { IDLE.with_borrow_mut(Vec::pop) } else { None };
        let mut inner = idle.or_else(CCtx::try_create);
        if let Some(context) = &mut inner {
            let mut is_set = context.set_parameter(CParameter::CompressionLevel(i32::from(level))).is_ok();
            let fitted: [CParameter; 3];
            let sizes: &[CParameter] = match room {
                Room::Usual => &[CParameter::WindowLog(WINDOW_LOG)],
                Room::Fitted(bits) => {
                    // Tables with about a place for each byte of the window.
                    let log = u32::from(bits).clamp(SMALL_WINDOW_LOG, WINDOW_LOG);
                    fitted = [CParameter::WindowLog(log), CParameter::HashLog(log - 1), CParameter::ChainLog(log - 2)];
                    &fitted
                }
                Room::Small => &SMALL,
                // Sizes of the level: up to 8 MiB, and not more than the body.
                Room::Large => &[],
            };
            sizes.iter().for_each(|size| is_set &= context.set_parameter(*size).is_ok());
            if !is_set {
                inner = None;
            }
        }
        Zstd { inner, room }
    }

    pub fn step(&mut self, from: &[u8], to: &mut [u8], op: Op) -> Result<Step, Failed> {
        let context = self.inner.as_mut().ok_or(Failed)?;
        let end = match op {
            Op::Go => End::ZSTD_e_continue,
            Op::Flush => End::ZSTD_e_flush,
            Op::End => End::ZSTD_e_end,
        };
        let mut from = InBuffer::around(from);
        let mut to = OutBuffer::around(to);
        let left = context.compress_stream2(&mut to, &mut from, end).map_err(|_| Failed)?;
        let is_all = from.pos == from.src.len();
        let is_done = is_all && (op == Op::Go || left == 0);
        Ok(Step { taken: from.pos, written: to.pos(), is_done })
    }
}

impl Drop for Zstd {
    fn drop(&mut self) {
        let Some(mut context) = self.inner.take().filter(|_| self.room == Room::Usual) else { return };
        // During the end of the thread the memory is simply freed.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            if idle.len() < KEPT_MAX && context.reset(ResetDirective::SessionAndParameters).is_ok() {
                idle.push(context);
            }
        });
    }
}
