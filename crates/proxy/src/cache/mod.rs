//! Stored responses, shared by all workers and kept across plans: the store, and the fetches under way ([`flights`]).
//! The crate `evenkeel-cache` decides what may be stored and which requests it serves. A request has a [`state`] at the cache,
//! with a copy of its head ([`asked`]); a response whose body is still to come is a [`filling`]. Bodies have [`encodings`],
//! too.

pub mod asked;
pub mod counts;
pub mod encodings;
pub mod filling;
pub mod flights;
pub mod keys;
pub mod state;

use counts::AllCounts;
use encodings::Encodings;
use evenkeel_balance::Instant;
use evenkeel_balance::time::MILLISECOND_NS;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::store::{Inserted, Object, Options, Sequence, Store};
use evenkeel_cache::stored::Stored;
use evenkeel_config::plan::CacheMemory;
use flights::Flights;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Share of the memory that bodies may take while they come, before they are stored.
const COMING_SHARE: u64 = 4;

/// Places of the store that one sweep looks at: some milliseconds.
const PLACES: usize = 1 << 14;

/// Seconds after which a response is dropped that nothing serves any more. Requests may accept one that is a little stale.
const OVER_S: u32 = 600;

/// A stored response with its body. Clients that get it share both.
pub type Entry = Object<Stored>;

/// Stored responses of all routes.
pub struct SharedCache {
    pub store: Store<Stored>,
    pub flights: Arc<Flights>,
    pub counts: Arc<AllCounts>,
    pub encodings: Arc<Encodings>,
    pub plan: CacheMemory,
    /// Milliseconds from the origin of the workers' clocks back to 1970. It grows when the wall clock is set forward.
    origin_ms: AtomicI64,
    /// Bytes of bodies that are to be stored and have come so far.
    coming: AtomicU64,
    /// Number of fetches behind requests: validations, and those of whole responses.
    pub behind: AtomicU64,
    /// Number of those of whole responses, behind requests for a part.
    pub behind_parts: AtomicU64,
}

/// Room for a body that comes, given back when this is dropped.
pub struct Room {
    shared: Arc<SharedCache>,
    bytes: u64,
}

impl SharedCache {
    /// Creates an empty cache, which takes memory as it fills.
    pub fn new(plan: CacheMemory) -> SharedCache {
        SharedCache {
            store: Store::new(&Options {
                capacity: plan.memory,
                object_max: plan.object_max,
                variants_max: plan.variants_max,
                ..Options::default()
            }),
            flights: Arc::default(),
            counts: Arc::default(),
            encodings: Arc::default(),
            plan,
            coming: AtomicU64::new(0),
            behind: AtomicU64::new(0),
            behind_parts: AtomicU64::new(0),
            origin_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// Cache of the next plan: the same, unless its size has changed.
    pub fn next(self: &Arc<SharedCache>, plan: CacheMemory) -> Arc<SharedCache> {
        match plan == self.plan {
            true => self.clone(),
            false => {
                let (counts, encodings) = (self.counts.clone(), self.encodings.clone());
                SharedCache { counts, encodings, ..SharedCache::new(plan) }.into()
            }
        }
    }

    /// Lets time pass for what is stored, without waiting.
    pub fn skip(&self, time: Duration) {
        self.origin_ms.fetch_add(time.as_millis() as i64, Ordering::Relaxed);
    }

    /// Frees memory in a short step: of what purges were meant for, and of what has been of no use for a while. Called once a
    /// second, it comes to a million responses in a minute.
    pub fn sweep(&self, now: Moment) {
        self.store.sweep(PLACES);
        self.store.drop_over(PLACES, |stored| stored.is_over(OVER_S, now));
    }

    /// Milliseconds since 1970 at `now`, when the wall clock shows `wall_ms`. Never less than before: a step back of the wall
    /// clock would make stored responses fresh again.
    pub fn unix_ms(&self, now: Instant, wall_ms: u64) -> u64 {
        let since = (now.0 / MILLISECOND_NS) as i64;
        let by_wall = wall_ms as i64 - since;
        let mut origin = self.origin_ms.load(Ordering::Relaxed);
        if by_wall > origin {
            origin = self.origin_ms.fetch_max(by_wall, Ordering::Relaxed).max(by_wall);
        }
        (origin + since).max(0) as u64
    }

    /// Stores a response under a key, instead of the one for the same requests. `began`: point in the order of purges at which
    /// its request was sent. Returns the reason if the store refuses it.
    pub fn put(&self, key: &Key, entry: Arc<Entry>, began: Sequence, now: Moment) -> Option<Refusal> {
        let (store, object) = (&self.store, entry.clone());
        let varying = entry.head().varying();
        match store.insert(key.into(), object, began, now, |other| other.varying() == varying) {
            Inserted::Refused(refusal) => Some(refusal.into()),
            Inserted::Added | Inserted::Replaced => None,
        }
    }

    /// Reason why a response cannot be stored once its body of this length has come, as far as that is known now.
    pub fn refusal(&self, key: &Key, stored: &Stored, length: u64, began: Sequence) -> Option<Refusal> {
        let has_room = || self.coming.load(Ordering::Relaxed).saturating_add(length) <= self.plan.memory / COMING_SHARE;
        let refused = self.store.refusal(key.into(), stored, length, began).map(Refusal::from);
        refused.or_else(|| (!has_room()).then_some(Refusal::NoRoom))
    }

    /// Room for a body of which nothing has come.
    pub fn room(self: &Arc<SharedCache>) -> Room {
        Room { shared: self.clone(), bytes: 0 }
    }
}

impl Room {
    /// Takes room for more bytes.
    ///
    /// # Errors
    /// There is none: the body is too large, or too many come at once.
    pub fn take(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.bytes += bytes;
        let coming = self.shared.coming.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match self.bytes <= self.shared.plan.object_max {
            false => Err(Refusal::BodyTooLarge),
            true if coming > self.shared.plan.memory / COMING_SHARE => Err(Refusal::NoRoom),
            true => Ok(()),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shared.coming.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache").field("plan", &self.plan).finish_non_exhaustive()
    }
}
