//! Response that may be stored by its head, while its body arrives. It is stored once the body is whole, whether any
//! client still reads it or not.

use super::counts::{CacheCounts, CutBy, PassedFor, WholeFetch};
use super::flights::{End, Lead};
use super::growing::{Growing, Reader};
use super::outcome::{Fate, Outcome};
use super::{Entry, Room, SharedCache};
use evenkeel_balance::Instant;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::Refusal;
use evenkeel_wire::head::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Response whose body is to be stored. Dropped before the body is whole, the body is cut off for all readers.
pub struct Filling {
    shared: Arc<SharedCache>,
    key: Key,
    received: Moment,
    growing: Arc<Growing>,
    room: Room,
    ending: Ending,
    /// Place among the fetches without a client.
    place: Option<Place>,
    /// True if a client reads the body.
    is_read: bool,
    /// True if the body is not stored, but passed to its readers.
    is_passed: bool,
    /// Reason for which readers are cut off if this is dropped.
    cut_by: CutBy,
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
        Filling {
            shared,
            key,
            received,
            growing,
            room,
            ending,
            place: None,
            is_read: false,
            is_passed: false,
            cut_by: CutBy::default(),
        }
    }

    /// Reader of the whole body.
    pub fn reader(&self) -> Option<Reader> {
        self.growing.reader(0..u64::MAX)
    }

    /// Continues without a client in this place.
    pub fn keep_place(&mut self, place: Option<Place>) {
        self.place = place;
    }

    /// Passes the body to the readers that it has, and does not store it for this reason.
    pub fn pass(&mut self, why: Refusal) {
        self.is_passed = true;
        self.ending.settle(Some(why));
        self.growing.pass();
    }

    /// Adds bytes of the body. If there is no room for them, the body is passed to its readers, and is not stored.
    pub fn add(&mut self, bytes: &[u8], now: Instant) {
        if self.growing.length.is_none()
            && !self.is_passed
            && let Err(why) = self.room.take(bytes.len() as u64)
        {
            let reason = if why == Refusal::NoRoom { PassedFor::NoRoom } else { PassedFor::TooLarge };
            count(&self.shared.counts.fills.passed[reason as usize], 1);
            self.pass(why);
        }
        self.growing.add(bytes, now);
    }

    /// Adds trailers, which follow the last bytes.
    pub fn add_trailers(&self, trailers: Table) {
        self.growing.add_trailers(trailers);
    }

    /// Waits until more of the body is wanted. False if no client reads it, and it is not stored or too many fetches
    /// have no client.
    pub fn poll_wanted(&mut self, cx: &Context<'_>) -> Poll<bool> {
        if self.is_passed {
            return self.growing.poll_need(cx, self.shared.plan.object_max).map(|(is_read, held)| {
                self.room.hold(held);
                self.is_read = is_read;
                is_read
            });
        }
        self.is_read = self.growing.has_readers(cx);
        if self.is_read {
            self.place.take_if(|place| place.of == Without::Unattended);
        } else if self.place.is_none() {
            self.place = Place::unattended(&self.shared);
        }
        Poll::Ready(self.is_read || self.place.is_some())
    }

    /// Cuts off the clients for which the others wait in vain.
    pub fn cut_slow(&self) {
        count(&self.shared.counts.fills.cut[CutBy::Slow as usize], self.growing.cut_slow());
    }

    /// Sets the reason for which clients are cut off if this is dropped.
    pub fn cut_by(&mut self, why: CutBy) {
        self.cut_by = why;
    }

    /// True if no client reads the body.
    pub fn is_unattended(&self) -> bool {
        !self.is_read
    }

    /// Ends the whole body, and stores the response.
    pub fn end(mut self) {
        let growing = self.growing.clone();
        if self.is_passed {
            growing.end(bytes::Bytes::new());
            return;
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
        let lacking = self.growing.cut();
        count(&self.shared.counts.fills.cut[self.cut_by as usize], lacking);
        self.shared.fills.fetch_sub(1, Ordering::Relaxed);
    }
}

fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Place among the fetches that have no client, given back when this is dropped.
pub struct Place {
    shared: Arc<SharedCache>,
    of: Without,
}

/// Reason why a fetch has no client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    /// All of its clients have left.
    Unattended,
    /// Validation behind a stale response that was served.
    Validation,
    /// Fetch of the whole response behind a request for a part.
    Whole,
}

impl Place {
    /// A place for a fetch whose clients have left; `None` if there are too many.
    pub fn unattended(shared: &Arc<SharedCache>) -> Option<Place> {
        Place::new(shared, Without::Unattended, shared.plan.unattended_fetches_max as u64)
    }

    /// A place for a validation.
    pub fn validation(shared: &Arc<SharedCache>) -> Option<Place> {
        Place::new(shared, Without::Validation, u64::MAX)
    }

    /// A place for the fetch of a whole response; `None` if there are `most`.
    pub fn whole(shared: &Arc<SharedCache>, most: u64) -> Option<Place> {
        Place::new(shared, Without::Whole, most)
    }

    fn new(shared: &Arc<SharedCache>, of: Without, most: u64) -> Option<Place> {
        let place = Place { shared: shared.clone(), of };
        let before = place.counter().fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(place)
    }

    fn counter(&self) -> &AtomicU64 {
        match self.of {
            Without::Unattended => &self.shared.unattended,
            Without::Validation => &self.shared.validations,
            Without::Whole => &self.shared.wholes,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counter().fetch_sub(1, Ordering::Relaxed);
    }
}

/// Right of a request to be sent to its end although its client has left, as others may want the response.
pub struct Stay {
    pub shared: Arc<SharedCache>,
    /// Place of the request, once its client has left.
    pub place: Option<Place>,
}

impl Stay {
    /// True if the request continues. To be called once its client has left.
    pub fn is_granted(&mut self) -> bool {
        if self.place.is_none() {
            self.place = Place::unattended(&self.shared);
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
    /// Count of its result; `None` once it is counted.
    pub tally: Option<Tally>,
}

/// Count of the result of a fetch.
pub enum Tally {
    /// Response to a client's request, with its outcome if it is stored.
    Request { outcome: Outcome, fate: Fate, counts: Arc<CacheCounts> },
    /// Whole response behind a request for a part.
    Whole(Arc<CacheCounts>),
    /// Validation, which is not counted.
    Validation,
}

impl Ending {
    /// Ends the response: stored, or not for this reason.
    pub fn settle(&mut self, refused: Option<Refusal>) {
        self.settle_by(refused, End::of(refused));
    }

    /// Ends the response with this end for the requests that wait for it.
    pub fn settle_by(&mut self, refused: Option<Refusal>, end: End) {
        match self.tally.take() {
            Some(Tally::Request { outcome, fate, counts }) => {
                fate.set(refused);
                outcome.but(refused).count(&counts);
            }
            Some(Tally::Whole(counts)) => {
                let result = if refused.is_none() { WholeFetch::Stored } else { WholeFetch::NotStored };
                counts.whole[result as usize].add(1);
            }
            Some(Tally::Validation) => {}
            None => return,
        }
        if let Some(lead) = self.lead.take() {
            lead.end(end, self.now);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.settle(Some(Refusal::CutOff));
    }
}

#[cfg(test)]
#[path = "filling_tests.rs"]
mod tests;
