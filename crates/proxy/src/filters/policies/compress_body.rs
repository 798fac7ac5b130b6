//! Body that is compressed while it passes. Output waits for more input, but not for a sender that pauses.

use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended};
use crate::observe::compressed::Tally;
use evenkeel_compress::encoder::{Encoder, Failed, Op};
use evenkeel_compress::response::DROPPED_TRAILERS;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::budget;
use evenkeel_wire::head::Table;
use std::rc::Rc;

/// Bytes that cost one unit of a turn's budget: after a buffer of 32 KiB, which takes up to a millisecond, other tasks get
/// their turn.
const BYTES: usize = 256;

/// Units of a block, which has a turn of its own. It takes a millisecond or more, and other streams of the connection wait.
const BLOCK: u32 = 512;

pub struct Body {
    encoder: Encoder,
    tally: Rc<Tally>,
    /// True if bytes were given that may not have been written yet.
    holds: bool,
    /// Bytes that the block has room for, see [`Encoder::block`]; 0 while it is being written.
    left: usize,
}

impl Body {
    pub fn new(encoder: Encoder, tally: Rc<Tally>) -> Body {
        Body { left: encoder.block(), encoder, tally, holds: false }
    }

    /// Gives bytes to the compressor, as long as `to` has room. Returns the number that it took, and true if all is done.
    fn step(&mut self, from: &[u8], to: &mut Buf, op: Op) -> Result<(usize, bool), Unfit> {
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
}

impl BodyFilter for Body {
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

    fn pause(&mut self, to: &mut Buf) -> Result<(), Unfit> {
        if self.holds { self.flush(to) } else { Ok(()) }
    }

    fn end(&mut self, to: &mut Buf, trailers: &mut Table) -> Result<Ended, Unfit> {
        for name in DROPPED_TRAILERS {
            trailers.fields().leave_out(name);
        }
        Ok(if self.step(&[], to, Op::End)?.1 { Ended::Whole } else { Ended::More })
    }
}

#[cold]
fn failed(_: Failed) -> Unfit {
    Unfit { status: 500, why: "the response could not be compressed" }
}
