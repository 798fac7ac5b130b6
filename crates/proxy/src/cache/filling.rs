//! Response whose head may be stored, until its body is complete.

use super::counts::CacheCounts;
use super::flights::{End, Lead};
use super::state::{Fate, Outcome};
use super::{Entry, SharedCache};
use evenkeel_balance::Instant;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::store::Sequence;
use evenkeel_cache::stored::Stored;
use evenkeel_net::pages;
use std::sync::Arc;

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
    fn settle(&mut self, refused: Option<Refusal>) {
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
