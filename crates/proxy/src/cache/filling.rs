//! Response that may be stored by its head, while its body arrives. It is stored once the body is whole, whether any
//! client still reads it or not.

use super::counts::CacheCounts;
use super::flights::{End, Lead};
use super::growing::{Growing, Reader};
use super::outcome::{Fate, Outcome};
use super::{Entry, Room, SharedCache};
use evenkeel_balance::Instant;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// Response whose body is to be stored. Dropped before the body is whole, the body is cut off for all readers.
pub struct Filling {
    shared: Arc<SharedCache>,
    key: Key,
    received: Moment,
    body: Body,
    room: Room,
    ending: Ending,
    /// Place among the fetches without a client, while no client reads.
    unattended: Option<Unattended>,
    /// True if the body turned out too large to be stored.
    is_passed: bool,
}

/// Body that is cut off when this is dropped before its end.
struct Body(Arc<Growing>);

impl Drop for Body {
    fn drop(&mut self) {
        self.0.cut();
    }
}

impl Filling {
    /// Begins to store a response. `room` is the room for its body, if the endpoint states the length.
    pub fn new(
        shared: &Arc<SharedCache>,
        key: Key,
        growing: Arc<Growing>,
        received: Moment,
        room: Room,
        ending: Ending,
    ) -> Filling {
        if let Some(lead) = &ending.lead {
            lead.begin(&key, &growing);
        }
        let shared = shared.clone();
        shared.fills.fetch_add(1, Ordering::Relaxed);
        Filling { shared, key, received, body: Body(growing), room, ending, unattended: None, is_passed: false }
    }

    /// Reader of the whole body.
    pub fn reader(&self) -> Option<Reader> {
        self.body.0.reader(0..u64::MAX)
    }

    /// Continues without a client in the place that its request has.
    pub fn keep_place(&mut self, place: Option<Unattended>) {
        self.unattended = place;
    }

    /// Adds bytes of the body. If there is no room for them, the body is passed to its readers, and is not stored.
    pub fn add(&mut self, bytes: &[u8], now: Instant) {
        let growing = &self.body.0;
        if growing.length.is_none()
            && let Err(why) = self.room.take(bytes.len() as u64)
            && !std::mem::replace(&mut self.is_passed, true)
        {
            self.ending.settle(Some(why));
            growing.pass();
        }
        growing.add(bytes, now);
    }

    /// Waits until more of the body is wanted. False if no client reads it, and it is not stored or too many fetches
    /// have no client.
    pub fn poll_wanted(&mut self, cx: &Context<'_>) -> Poll<bool> {
        let growing = &self.body.0;
        if self.is_passed {
            return growing.poll_need(cx, self.shared.plan.object_max).map(|(is_wanted, held)| {
                self.room.hold(held);
                is_wanted
            });
        }
        if growing.has_readers(cx) {
            self.unattended = None;
        } else if self.unattended.is_none() {
            self.unattended = Unattended::new(&self.shared);
            return Poll::Ready(self.unattended.is_some());
        }
        Poll::Ready(true)
    }

    /// Cuts off the clients for which the others wait in vain.
    pub fn cut_slow(&self) {
        self.body.0.cut_slow();
    }

    /// True if no client reads the body.
    pub fn is_unattended(&self) -> bool {
        self.unattended.is_some()
    }

    /// Ends the whole body, and stores the response.
    pub fn end(mut self) {
        let growing = self.body.0.clone();
        if self.is_passed {
            return growing.end(bytes::Bytes::new());
        }
        let body = growing.join();
        let entry = Entry::new(growing.head.clone(), body.clone());
        let refused = self.shared.put(&self.key, entry.into(), growing.began, self.received);
        growing.end(body);
        self.ending.settle(refused);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.shared.fills.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Place among the fetches that continue without a client, given back when this is dropped.
pub struct Unattended(Arc<SharedCache>);

impl Unattended {
    /// A place; `None` if there are too many fetches without a client.
    pub fn new(shared: &Arc<SharedCache>) -> Option<Unattended> {
        let place = Unattended(shared.clone());
        let before = shared.unattended.fetch_add(1, Ordering::Relaxed);
        (before < shared.plan.unattended_fetches_max as u64).then_some(place)
    }
}

impl Drop for Unattended {
    fn drop(&mut self) {
        self.0.unattended.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Right of a request to be sent to its end although its client has left, as others may want the response.
pub struct Stay {
    pub shared: Arc<SharedCache>,
    /// Place of the request, once its client has left.
    pub place: Option<Unattended>,
}

impl Stay {
    /// True if the request continues. To be called once its client has left.
    pub fn is_granted(&mut self) -> bool {
        if self.place.is_none() {
            self.place = Unattended::new(&self.shared);
        }
        self.place.is_some()
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
