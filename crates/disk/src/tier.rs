//! The tier as requests, evictions and purges see it. After a failure of the disk it restarts with an empty file, as
//! soon as the disk takes a file again.

use crate::clock::Clock;
use crate::counts::{Counters, Counts};
use crate::failure::Failure;
use crate::file::{Opened, Ring};
use crate::layout::{Admit, Layout, Options};
use crate::queue::{Ordered, Ticket, Work};
use crate::reads::{Loaded, Read, Reads};
use crate::response::MakeBody;
use crate::scan::Scan;
use crate::shared::{Shared, Stage};
use crate::writer::Writer;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{Dropped, PurgeRecord, Scope};
use evenkeel_cache::store::{Cursor, Evictions, Fate, Item, KeyRef, Sequence, Store, Target};
use evenkeel_cache::stored::Stored;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two tries to get a file that another process has.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Places of the memory that [`Disk::save`] visits in each step.
const STEP: usize = 64;

/// Time between two tries to use a disk that has failed.
pub const RETRY_EVERY: Duration = Duration::from_secs(30);

/// Pause until a purge is over that keeps the tier from being replaced.
const REPLACE_EVERY: Duration = Duration::from_millis(5);

/// Stored responses on disk. All clones share the same tier.
#[derive(Clone, Debug)]
pub struct Disk {
    tiers: Arc<Tiers>,
    options: Arc<Options>,
}

/// The current tier, and the state that outlives it.
#[derive(Debug)]
struct Tiers {
    current: RwLock<Arc<Tier>>,
    /// Purges that have begun: they end at the tier at which they began.
    purging: AtomicUsize,
    orders: Mutex<Orders>,
    ordered: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    /// True once the tier is closed for good.
    closes: bool,
    /// True if a disk that has failed is to be tried at once.
    retries: bool,
}

/// State of the tier from one failure to the next.
#[derive(Debug)]
struct Tier {
    shared: Arc<Shared>,
    reads: Arc<Reads>,
}

/// A purge that applies to all lookups but is not written yet.
#[derive(Debug)]
pub struct Hidden {
    number: Option<u64>,
    tier: Arc<Tier>,
    tiers: Arc<Tiers>,
}

