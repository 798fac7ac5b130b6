//! Stored responses, shared by all workers and kept across plans: the store, and the fetches under way ([`flights`]).
//! A response that is to be stored is [`filling`]; clients read its [`growing`] body meanwhile. The crate `evenkeel-cache`
//! decides which responses may be stored and which requests they serve. Each request has an [`outcome`]. Bodies have [`encodings`], too. At an upgrade the process that takes over gets the stored responses
//! ([`handover`]), and purges hold in both ([`partner`]). A [`disk`] may extend the memory. [`resource`] creates the cache
//! of the next plan and writes its metrics.

pub mod clock;
pub mod counts;
pub mod disk;
pub mod encodings;
pub mod filling;
pub mod flights;
pub mod growing;
pub mod handover;
pub mod keys;
pub mod of_late;
pub mod outcome;
pub mod partner;
pub mod reasons;
mod resource;
mod stream;

use clock::CacheClock;
use counts::AllCounts;
use encodings::Encodings;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{PurgeRecord, Scope};
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::store::{Evictions, Inserted, Matched, Object, Options, Sequence, Store};
use evenkeel_cache::stored::Stored;
use evenkeel_config::Plan;
use evenkeel_config::plan::CacheMemory;
use evenkeel_disk::{AT_ONCE_MAX, Disk, Loaded, Stage, Ticket};
use evenkeel_net::memory::pages;
use flights::Flights;
use of_late::OfLate;
use partner::{Partner, Told};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Share of the memory that bodies may take while they arrive, before they are stored.
const COMING_SHARE: u64 = 4;

/// Places of the store that each sweep visits: some milliseconds.
const PLACES: usize = 1 << 14;

/// Seconds after which a response is dropped that no rule can serve any more. Requests may accept a response that is a
/// little stale.
const OVER_S: u32 = 600;

/// A stored response with its body. Clients that get it share both.
pub type Entry = Object<Stored>;

/// Stored responses of all routes.
pub struct SharedCache {
    pub store: Store<Stored>,
    pub flights: Arc<Flights>,
    pub counts: Arc<AllCounts>,
    /// Counts of the last minutes.
    pub of_late: Arc<OfLate>,
    pub encodings: Arc<Encodings>,
    pub plan: CacheMemory,
    /// The other process of an upgrade.
    pub partner: Arc<Partner>,
    /// Second tier, if configured.
    pub disk: Option<Disk>,
    /// Clock for ages and dates, kept across plans.
    pub clock: Arc<CacheClock>,
    /// Bytes of arriving bodies that are to be stored.
    coming: AtomicU64,
    /// Number of responses that are to be stored and whose bodies are arriving.
    pub fills: AtomicU64,
    /// Number of fetches whose clients have left.
    pub unattended: AtomicU64,
    /// Number of validations behind stale responses that were served.
    pub validations: AtomicU64,
    /// Number of fetches of whole responses behind requests for a part.
    pub wholes: AtomicU64,
}

/// A purge that holds here, with the results that are still pending.
#[derive(Debug)]
pub struct Ordered {
    /// Responses that a purge of a URL has matched.
    pub matched: Matched,
    /// Point of any other purge in the order of purges.
    pub sequence: Option<Sequence>,
    /// Ends when a crash can no longer undo the purge on the disk.
    pub written: Option<Arc<Ticket>>,
    /// Confirmation of the other process of an upgrade.
    pub told: Option<Told>,
}

/// Room for an arriving body, given back when this is dropped.
pub struct Room {
    shared: Arc<SharedCache>,
    bytes: u64,
}

impl SharedCache {
    /// Creates a cache with nothing in memory, which takes it as it fills.
    pub fn new(plan: CacheMemory, disk: Option<Disk>, clock: Arc<CacheClock>) -> SharedCache {
        let options = Options {
            capacity: plan.memory,
            object_max: plan.object_max,
            variants_max: plan.variants_max,
            ..Options::default()
        };
        let evictions = disk.clone().map(|disk| Box::new(disk) as Box<dyn Evictions<Stored>>);
        SharedCache {
            store: Store::with_evictions(&options, evictions),
            flights: Arc::default(),
            counts: Arc::default(),
            of_late: Arc::default(),
            encodings: Arc::default(),
            plan,
            partner: Arc::default(),
            disk,
            coming: AtomicU64::new(0),
            fills: AtomicU64::new(0),
            unattended: AtomicU64::new(0),
            validations: AtomicU64::new(0),
            wholes: AtomicU64::new(0),
            clock,
        }
    }

    /// Keeps the cache for the next plan, unless its size or its disk has changed.
    fn followed_by(self: &Arc<SharedCache>, plan: &Plan) -> Arc<SharedCache> {
        let wanted = disk::options(plan);
        let has_same_disk = self.disk.as_ref().map(Disk::options) == wanted.as_ref();
        if has_same_disk {
            // A disk that was full may have room by now.
            self.disk.iter().filter(|disk| matches!(disk.stage(), Stage::Off(_))).for_each(Disk::retry);
        }
        if has_same_disk && self.plan == plan.cache {
            return self.clone();
        }
        let disk = if has_same_disk {
            self.disk.clone()
        } else {
            // If the folder is the same, the next disk gets it once this disk has released it.
            self.let_go();
            wanted.map(|wanted| disk::open(wanted, &self.clock))
        };
        let (counts, of_late) = (self.counts.clone(), self.of_late.clone());
        let (partner, encodings) = (self.partner.clone(), self.encodings.clone());
        SharedCache {
            counts,
            of_late,
            partner,
            encodings,
            ..SharedCache::new(plan.cache.clone(), disk, self.clock.clone())
        }
        .into()
    }

