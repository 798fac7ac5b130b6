//! Fetches of responses that are under way, so that requests for the same response share a fetch (request collapsing).
//! Shared by all workers. Requests wait until the head of the response has arrived, and then read its body as it grows.
//! Requests whose values differ in a field of the last known `Vary` of their key have separate fetches.
//!
//! After a response that was not stored, requests for the same response do not wait for each other for a while: each of
//! them would get a separate response in the end, and would only get it later.

#![expect(
    clippy::disallowed_types,
    reason = "held for a look at one map entry, and only by requests that no stored response answers"
)]

use super::growing::Growing;
use evenkeel_balance::Instant;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_cache::key::Key;
use evenkeel_cache::refusal::Refusal;
use evenkeel_wire::head::{Fields, Table};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

const SHARDS: usize = 64;

/// Time for which requests are kept apart after a response that was not stored, unless a response arrives before that may
/// be stored.
const APART_NS: u64 = 10 * SECOND_NS;

/// Most names of a shard that are remembered as apart, and most keys with their `Vary`. An attacker's make room for
/// others' by being forgotten.
const KNOWN_MAX: usize = 1024;

/// Fetches that are under way, by the key of their response.
pub struct Flights {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// Flights by key, followed by the values that the last known `Vary` of the key names.
    under_way: HashMap<Box<[u8]>, Arc<Flight>>,
    /// Hashes of the names of flights whose last response was not stored, and the time until which that counts.
    apart: HashMap<u64, Instant>,
    /// Last known `Vary` fields of keys, by their hashes.
    varies: HashMap<u64, Table>,
}

/// Fetch for all requests that may have its response, from its request to the end of the body.
struct Flight {
    /// Hash of its key, which determines its shard.
    hash: u64,
    progress: Mutex<Progress>,
}

struct Progress {
    /// Name of the flight in its shard.
    name: Box<[u8]>,
    stage: Stage,
    /// Requests that wait, oldest first: their numbers, and their wakers once they were polled.
    waiting: VecDeque<(u64, Option<Waker>)>,
    came: u64,
}

enum Stage {
    /// The head of the response has not arrived.
    Asked,
    /// The body of the response is arriving.
    Grows(Arc<Growing>),
    /// The fetch has failed. The oldest request that waits leads next.
    Vacant,
    Ended(End),
}

/// End of a fetch, of which the requests that wait for it learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response is stored, so that a lookup finds it.
    Stored,
    /// The response is not stored. Requests that wait fetch responses themselves at once, and later requests do not wait
    /// for a while.
    Apart,
    /// No endpoint has responded, or with an error that a stale response replaces. Requests that wait go on at once, and
    /// later requests wait again, as an endpoint that recovers must not get all of them.
    Erred,
    /// The response did not come, was cut off, was purged before its end, or found no room. The oldest request that waits
    /// fetches it next.
    Failed,
}

impl End {
    /// End of a fetch whose response is stored, or is not for this reason.
    pub fn of(refused: Option<Refusal>) -> End {
        match refused {
            None => End::Stored,
            Some(Refusal::CutOff | Refusal::Purged | Refusal::NoRoom | Refusal::Unused) => End::Failed,
            Some(_) => End::Apart,
        }
    }
}

/// Role of a request in the fetch of its response.
pub enum Role {
    /// Fetches the response, for which others may wait.
    Leads(Lead),
    /// Waits for the head of the response that another request fetches.
    Follows(Follow),
    /// Reads the response that another request fetches.
    Reads(Arc<Growing>),
    /// Fetches a response alone: no other request waits for it. Once a response arrives that may be stored, others read
    /// it; `None` if no response can be shared with the request.
    Alone(Option<Lead>),
}

/// Duty of the request that fetches a response. Dropped before it ends, the fetch has failed.
pub struct Lead {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    /// True if no request can wait for it.
    is_alone: bool,
    is_over: bool,
}

/// Waits for the response that another request fetches.
pub struct Follow {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    number: u64,
}

/// Role that a request has after it has waited.
pub enum Followed {
    /// The head of the response has arrived.
    Reads(Arc<Growing>),
    /// The fetch has failed, and this request leads now.
    Leads(Lead),
    /// The response is stored, or is not for others.
    Ended(End),
}

