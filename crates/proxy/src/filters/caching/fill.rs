//! Response that may be stored by its head: its body is kept while it passes to the client, and both are stored once
//! the body is complete.

use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended, Pace};
use crate::cache::counts::CacheCounts;
use crate::cache::flights::{End, Lead};
use crate::cache::outcome::{Fate, Outcome};
use crate::cache::{Entry, Room, SharedCache};
use evenkeel_balance::Instant;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::store::Sequence;
use evenkeel_cache::stored::Stored;
use evenkeel_net::buffer::Buf;
use evenkeel_net::pages;
use evenkeel_wire::head::Table;
use std::sync::Arc;

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

/// Response to be stored once its body is complete.
pub struct Filling {
    pub shared: Arc<SharedCache>,
    pub key: Key,
    pub stored: Stored,
    /// Point in the order of purges at which the request was sent.
    pub began: Sequence,
    pub received: Moment,
    pub ending: Ending,
}

impl Filling {
    /// Stores the response with its whole body.
    pub fn store(self, body: Vec<u8>) {
        let Filling { shared, key, stored, began, received, mut ending } = self;
        let entry = Entry::new(stored, pages::shared(body));
        ending.settle(shared.put(&key, entry.into(), began, received));
    }

    /// Gives up: the response is not stored, for this reason.
    pub fn give_up(mut self, why: Refusal) {
        self.ending.settle(Some(why));
    }
}

/// End of a response that is to be stored: counts its result, and notifies the requests that wait for it. If it is
/// dropped earlier, the response was cut off.
pub struct Ending {
    pub lead: Option<Lead>,
    /// Time at which the head arrived.
    pub now: Instant,
    /// Effect of the cache on the response, if it is stored.
    pub outcome: Outcome,
    pub fate: Fate,
    /// Counts of its route; `None` once it is counted.
    pub counts: Option<Arc<CacheCounts>>,
}

impl Ending {
    /// Ends the response: stored, or not for this reason.
    pub fn settle(&mut self, refused: Option<Refusal>) {
        let Some(counts) = self.counts.take() else { return };
        self.fate.set(refused);
        self.outcome.but(refused).count(&counts);
        if let Some(lead) = self.lead.take() {
            lead.end(End::of(refused), self.now);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.settle(Some(Refusal::CutOff));
    }
}
