//! Stored responses, shared by all workers and kept across plans: the store, and the fetches under way ([`flights`]).
//! The crate `evenkeel-cache` decides what may be stored and which requests it serves. A request has a [`state`] at the cache,
//! with a copy of its head ([`asked`]); a response whose body is still to come is a [`filling`]. At an upgrade the process that
//! takes over gets the stored responses ([`handover`]), and purges hold in both ([`partner`]).

pub mod asked;
pub mod counts;
pub mod filling;
pub mod flights;
pub mod handover;
pub mod keys;
pub mod partner;
pub mod state;
mod stream;

use counts::AllCounts;
use evenkeel_balance::Instant;
use evenkeel_balance::time::MILLISECOND_NS;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{PurgeRecord, Scope};
use evenkeel_cache::store::{Inserted, Matched, Object, Options, Sequence, Store};
use evenkeel_cache::stored::Stored;
use evenkeel_config::plan::CacheMemory;
use evenkeel_view::words::unix_ms;
use flights::Flights;
use partner::{Partner, Told};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Share of the memory that bodies may take while they come, before they are stored.
const COMING_SHARE: u64 = 4;

/// A stored response with its body. Clients that get it share both.
pub type Entry = Object<Stored>;

/// Stored responses of all routes.
pub struct SharedCache {
    pub store: Store<Stored>,
    pub flights: Arc<Flights>,
    pub counts: Arc<AllCounts>,
    pub plan: CacheMemory,
    /// The other process of an upgrade.
    pub partner: Arc<Partner>,
    /// Milliseconds from the origin of the workers' clocks back to 1970. It grows when the wall clock is set forward.
    origin_ms: AtomicI64,
    /// Bytes of bodies that are to be stored and have come so far.
    coming: AtomicU64,
    /// Number of stored responses that are being validated behind requests.
    pub behind: AtomicU64,
}

/// A purge that holds.
#[derive(Debug)]
pub struct Ordered {
    /// Responses that a purge of a URL was meant for.
    pub matched: Matched,
    /// Point in the order of purges of another one.
    pub sequence: Option<Sequence>,
    /// The other process of an upgrade, which was told of it.
    pub told: Option<Told>,
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
            plan,
            partner: Arc::default(),
            coming: AtomicU64::new(0),
            behind: AtomicU64::new(0),
            origin_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// Cache of the next plan: the same, unless its size has changed.
    pub fn next(self: &Arc<SharedCache>, plan: CacheMemory) -> Arc<SharedCache> {
        match plan == self.plan {
            true => self.clone(),
            false => {
                let (counts, partner) = (self.counts.clone(), self.partner.clone());
                SharedCache { counts, partner, ..SharedCache::new(plan) }.into()
            }
        }
    }

    /// The present time, for lifetimes and ages. `now` is on the workers' clock.
    pub fn moment(&self, now: Instant) -> Moment {
        Moment(self.unix_ms(now, unix_ms(SystemTime::now())))
    }

    /// Sets the clock forward, so that `now` is not before a moment that another process has seen.
    pub fn not_before(&self, now: Instant, at: Moment) {
        let since = (now.0 / MILLISECOND_NS) as i64;
        self.origin_ms.fetch_max(i64::try_from(at.0).map_or(i64::MIN, |at| at - since), Ordering::Relaxed);
    }

    /// Purges here, and tells the other process of an upgrade. What was meant by a purge other than of a URL is counted later,
    /// by its point in the order of purges.
    pub fn purge(&self, purge: &PurgeRecord) -> Ordered {
        let (matched, sequence) = self.purge_here(purge);
        Ordered { matched, sequence, told: self.partner.tell(purge) }
    }

    /// Purges here alone.
    pub fn purge_here(&self, purge: &PurgeRecord) -> (Matched, Option<Sequence>) {
        match &purge.scope {
            Scope::Url(url) => (self.store.purge_url(url, purge.fate, purge.at), None),
            Scope::Log(target) => (Matched::default(), Some(self.store.purge(target.clone(), purge.fate, purge.at))),
        }
    }

    /// Drops everything, and stores nothing from now on.
    pub fn retire(&self, now: Instant) {
        self.store.close(self.moment(now));
    }

    /// Lets time pass for what is stored, without waiting.
    pub fn skip(&self, time: Duration) {
        self.origin_ms.fetch_add(time.as_millis() as i64, Ordering::Relaxed);
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
    /// its request was sent.
    pub fn put(&self, key: &Key, entry: Arc<Entry>, began: Sequence, now: Moment) -> Inserted {
        let (store, object) = (&self.store, entry.clone());
        let varying = entry.head().varying();
        store.insert(key.into(), object, began, now, |other| other.varying() == varying)
    }

    /// Room for a body of which nothing has come.
    pub fn room(self: &Arc<SharedCache>) -> Room {
        Room { shared: self.clone(), bytes: 0 }
    }
}

impl Room {
    /// Takes room for more bytes. Returns false if there is none: the body is too large, or too many come at once.
    pub fn take(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        let coming = self.shared.coming.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bytes <= self.shared.plan.object_max && coming <= self.shared.plan.memory / COMING_SHARE
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
