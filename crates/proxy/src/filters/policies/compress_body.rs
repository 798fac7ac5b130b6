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

pub struct Body {
    encoder: Encoder,
    tally: Rc<Tally>,
    /// True if bytes were given that may not have been written yet.
    holds: bool,
}

impl Body {
    pub fn new(encoder: Encoder, tally: Rc<Tally>) -> Body {
        Body { encoder, tally, holds: false }
    }

    /// Gives the bytes of `from` to the compressor, as long as `to` has room. Returns true if all is done.
    fn step(&mut self, from: &mut Buf, to: &mut Buf, op: Op) -> Result<bool, Unfit> {
        loop {
            let step = self.encoder.step(from.filled(), to.spare(), op).map_err(failed)?;
            from.consume(step.taken);
            to.fill(step.written);
            self.tally.before.update(|n| n + step.taken as u64);
            self.tally.after.update(|n| n + step.written as u64);
            if step.is_done || to.spare().is_empty() {
                return Ok(step.is_done);
            }
            if step.taken + step.written == 0 {
                return Err(failed(Failed));
            }
        }
    }
}

impl BodyFilter for Body {
    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<(), Unfit> {
        budget::charge((from.len() / BYTES) as u32);
        self.holds = true;
        self.step(from, to, Op::Go).map(|_| ())
    }

    fn pause(&mut self, to: &mut Buf) -> Result<(), Unfit> {
        if self.holds {
            self.holds = !self.step(&mut Buf::none(), to, Op::Flush)?;
        }
        Ok(())
    }

    fn end(&mut self, to: &mut Buf, trailers: &mut Table) -> Result<Ended, Unfit> {
        for name in DROPPED_TRAILERS {
            trailers.fields().leave_out(name);
        }
        Ok(if self.step(&mut Buf::none(), to, Op::End)? { Ended::Whole } else { Ended::More })
    }
}

#[cold]
fn failed(_: Failed) -> Unfit {
    Unfit { status: 500, why: "the response could not be compressed" }
}
