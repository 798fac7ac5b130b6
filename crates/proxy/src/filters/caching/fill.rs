//! Body of a response that is kept while it passes to the client, and stored once it is complete.

use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended, Pace};
use crate::cache::Room;
use crate::cache::filling::Filling;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// Body that is kept while it passes.
pub struct Kept {
    /// `None` once there was no room for the body, or it has ended.
    filling: Option<(Filling, Vec<u8>, Room)>,
    /// True if no client gets the body, so that it need not pass once it is not kept.
    is_alone: bool,
}

impl Kept {
    pub fn new(filling: Filling) -> Kept {
        let room = filling.shared.room();
        Kept { filling: Some((filling, Vec::new(), room)), is_alone: false }
    }

    /// Body of a response that the client does not get.
    pub fn alone(filling: Filling) -> Kept {
        Kept { is_alone: true, ..Kept::new(filling) }
    }
}

impl BodyFilter for Kept {
    fn keeps_length(&self) -> bool {
        true
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
        if let Some((_, body, room)) = &mut self.filling {
            match room.take(from.len() as u64) {
                Ok(()) => body.extend_from_slice(from.filled()),
                Err(why) => {
                    if let Some((filling, ..)) = self.filling.take() {
                        filling.give_up(why);
                    }
                    if self.is_alone {
                        return Err(Unfit { status: 502, why: "it is not stored" });
                    }
                }
            }
        }
        // Passed on without a copy.
        *to = std::mem::replace(from, Buf::none());
        Ok(Pace::On)
    }

    fn end(&mut self, _: &mut Buf, _: &mut Table) -> Result<Ended, Unfit> {
        if let Some((filling, body, _)) = self.filling.take() {
            filling.store(body);
        }
        Ok(Ended::Whole)
    }
}
