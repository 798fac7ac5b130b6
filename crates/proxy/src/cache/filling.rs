//! Response whose head may be stored, until its body is complete.

use super::flights::{End, Lead};
use super::{Entry, SharedCache};
use evenkeel_balance::Instant;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
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
    pub lead: Option<Lead>,
    /// Time at which the head came.
    pub now: Instant,
    pub received: Moment,
}

impl Filling {
    /// Stores the response with its whole body.
    pub fn store(self, body: Vec<u8>) {
        let Filling { shared, key, stored, began, lead, now, received } = self;
        let entry = Entry::new(stored, pages::shared(body));
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
