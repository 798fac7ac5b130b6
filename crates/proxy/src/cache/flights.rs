//! Fetches of responses that are under way, so that requests for the same response wait for the same fetch (request
//! collapsing). Shared by all workers.

#![expect(
    clippy::disallowed_types,
    reason = "held for a look at one map entry, and only by requests that no stored response answers"
)]

use evenkeel_balance::Instant;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_cache::refusal::Refusal;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

const SHARDS: usize = 64;

/// Time for which requests are kept apart after a response that was not for all of them: they do not wait for each
/// other then.
const APART_NS: u64 = 10 * SECOND_NS;

/// Most keys of a shard that are remembered as apart. An attacker's make room for others' by being forgotten.
const APART_MAX: usize = 1024;

/// Fetches that are under way, by the key of their response.
pub struct Flights {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    under_way: HashMap<Box<[u8]>, Arc<Flight>>,
    /// Hashes of keys whose responses are not for all, and the time until which that counts.
    apart: HashMap<u64, Instant>,
}

/// Fetch that is under way. Requests that wait for it are woken at its end.
#[derive(Default)]
struct Flight(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    end: Option<End>,
    waiting: Vec<Waker>,
}

/// End of a fetch, of which the requests that wait for it learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response is stored, so that a lookup finds it.
    Stored,
    /// The response is for its request alone, and is not stored.
    Apart,
    /// The response is not stored as its request was different from others, such as a request that provokes an error.
    /// Requests that wait now fetch responses themselves, and later requests wait again.
    Refused,
    /// There is no response, only a part of it, or it was purged before its end.
    Failed,
}

impl End {
    /// End of a fetch whose response is stored, or is not for this reason.
    pub fn of(refused: Option<Refusal>) -> End {
        match refused {
            None => End::Stored,
            Some(Refusal::CutOff | Refusal::Purged) => End::Failed,
            Some(refusal) if refusal.is_of_request() => End::Refused,
            Some(_) => End::Apart,
        }
    }
}

/// Role of a request in the fetch of its response.
pub enum Role {
    /// Fetches the response, for which others may wait.
    Leads(Lead),
    /// Waits for the response that another request fetches.
    Follows(Follow),
    /// Fetches a response alone: no other request waits for it.
    Alone,
}

/// Duty of the request that fetches a response. Dropped before it ends, the fetch has failed.
pub struct Lead {
    flights: Arc<Flights>,
    key: Box<[u8]>,
    flight: Arc<Flight>,
}

/// Waits for the end of another request's fetch.
pub struct Follow {
    flight: Arc<Flight>,
    /// Waker that was noted last.
    noted: Option<Waker>,
}

impl Default for Flights {
    fn default() -> Flights {
        Flights { hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Flights {
    /// Role of a request for the response with this key.
    pub fn join(self: &Arc<Flights>, key: &[u8], now: Instant) -> Role {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash);
        if let Some(until) = shard.apart.get(&hash) {
            if now < *until {
                return Role::Alone;
            }
            shard.apart.remove(&hash);
        }
        if let Some(flight) = shard.under_way.get(key) {
            return Role::Follows(Follow { flight: flight.clone(), noted: None });
        }
        let flight = Arc::new(Flight::default());
        shard.under_way.insert(key.into(), flight.clone());
        Role::Leads(Lead { flights: self.clone(), key: key.into(), flight })
    }

    /// True if a request fetches the response with this key now.
    pub fn is_under_way(&self, key: &[u8]) -> bool {
        self.shard(self.hasher.hash_one(key)).under_way.contains_key(key)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[hash as usize % SHARDS])
    }
}

impl Lead {
    /// Ends the fetch. `now` counts for a response that is for its request alone.
    pub fn end(self, end: End, now: Instant) {
        if end == End::Apart {
            let hash = self.flights.hasher.hash_one(&*self.key);
            let mut shard = self.flights.shard(hash);
            if shard.apart.len() >= APART_MAX {
                shard.apart.clear();
            }
            shard.apart.insert(hash, now.after(APART_NS));
        }
        self.flight.end(end);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let hash = self.flights.hasher.hash_one(&*self.key);
        self.flights.shard(hash).under_way.remove(&self.key);
        self.flight.end(End::Failed);
    }
}

impl Flight {
    /// Notes the end, unless an end was noted before, and wakes the requests that wait.
    fn end(&self, end: End) {
        let mut progress = lock(&self.0);
        progress.end.get_or_insert(end);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Future for Follow {
    type Output = End;

    fn poll(mut self: Pin<&mut Follow>, cx: &mut Context<'_>) -> Poll<End> {
        let this = &mut *self;
        let mut progress = lock(&this.flight.0);
        if let Some(end) = progress.end {
            return Poll::Ready(end);
        }
        if this.noted.as_ref().is_none_or(|noted| !noted.will_wake(cx.waker())) {
            progress.waiting.push(cx.waker().clone());
            this.noted = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * SECOND_NS)
    }

    fn ended(follow: &mut Follow) -> Option<End> {
        match pin!(follow).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_request_fetches_and_the_others_learn_of_the_end() {
        let flights = Arc::new(Flights::default());
        let Role::Leads(lead) = flights.join(b"a", at(0)) else { panic!("the first one leads") };
        let Role::Follows(mut first) = flights.join(b"a", at(0)) else { panic!("the second one follows") };
        assert!(matches!(flights.join(b"b", at(0)), Role::Leads(_)));
        assert_eq!(ended(&mut first), None);
        lead.end(End::Stored, at(1));
        assert_eq!(ended(&mut first), Some(End::Stored));
        assert!(matches!(flights.join(b"a", at(1)), Role::Leads(_)));
    }

    #[test]
    fn a_fetch_that_is_dropped_has_failed_and_another_request_leads() {
        let flights = Arc::new(Flights::default());
        let Role::Leads(lead) = flights.join(b"a", at(0)) else { panic!("the first one leads") };
        let Role::Follows(mut follow) = flights.join(b"a", at(0)) else { panic!("the second one follows") };
        drop(lead);
        assert_eq!(ended(&mut follow), Some(End::Failed));
        assert!(matches!(flights.join(b"a", at(0)), Role::Leads(_)));
    }

    #[test]
    fn a_request_that_is_to_blame_itself_keeps_later_ones_waiting_for_each_other() {
        let flights = Arc::new(Flights::default());
        let Role::Leads(lead) = flights.join(b"a", at(0)) else { panic!("the first one leads") };
        let Role::Follows(mut follow) = flights.join(b"a", at(0)) else { panic!("the second one follows") };
        lead.end(End::Refused, at(0));
        assert_eq!(ended(&mut follow), Some(End::Refused));
        assert!(matches!(flights.join(b"a", at(0)), Role::Leads(_)));
    }

    #[test]
    fn after_a_response_for_one_request_others_do_not_wait_for_a_while() {
        let flights = Arc::new(Flights::default());
        let Role::Leads(lead) = flights.join(b"a", at(0)) else { panic!("the first one leads") };
        lead.end(End::Apart, at(0));
        assert!(matches!(flights.join(b"a", at(9)), Role::Alone));
        assert!(matches!(flights.join(b"a", at(10)), Role::Leads(_)));
    }
}