    /// Number of fetches behind requests.
    pub fn behind(&self) -> u64 {
        self.validations.load(Ordering::Relaxed) + self.wholes.load(Ordering::Relaxed)
    }

    /// Purges here, and reports the purge to the other process of an upgrade. Matches of a purge other than of a URL
    /// are counted later, by its point in the order of purges.
    pub fn purge(&self, purge: &PurgeRecord) -> Ordered {
        Ordered { told: self.partner.tell(purge), ..self.purge_here(purge) }
    }

    /// Purges in this process only.
    pub fn purge_here(&self, purge: &PurgeRecord) -> Ordered {
        // The disk first, so that nothing comes back from there behind the purge; and again, for responses that were
        // evicted to it meanwhile.
        let hidden = self.disk.as_ref().map(|disk| (disk, disk.hide(purge)));
        let (matched, sequence) = match &purge.scope {
            Scope::Url(url) => (self.store.purge_url(url, purge.fate, purge.at), None),
            Scope::Log(target) => (Matched::default(), Some(self.store.purge(target.clone(), purge.fate, purge.at))),
        };
        let written = hidden.map(|(disk, hidden)| disk.purge(purge, hidden));
        Ordered { matched, sequence, written, told: None }
    }

    /// Lets another process or plan have the disk, and uses it no more.
    pub fn let_go(&self) {
        self.disk.iter().for_each(Disk::close);
    }

    /// Stores responses from the disk in memory. Responses in memory are newer.
    pub fn promote(&self, key: &Key, loaded: &Loaded, now: Moment) {
        for restored in loaded.responses.iter() {
            let object = &restored.object;
            let varying = object.head().varying();
            let is_same = |other: &Stored| other.varying() == varying;
            let inserted = self.store.restore(key.into(), restored.clone(), loaded.began, now, is_same);
            if inserted == Inserted::Added {
                self.give_pages(key, object);
            }
        }
    }

    /// Moves a body that a worker has read from the disk, and that memory keeps, into separate pages if it is large.
    fn give_pages(&self, key: &Key, object: &Arc<Entry>) {
        let body = object.body();
        if (pages::PAGES_MIN..=AT_ONCE_MAX as usize).contains(&body.len()) && !pages::are_own(body) {
            let copy = Entry::new(object.head().clone(), pages::joined(&[body]));
            self.store.exchange(key.into(), object, copy.into());
        }
    }

    /// Drops everything, and stores nothing from now on.
    pub fn retire(&self) {
        self.store.close(self.clock.now());
    }

    /// Frees memory in a short step: purged responses, and responses that were of no use for a while. Called once a
    /// second, it visits a million responses in a minute.
    pub fn sweep(&self) {
        let now = self.clock.now();
        self.store.sweep(PLACES);
        self.store.drop_over(PLACES, |stored| stored.is_over(OVER_S, now));
    }

    /// Stores a response under a key, and replaces the response for the same requests. `began`: point in the order of
    /// purges at which its request was sent. Returns the reason if the store refuses it.
    pub fn put(&self, key: &Key, entry: Arc<Entry>, began: Sequence, now: Moment) -> Option<Refusal> {
        let (store, object) = (&self.store, entry.clone());
        let varying = entry.head().varying();
        self.disk.iter().for_each(|disk| disk.forget(key.into(), varying));
        match store.insert(key.into(), object, began, now, |other| other.varying() == varying) {
            Inserted::Refused(refusal) => Some(refusal.into()),
            Inserted::Added | Inserted::Replaced => None,
        }
    }

    /// Reason why a response with a body of this length cannot be stored, as far as it is known before the body
    /// arrives.
    pub fn refusal(&self, key: &Key, stored: &Stored, length: u64, began: Sequence) -> Option<Refusal> {
        let has_room = || self.coming.load(Ordering::Relaxed).saturating_add(length) <= self.plan.memory / COMING_SHARE;
        let refused = self.store.refusal(key.into(), stored, length, began).map(Refusal::from);
        refused.or_else(|| (!has_room()).then_some(Refusal::NoRoom))
    }

    /// Room for a body before its first byte.
    pub fn room(self: &Arc<SharedCache>) -> Room {
        Room { shared: self.clone(), bytes: 0 }
    }
}

impl Room {
    /// Takes room for more bytes.
    ///
    /// # Errors
    /// There is no room: the body is too large, or too many arrive at once.
    pub fn take(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.bytes += bytes;
        let coming = self.shared.coming.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match self.bytes <= self.shared.plan.object_max {
            false => Err(Refusal::BodyTooLarge),
            true if coming > self.shared.plan.memory / COMING_SHARE => Err(Refusal::NoRoom),
            true => Ok(()),
        }
    }

    /// Changes the room to this many bytes, which may be more than there is.
    pub fn hold(&mut self, bytes: u64) {
        // Wraps if it is less.
        self.shared.coming.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
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
