//! Compression of a body that is there as a whole, once for many clients: at higher levels than the levels of streams.

use super::{Encoder, Op, Room};
use crate::coding::Coding;

/// Compresses a body at the level for that, see [`Coding::level_of_whole`]. `None` if it becomes no smaller.
pub fn whole(coding: Coding, body: &[u8]) -> Option<Vec<u8>> {
    whole_at(coding, coding.level_of_whole(), body)
}

/// Compresses a body at any level that the library has. `None` if it becomes no smaller.
pub fn whole_at(coding: Coding, level: u8, body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(coding, level, Room::Large);
    // No room for a body that is not smaller.
    let mut to = vec![0; body.len().saturating_sub(1)];
    let (mut taken, mut written) = (0, 0);
    loop {
        let step = encoder.step(&body[taken..], &mut to[written..], Op::End).ok()?;
        (taken, written) = (taken + step.taken, written + step.written);
        if step.is_done {
            to.truncate(written);
            return Some(to);
        }
        if step.taken + step.written == 0 || written == to.len() {
            return None;
        }
    }
}