impl Default for Flights {
    fn default() -> Flights {
        Flights { hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Flights {
    /// Role of a request for the response with this key. `varying` writes the request's values of the fields in `Vary`;
    /// `None` if no response can be shared with it. A response for which `is_current` is false is fetched again.
    pub fn join(
        self: &Arc<Flights>,
        key: &Key,
        varying: impl FnOnce(&Fields<'_, '_>) -> Option<Vec<u8>>,
        now: Instant,
        is_current: impl Fn(&Growing) -> bool,
    ) -> Role {
        let hash = self.hasher.hash_one(key.bytes());
        let mut shard = self.shard(hash);
        let Some(name) = shard.name(hash, key, varying) else { return Role::Alone(None) };
        let is_alone = shard.is_apart(self.hasher.hash_one(&name), now);
        if let Some(flight) = shard.under_way.get(&name) {
            let mut progress = lock(&flight.progress);
            match &progress.stage {
                Stage::Grows(growing) if is_current(growing) => return Role::Reads(growing.clone()),
                Stage::Asked | Stage::Vacant if !is_alone => {
                    let number = progress.came;
                    progress.came += 1;
                    progress.waiting.push_back((number, None));
                    return Role::Follows(Follow { flights: self.clone(), flight: flight.clone(), number });
                }
                _ => {}
            }
        }
        let progress = Progress { name: name.clone(), stage: Stage::Asked, waiting: VecDeque::new(), came: 0 };
        let flight = Arc::new(Flight { hash, progress: progress.into() });
        let lead = Lead { flights: self.clone(), flight: flight.clone(), is_alone, is_over: false };
        if is_alone {
            return Role::Alone(Some(lead));
        }
        shard.under_way.insert(name, flight);
        Role::Leads(lead)
    }

    /// Response with this key that is arriving, if any.
    pub fn growing(&self, key: &Key, varying: impl FnOnce(&Fields<'_, '_>) -> Option<Vec<u8>>) -> Option<Arc<Growing>> {
        let hash = self.hasher.hash_one(key.bytes());
        let mut shard = self.shard(hash);
        let name = shard.name(hash, key, varying)?;
        let progress = lock(&shard.under_way.get(&name)?.progress);
        if let Stage::Grows(growing) = &progress.stage { Some(growing.clone()) } else { None }
    }

    /// True if another request fetches the response for this request now.
    pub fn is_under_way(&self, key: &Key, varying: impl FnOnce(&Fields<'_, '_>) -> Option<Vec<u8>>) -> bool {
        let hash = self.hasher.hash_one(key.bytes());
        let mut shard = self.shard(hash);
        shard.name(hash, key, varying).is_some_and(|name| shard.under_way.contains_key(&name))
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[hash as usize % SHARDS])
    }
}

impl Shard {
    /// Name of the flight for a request; `None` if no response can be shared with it.
    fn name(
        &mut self,
        hash: u64,
        key: &Key,
        varying: impl FnOnce(&Fields<'_, '_>) -> Option<Vec<u8>>,
    ) -> Option<Box<[u8]>> {
        let Some(varies) = self.varies.get_mut(&hash) else { return Some(name(key, &[])) };
        Some(name(key, &varying(&varies.fields())?))
    }

    /// True if the last response of the flights with this hash was not stored, a short time ago.
    fn is_apart(&mut self, hash: u64, now: Instant) -> bool {
        let is_apart = self.apart.get(&hash).is_some_and(|until| now < *until);
        if !is_apart {
            self.apart.remove(&hash);
        }
        is_apart
    }

    /// Takes a flight out, unless another has its name.
    fn remove(&mut self, name: &[u8], flight: &Arc<Flight>) -> bool {
        let is_this = self.under_way.get(name).is_some_and(|known| Arc::ptr_eq(known, flight));
        is_this && self.under_way.remove(name).is_some()
    }
}

impl Lead {
    /// True if no request can wait for the response.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Notes that the head of a response that may be stored has arrived: the requests that wait, and those that come
    /// later, read the body from now on. A flight of other requests that has the same name by the `Vary` of the response
    /// is left alone.
    pub fn begin(&self, key: &Key, growing: &Arc<Growing>) {
        let mut shard = self.flights.shard(self.flight.hash);
        let mut progress = lock(&self.flight.progress);
        if shard.varies.len() >= KNOWN_MAX {
            shard.varies.clear();
        }
        let (varying, head) = (growing.head.varying(), &growing.head);
        if varying.is_empty() {
            shard.varies.remove(&self.flight.hash);
        } else {
            let vary = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"vary")).collect();
            shard.varies.insert(self.flight.hash, vary);
        }
        let name = name(key, varying);
        for name in [&progress.name, &name] {
            shard.apart.remove(&self.flights.hasher.hash_one(name));
        }
        if shard.remove(&progress.name, &self.flight) || self.is_alone {
            shard.under_way.entry(name.clone()).or_insert_with(|| self.flight.clone());
            progress.name = name;
        }
        progress.stage = Stage::Grows(growing.clone());
        progress.wake_all();
    }