impl Drop for Hidden {
    fn drop(&mut self) {
        self.tiers.purging.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tier {
    fn new(options: &Options, make: MakeBody, counts: Arc<Counters>, point: u64) -> Arc<Tier> {
        let shared = Shared::new(Layout::of(options).entries_max(), options.queue_max, counts, point);
        let reads = Reads::new(shared.clone(), make);
        Arc::new(Tier { shared, reads })
    }
}

impl Tiers {
    fn current(&self) -> Arc<Tier> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the tier between two purges. Returns false if it is closed for good.
    fn replace(&self, next: &Arc<Tier>) -> bool {
        loop {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            if self.orders.lock().unwrap_or_else(PoisonError::into_inner).closes {
                return false;
            }
            if self.purging.load(Ordering::SeqCst) == 0 {
                *current = next.clone();
                return true;
            }
            drop(current);
            thread::sleep(REPLACE_EVERY);
        }
    }

    fn order(&self, order: impl FnOnce(&mut Orders)) {
        order(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.ordered.notify_all();
    }

    /// Waits until a disk that has failed is to be tried again. Returns false if the tier is closed for good.
    fn wait_for_retry(&self) -> bool {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |orders: &mut Orders| !orders.closes && !orders.retries;
        let waited = self.ordered.wait_timeout_while(orders, RETRY_EVERY, waits);
        let mut orders = waited.unwrap_or_else(PoisonError::into_inner).0;
        orders.retries = false;
        !orders.closes
    }
}

impl Disk {
    /// Opens the tier on a separate thread: responses can be found once the file is locked and searched. `make` makes
    /// the bodies of responses.
    pub fn open(options: Options, clock: Clock, make: MakeBody) -> Disk {
        let tier = Tier::new(&options, make, Arc::default(), 0);
        let (orders, ordered) = (Mutex::default(), Condvar::new());
        let tiers = Tiers { current: RwLock::new(tier.clone()), purging: AtomicUsize::new(0), orders, ordered };
        let (tiers, options) = (Arc::new(tiers), Arc::new(options));
        let disk = Disk { tiers: tiers.clone(), options: options.clone() };
        let run = move || run(&tiers, &options, &Arc::new(clock), make);
        if let Err(error) = thread::Builder::new().name("cache-write".into()).spawn(run) {
            tier.shared.fail(&Failure::of("start a thread for", &disk.options.path, &error));
        }
        disk
    }

    /// Tries a disk that has failed again at once.
    pub fn retry(&self) {
        self.tiers.order(|orders| orders.retries = true);
    }

    fn tier(&self) -> Arc<Tier> {
        self.tiers.current()
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn stage(&self) -> Stage {
        self.tier().shared.stage()
    }

    /// Waits until the file is searched, or cannot be used. Not for a thread that serves requests.
    pub fn is_settled(&self, longest: Duration) -> bool {
        self.tier().shared.wait_for(longest, |stage| !matches!(stage, Stage::Waiting | Stage::Searching))
    }

    /// True if nothing waits to be written.
    pub fn is_written(&self) -> bool {
        self.tier().shared.queue.is_empty()
    }

    pub fn counts(&self) -> Counts {
        let tier = self.tier();
        let counts = &tier.shared.counts;
        let (objects, bytes) = tier.shared.index.size();
        Counts {
            bytes,
            objects,
            reads: counts.reads.get(),
            hits: counts.hits.get(),
            writes: counts.writes.get(),
            written_bytes: counts.written_bytes.get(),
            rewrites: counts.rewrites.get(),
            dropped: counts.dropped.get(),
            reads_dropped: counts.reads_dropped.get(),
            errors: counts.errors.get(),
        }
    }

    /// Begins to read a key, if it may be on disk. `began`: point in the order of purges of the memory, taken before
    /// this call.
    pub fn read(&self, key: KeyRef<'_>, began: Sequence) -> Option<Read> {
        if self.has(key) { self.tier().reads.begin(key, began) } else { None }
    }

    /// Reads a key without waiting for the disk. `None` if [`Disk::read`] has to. `began`: as there.
    pub fn read_at_once(&self, key: KeyRef<'_>, began: Sequence) -> Option<Loaded> {
        self.tier().reads.at_once(key, began)
    }

    /// True if a key may be on disk.
    pub fn has(&self, key: KeyRef<'_>) -> bool {
        let tier = self.tier();
        let shared = &tier.shared;
        shared.is_open.load(Ordering::SeqCst) && {
            let id = shared.index.id(&key, b"");
            shared.index.has_key(id.url, id.rest)
        }
    }

    /// Writes a response, unless it is on disk. `point`: [`Evictions::point`] before it left the memory.
    pub fn offer(&self, item: Item<Stored>, point: u64) {
        let tier = self.tier();
        let shared = &tier.shared;
        let id = shared.index.id(&item.key(), item.object.head().varying());
        let Some(turn) = shared.index.shard(id.url).wait(&id) else { return };
        if !shared.queue.push(item, turn, point) {
            shared.index.shard(id.url).give_up(&id, turn);
            shared.counts.dropped.add(1);
        }
    }

    /// Drops a response that was stored in memory anew, or that its endpoint has invalidated.
    pub fn forget(&self, key: KeyRef<'_>, varying: &[u8]) {
        let tier = self.tier();
        let shared = &tier.shared;
        let id = shared.index.id(&key, varying);
        // Loaded before the index changes: a response that the search finds meanwhile is not added, but stays in the
        // file.
        let is_open = shared.is_open.load(Ordering::SeqCst);
        let was_there = shared.index.shard(id.url).forget(&id);
        if was_there || !is_open || shared.has_left_out.load(Ordering::SeqCst) {
            let dropped = Dropped { key: key.bytes().into(), url_len: key.url().len(), varying: varying.into() };
            if shared.queue.order(Work::Dropped(dropped)) == Ordered::Full {
                tier.overflowed(None);
            }
        }
    }

    /// Hides the responses that a purge covers. To be called before the memory is purged, so that nothing comes back
    /// from the disk meanwhile; [`Disk::purge`] follows.
    pub fn hide(&self, purge: &PurgeRecord) -> Hidden {
        let tier = {
            let current = self.tiers.current.read().unwrap_or_else(PoisonError::into_inner);
            self.tiers.purging.fetch_add(1, Ordering::SeqCst);
            current.clone()
        };
        let mut hidden = Hidden { number: None, tier, tiers: self.tiers.clone() };
        let tier = &hidden.tier;
        tier.purge_index(purge);
        let number = if is_in_index(purge) { None } else { tier.shared.purges.add(purge) };
        if number.is_none() && !is_in_index(purge) {
            tier.overflowed(None);
        }
        hidden.number = number;
        hidden
    }

    /// Purges for good, including responses evicted from memory since [`Disk::hide`]. The ticket ends when a crash can
    /// no longer undo the purge.
    pub fn purge(&self, purge: &PurgeRecord, hidden: Hidden) -> Arc<Ticket> {
        let tier = &hidden.tier;
        tier.purge_index(purge);
        let ticket = Arc::<Ticket>::default();
        let ordered = tier.shared.queue.order(Work::Purge(purge.clone(), hidden.number, Some(ticket.clone())));
        let has_ended = match ordered {
            Ordered::Taken => false,
            Ordered::Full => !tier.overflowed(Some(ticket.clone())),
            Ordered::Ended => true,
        };
        if has_ended {
            ticket.end(match tier.shared.stage() {
                Stage::Off(failure) => tier.shared.erased(&failure),
                // This process has released the file. Purges of it are up to its new owner.
                _ => Ok(()),
            });
        }
        ticket
    }

    /// Writes the responses of the memory, until a time.
    pub fn save(&self, store: &Store<Stored>, until: Instant) {
        let mut at = Some(Cursor::default()).filter(|_| !self.tier().shared.queue.is_closed());
        while let Some(from) = at {
            let point = self.tier().shared.queue.point();
            let (items, next) = store.walk(from, STEP);
            for item in items {
                if !self.tier().shared.queue.wait_for_room(until) {
                    return tracing::warn!("the cache is not completely written to disk: time limit reached");
                }
                self.offer(item, point);
            }
            at = next;
        }
    }

    /// Writes the waiting work, and releases the file. Does not wait.
    pub fn close(&self) {
        // First: from now on the tier is not replaced.
        self.tiers.order(|orders| orders.closes = true);
        let tier = self.tier();
        tier.shared.queue.close();
        tier.reads.end();
    }

    /// Waits until the file is released. Not for a thread that serves requests.
    pub fn is_closed(&self, longest: Duration) -> bool {
        self.tier().shared.wait_for(longest, |stage| matches!(stage, Stage::Closed | Stage::Off(_)))
    }
}

impl Tier {
    /// True if a response that leaves the memory is worth its place: it costs no other response its place, or its key was
    /// requested before. The memory has seen that, or the key has left it before, within a time as long as the disk's.
    fn admits(&self, item: &Item<Stored>) -> bool {
        let id = self.shared.index.id(&item.key(), b"");
        let is_known = self.shared.index.shard(id.url).is_known(&id);
        is_known || item.hits > 0 || !self.shared.is_full.load(Ordering::Relaxed)
    }

    fn purge_index(&self, purge: &PurgeRecord) {
        match &purge.scope {
            Scope::Url(url) if is_in_index(purge) => {
                let url = self.shared.index.url(url);
                self.shared.index.shard(url).purge_url(url);
            }
            _ if is_in_index(purge) => self.shared.index.each(|shard| shard.clear()),
            _ => {}
        }
    }

    /// Purges everything, where a bound is exceeded. Returns false if nothing is written any more.
    fn overflowed(&self, ticket: Option<Arc<Ticket>>) -> bool {
        self.shared.index.each(|shard| shard.clear());
        let is_ordered = self.shared.queue.purge_all(PurgeRecord::all(Moment(0)), ticket);
        // The queue has lost responses that began to wait between these two steps.
        self.shared.index.each(|shard| shard.clear());
        is_ordered
    }
}

/// True if a purge takes responses out of the index, so that it need not be remembered.
fn is_in_index(purge: &PurgeRecord) -> bool {
    let is_found = matches!(purge.scope, Scope::Url(_) | Scope::Log(Target::All));
    purge.fate == Fate::Removed && is_found
}

impl Evictions<Stored> for Disk {
    fn point(&self) -> u64 {
        self.tier().shared.queue.point()
    }

    fn evicted(&self, item: Item<Stored>, point: u64) {
        if self.options.admit == Admit::All || self.tier().admits(&item) {
            self.offer(item, point);
        }
    }
}

/// Opens the file, searches it and writes to it, until the tier is closed; after a failure with a new file.
fn run(tiers: &Tiers, options: &Options, clock: &Arc<Clock>, make: MakeBody) {
    let mut tier = tiers.current();
    loop {
        serve(&tier.shared, options, clock);
        let Stage::Off(failure) = tier.shared.stage() else { return };
        let Some(ring) = wait_for_disk(tiers, options, clock, failure) else { return };
        // A higher point, so that responses meant for the previous tier are refused.
        let next = Tier::new(options, make, tier.shared.counts.clone(), tier.shared.queue.point() + 1);
        // The tier is new, so it has no file yet.
        let _ = next.shared.ring.set(ring);
        if !tiers.replace(&next) {
            return;
        }
        tier.reads.end();
        tracing::info!("the cache is on disk again: {}", options.path.display());
        tier = next;
    }
}

/// Waits until an empty file can be made on a disk that has failed. `None` if the tier is closed before.
fn wait_for_disk(tiers: &Tiers, options: &Options, clock: &Arc<Clock>, mut failure: Failure) -> Option<Ring> {
    while tiers.wait_for_retry() {
        let again = match Ring::open(options, clock) {
            Ok(Opened::Locked) => continue,
            // Purges may have missed its responses meanwhile.
            Ok(Opened::Ring(ring)) if !ring.segments().is_empty() => ring.renew().map(|()| ring),
            Ok(Opened::Ring(ring)) => Ok(ring),
            Err(failure) => Err(failure),
        };
        match again {
            Ok(ring) => return Some(ring),
            Err(other) if other != failure => {
                tracing::warn!("the cache is still in memory only: {other}");
                failure = other;
            }
            Err(_) => {}
        }
    }
    None
}

/// Uses the file until the tier is closed or fails.
fn serve(shared: &Arc<Shared>, options: &Options, clock: &Arc<Clock>) {
    let ring = match shared.ring.get() {
        Some(ring) => ring,
        None => match wait_for(shared, options, clock) {
            Ok(Some(ring)) => shared.ring.get_or_init(|| ring),
            Ok(None) => return shared.enter(Stage::Closed),
            Err(failure) => return shared.fail(&failure),
        },
    };
    let segments = ring.segments();
    shared.enter(Stage::Searching);
    thread::scope(|scope| {
        let at = ring.now();
        let search = thread::Builder::new().name("cache-search".into()).spawn_scoped(scope, move || {
            search(shared, ring, segments, at);
        });
        if let Err(error) = search {
            return shared.fail(&Failure::of("start a thread for", &ring.path, &error));
        }
        match Writer::new(shared, ring).run() {
            Ok(()) => shared.enter(Stage::Closed),
            Err(failure) => shared.fail(&failure),
        }
    });
    ring.unlock();
}

fn search(shared: &Shared, ring: &Ring, segments: Vec<u32>, now: Moment) {
    let began = Instant::now();
    let Shared { index, purges, .. } = shared;
    let mut scan =
        Scan { ring, index, purges, now, segments, found: 0, leaves_out: false, broken: 0, behind_broken: None };
    let searched = scan.run(|| shared.queue.is_closed());
    shared.has_left_out.store(scan.leaves_out, Ordering::SeqCst);
    shared.counts.errors.add(scan.broken);
    match searched {
        // The search was cut short: the rest of the file may hold purges.
        Ok(()) if shared.queue.is_closed() => {}
        Ok(()) => {
            let (responses, bytes) = index.size();
            tracing::info!(responses, bytes, broken = scan.broken, took = ?began.elapsed(), "scanned the cache on disk");
            shared.enter(Stage::Open);
        }
        Err(error) => shared.fail(&Failure::of("read", &ring.path, &error)),
    }
}

/// Opens the file as soon as no other process has it. `None` if the tier is closed before.
fn wait_for(shared: &Shared, options: &Options, clock: &Arc<Clock>) -> Result<Option<Ring>, Failure> {
    let mut tries = 0_u32;
    loop {
        if let Opened::Ring(ring) = Ring::open(options, clock)? {
            return Ok(Some(ring));
        }
        tries += 1;
        // At an upgrade it takes a moment.
        if tries == 100 {
            let path = options.path.display();
            tracing::warn!(
                "another process uses {path}: the cache is in memory only until that process ends; give each process its own folder"
            );
        }
        if shared.queue.wait_for_close(TRY_EVERY) {
            return Ok(None);
        }
    }
}
