//! Body of a response that is kept while it passes to the client, and stored once it is complete.

use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended};
use crate::cache::Room;
use crate::cache::filling::Filling;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// Body that is kept while it passes; `None` once there was no room for it, or it has ended.
pub struct Kept(Option<(Filling, Vec<u8>, Room)>);

impl Kept {
    pub fn new(filling: Filling) -> Kept {
        let room = filling.shared.room();
        Kept(Some((filling, Vec::new(), room)))
    }
}

impl BodyFilter for Kept {
    fn keeps_length(&self) -> bool {
        true
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<(), Unfit> {
        if let Some((_, body, room)) = &mut self.0 {
            match room.take(from.len() as u64) {
                Ok(()) => body.extend_from_slice(from.filled()),
                Err(why) => {
                    if let Some((filling, ..)) = self.0.take() {
                        filling.give_up(why);
                    }
                }
            }
        }
        // Passed on without a copy.
        *to = std::mem::replace(from, Buf::none());
        Ok(())
    }

    fn end(&mut self, _: &mut Buf, _: &mut Table) -> Result<Ended, Unfit> {
        if let Some((filling, body, _)) = self.0.take() {
            filling.store(body);
        }
        Ok(Ended::Whole)
    }
}
