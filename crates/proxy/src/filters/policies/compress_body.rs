//! Body that is compressed while it passes. Output waits for more input, but not for a sender that pauses.
//!
//! The compressor is made when the first bytes pass, and takes its memory from a budget of the process
//! ([`EncoderMemory`]). Without room, the bytes pass in uncompressed blocks of the coding. While memory is short, a
//! compressor is given up if it has had no work for some seconds, as its client takes nothing or its endpoint sends
//! nothing.

use super::compressed::Tally;
use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended, Pace};
use crate::encoder_memory::{EncoderMemory, Lack, Share, Taken};
use evenkeel_compress::coding::Coding;
use evenkeel_compress::encoder::{Encoder, Failed, Op, Room, memory_of};
use evenkeel_compress::response::DROPPED_TRAILERS;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::{budget, spawn};
use evenkeel_wire::head::Table;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Bytes that cost a unit of a turn's budget: after a buffer of 32 KiB, which takes up to a millisecond, other tasks
/// get their turn.
const BYTES: usize = 256;

/// Units of a block, which fills a whole turn. It takes a millisecond or more, and other streams of the connection
/// wait.
const BLOCK: u32 = 512;

/// Sweeps after which a compressor without work is given up while memory is short. There is a sweep each second.
const IDLE_SWEEPS: u32 = 3;

thread_local! {
    /// Bodies of this worker that have had a compressor.
    static MADE: RefCell<Vec<Weak<RefCell<Streamed>>>> = const { RefCell::new(Vec::new()) };
}

/// Compression of a body, as the filter of its response has chosen it.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    pub coding: Coding,
    pub level: u8,
    pub room: Room,
}

impl Chosen {
    /// Bytes that the compressor takes.
    pub fn memory(&self) -> u64 {
        memory_of(self.coding, self.level, self.room)
    }

    /// Part of the memory that it may take.
    pub fn share(&self) -> Share {
        if self.room == Room::Small { Share::All } else { Share::Most }
    }
}

pub struct Body(Rc<RefCell<Streamed>>);

struct Streamed {
    encoder: Encoder,
    chosen: Chosen,
    memory: Arc<EncoderMemory>,
    /// Memory of the compressor, or of the bytes that it left.
    taken: Option<Taken>,
    tally: Rc<Tally>,
    /// True if bytes were given that may not have been written yet.
    holds: bool,
    /// Bytes that the block has room for, see [`Encoder::block`]; 0 while it is being written.
    left: usize,
    /// Sweeps since the last step.
    idle: u32,
    /// True if the body is among those that are swept.
    is_known: bool,
    /// True once bytes have passed without a compressor.
    is_stored: bool,
    /// True if no compressor can be made any more.
    is_final: bool,
}

impl Body {
    pub fn new(chosen: Chosen, memory: Arc<EncoderMemory>, tally: Rc<Tally>) -> Body {
        let encoder = Encoder::without_compressor(chosen.coding, chosen.level);
        Body(Rc::new(RefCell::new(Streamed {
            left: encoder.block(),
            encoder,
            chosen,
            memory,
            taken: None,
            tally,
            holds: false,
            idle: 0,
            is_known: false,
            is_stored: false,
            is_final: false,
        })))
    }

    /// Makes the compressor, if there is room for it and it is not there yet.
    fn make(&self) {
        let mut body = self.0.borrow_mut();
        if body.encoder.has_compressor() || body.is_final {
            return;
        }
        let (bytes, share, room) = (body.chosen.memory(), body.chosen.share(), body.chosen.room);
        match body.memory.take(bytes, share) {
            Some(taken) if body.encoder.make(room) => body.taken = Some(taken),
            refused => {
                body.is_final = refused.is_some();
                if !std::mem::replace(&mut body.is_stored, true) {
                    body.memory.count(Lack::Stored);
                }
                return;
            }
        }
        if !std::mem::replace(&mut body.is_known, true) {
            drop(body);
            let made = Rc::downgrade(&self.0);
            MADE.with_borrow_mut(|all| {
                if all.len() == all.capacity() {
                    all.retain(|body| body.strong_count() > 0);
                }
                all.push(made);
            });
        }
    }
}

