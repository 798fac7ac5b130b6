//! Body of a response that is kept while it passes to the client, and stored once it is complete.

use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended};
use crate::cache::flights::{End, Lead};
use crate::cache::{Entry, Room, SharedCache};
use evenkeel_balance::Instant;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::store::Sequence;
use evenkeel_cache::stored::Stored;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;
use std::sync::Arc;

/// Response to be stored once its body is complete.
pub struct Filling {
    pub shared: Arc<SharedCache>,
    pub key: Key,
    pub stored: Stored,
    /// Point in the order of purges at which the request was sent.
    pub began: Sequence,
    pub lead: Option<Lead>,
    /// Time at which the head came.
    pub now: Instant,
    pub received: Moment,
}

impl Filling {
    /// Stores the response with its whole body.
    pub fn store(self, body: Vec<u8>) {
        let Filling { shared, key, stored, began, lead, now, received } = self;
        // A buffer of its own size.
        let entry = Entry::new(stored, body.into_boxed_slice().into());
        shared.put(&key, entry.into(), began, received);
        if let Some(lead) = lead {
            lead.end(End::Stored, now);
        }
    }

    /// Gives up: the response is for its request alone.
    pub fn give_up(self) {
        if let Some(lead) = self.lead {
            lead.end(End::Apart, self.now);
        }
    }
}

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
            if room.take(from.len() as u64) {
                body.extend_from_slice(from.filled());
            } else if let Some((filling, ..)) = self.0.take() {
                filling.give_up();
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