    /// Ends the fetch. `now` counts for a response that is not stored.
    pub fn end(mut self, end: End, now: Instant) {
        self.over(end, now);
    }

    fn over(&mut self, end: End, now: Instant) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let mut shard = self.flights.shard(self.flight.hash);
        let mut progress = lock(&self.flight.progress);
        if end == End::Apart {
            if shard.apart.len() >= KNOWN_MAX {
                shard.apart.clear();
            }
            shard.apart.insert(self.flights.hasher.hash_one(&progress.name), now.after(APART_NS));
        }
        if end == End::Failed && !progress.waiting.is_empty() {
            progress.stage = Stage::Vacant;
            progress.wake_oldest();
            return;
        }
        progress.stage = Stage::Ended(end);
        shard.remove(&progress.name, &self.flight);
        progress.wake_all();
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.over(End::Failed, Instant(0));
    }
}

impl Progress {
    fn wake_all(&mut self) {
        self.waiting.iter_mut().filter_map(|(_, waker)| waker.take()).for_each(Waker::wake);
    }

    fn wake_oldest(&mut self) {
        if let Some(waker) = self.waiting.front_mut().and_then(|(_, waker)| waker.take()) {
            waker.wake();
        }
    }

    /// Position of a request among those that wait.
    fn position(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |(number, _)| *number).ok()
    }
}

impl Future for Follow {
    type Output = Followed;

    fn poll(self: Pin<&mut Follow>, cx: &mut Context<'_>) -> Poll<Followed> {
        let mut progress = lock(&self.flight.progress);
        match &progress.stage {
            Stage::Ended(end) => return Poll::Ready(Followed::Ended(*end)),
            Stage::Grows(growing) => return Poll::Ready(Followed::Reads(growing.clone())),
            Stage::Vacant if progress.position(self.number) == Some(0) => {
                progress.stage = Stage::Asked;
                progress.waiting.pop_front();
                let (flights, flight) = (self.flights.clone(), self.flight.clone());
                let lead = Lead { flights, flight, is_alone: false, is_over: false };
                return Poll::Ready(Followed::Leads(lead));
            }
            Stage::Asked | Stage::Vacant => {}
        }
        let Some(at) = progress.position(self.number) else { return Poll::Ready(Followed::Ended(End::Erred)) };
        let (_, waker) = &mut progress.waiting[at];
        if waker.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let mut shard = self.flights.shard(self.flight.hash);
        let mut progress = lock(&self.flight.progress);
        let Some(at) = progress.position(self.number) else { return };
        progress.waiting.remove(at);
        if let Stage::Vacant = progress.stage {
            if progress.waiting.is_empty() {
                progress.stage = Stage::Ended(End::Failed);
                shard.remove(&progress.name, &self.flight);
            } else if at == 0 {
                progress.wake_oldest();
            }
        }
    }
}

/// Name of the flight for requests with these values of the fields in `Vary`.
fn name(key: &Key, varying: &[u8]) -> Box<[u8]> {
    [&(key.bytes().len() as u64).to_le_bytes(), key.bytes(), varying].concat().into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "flights_tests.rs"]
mod tests;