/// True if bodies of this worker have compressors, so that it has to be swept.
pub fn any() -> bool {
    MADE.with_borrow(|made| !made.is_empty())
}

/// Gives up compressors that have had no work for some seconds, while memory is short. To be called once a second.
pub fn sweep() {
    let idle: Vec<_> = MADE.with_borrow_mut(|made| {
        made.retain(|body| body.strong_count() > 0);
        if made.is_empty() {
            // A vector that has grown would keep its memory forever.
            *made = Vec::new();
        }
        made.iter().filter_map(Weak::upgrade).filter(|body| body.borrow_mut().grow_idle()).collect()
    });
    if idle.is_empty() {
        return;
    }
    // Each takes up to a millisecond, as it flushes.
    spawn(async move {
        for body in idle {
            budget::proceed().await;
            let mut body = body.borrow_mut();
            if body.is_idle() {
                budget::charge(BLOCK);
                body.give_up();
            }
        }
    });
}

impl Streamed {
    /// Counts a sweep. Returns true if the compressor is to be given up.
    fn grow_idle(&mut self) -> bool {
        self.idle = self.idle.saturating_add(1);
        self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.idle >= IDLE_SWEEPS && self.encoder.has_compressor() && self.memory.is_short()
    }

    /// Gives the compressor up. If the body continues, it gets a small compressor, if there is room.
    fn give_up(&mut self) {
        // A compressor that fails does so again at its next step, which ends the response.
        let Ok(left) = self.encoder.give_up() else { return };
        self.taken = (left > 0).then(|| self.memory.keep(left as u64));
        (self.holds, self.left) = (left > 0, self.encoder.block());
        self.chosen.room = Room::Small;
        self.memory.count(Lack::GivenUp);
    }

    /// Gives bytes to the compressor, as long as `to` has room. Returns the number of bytes taken, and true if all is
    /// done.
    fn step(&mut self, from: &[u8], to: &mut Buf, op: Op) -> Result<(usize, bool), Unfit> {
        self.idle = 0;
        let mut taken = 0;
        loop {
            let step = self.encoder.step(&from[taken..], to.spare(), op).map_err(failed)?;
            taken += step.taken;
            to.fill(step.written);
            self.tally.before.update(|n| n + step.taken as u64);
            self.tally.after.update(|n| n + step.written as u64);
            if step.is_done || to.spare().is_empty() {
                return Ok((taken, step.is_done));
            }
            if step.taken + step.written == 0 {
                return Err(failed(Failed));
            }
        }
    }

    /// Writes all that was given.
    fn flush(&mut self, to: &mut Buf) -> Result<(), Unfit> {
        if self.step(&[], to, Op::Flush)?.1 {
            (self.holds, self.left) = (false, self.encoder.block());
        }
        Ok(())
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<(), Unfit> {
        if self.left > 0 {
            let given = from.len().min(self.left);
            budget::charge((given / BYTES) as u32);
            self.holds = true;
            let (taken, _) = self.step(&from.filled()[..given], to, Op::Go)?;
            from.consume(taken);
            self.left -= taken;
        }
        if self.left == 0 {
            budget::charge(BLOCK);
            self.flush(to)?;
        }
        Ok(())
    }
}

impl BodyFilter for Body {
    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
        self.make();
        self.0.borrow_mut().data(from, to)?;
        Ok(Pace::On)
    }

    fn flush(&mut self, to: &mut Buf) -> Result<(), Unfit> {
        let mut body = self.0.borrow_mut();
        if body.holds { body.flush(to) } else { Ok(()) }
    }

    fn end(&mut self, to: &mut Buf, trailers: &mut Table) -> Result<Ended, Unfit> {
        for name in DROPPED_TRAILERS {
            trailers.fields().leave_out(name);
        }
        Ok(if self.0.borrow_mut().step(&[], to, Op::End)?.1 { Ended::Whole } else { Ended::More })
    }
}

#[cold]
fn failed(_: Failed) -> Unfit {
    Unfit { status: 500, why: "the response could not be compressed" }
}
