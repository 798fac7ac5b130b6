//! The tier as requests, evictions and purges see it.

use crate::counts::Counts;
use crate::failure::Failure;
use crate::file::{Opened, Ring};
use crate::layout::{Layout, Options};
use crate::queue::{Ordered, Ticket, Work};
use crate::reads::{Read, Reads};
use crate::scan::Scan;
use crate::shared::{Shared, Stage};
use crate::writer::Writer;
use bytes::Bytes;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{Dropped, PurgeRecord, Scope};
use evenkeel_cache::store::{Cursor, Evictions, Fate, Item, KeyRef, Sequence, Store, Target};
use evenkeel_cache::stored::Stored;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two tries to get a file that another process has.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Places of the memory that are looked at in one step when it is saved.
const STEP: usize = 64;

/// Stored responses on disk. Its clones are the same.
#[derive(Clone, Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    reads: Arc<Reads>,
    options: Arc<Options>,
}

/// A purge that no lookup passes any more, and that is not written yet.
#[derive(Debug)]
pub struct Hidden {
    number: Option<u64>,
}

impl Disk {
    /// Opens the tier, on a thread of its own: it is there once the file is locked and searched. `now` is asked for the present
    /// moment, and `share` makes the body of a response from what was read.
    pub fn open(
        options: Options,
        now: impl Fn() -> Moment + Send + Sync + 'static,
        share: fn(Vec<u8>) -> Bytes,
    ) -> Disk {
        let shared = Shared::new(Layout::of(&options).entries_max(), options.queue_max);
        let (reads, options) = (Reads::new(shared.clone(), share), Arc::new(options));
        let disk = Disk { shared: shared.clone(), reads, options: options.clone() };
        let run = move || run(&shared, &options, now);
        if let Err(error) = thread::Builder::new().name("cache-write".into()).spawn(run) {
            disk.shared.fail(&Failure::of("start a thread for", &disk.options.path, &error));
        }
        disk
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn stage(&self) -> Stage {
        self.shared.stage()
    }

    /// Waits until the file is searched, or cannot be used. Not for a thread that serves requests.
    pub fn is_settled(&self, longest: Duration) -> bool {
        self.shared.wait_for(longest, |stage| !matches!(stage, Stage::Waiting | Stage::Searching))
    }

    /// True if nothing waits to be written.
    pub fn is_written(&self) -> bool {
        self.shared.queue.is_empty()
    }

    pub fn counts(&self) -> Counts {
        let counts = &self.shared.counts;
        let (objects, bytes) = self.shared.index.size();
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

    /// Begins to read a key, if it may be on disk. `began`: point in the order of purges of the memory, taken before this.
    pub fn read(&self, key: KeyRef<'_>, began: Sequence) -> Option<Read> {
        if self.has(key) { self.reads.begin(key, began) } else { None }
    }

    /// True if a key may be on disk.
    pub fn has(&self, key: KeyRef<'_>) -> bool {
        self.shared.is_open.load(Ordering::SeqCst) && {
            let id = self.shared.index.id(&key, b"");
            self.shared.index.has_key(id.url, id.rest)
        }
    }

    /// Writes a response, unless it is on disk. `point`: [`Evictions::point`] before it left the memory.
    pub fn offer(&self, item: Item<Stored>, point: u64) {
        let id = self.shared.index.id(&item.key(), item.object.head().varying());
        let Some(turn) = self.shared.index.shard(id.url).wait(&id) else { return };
        if !self.shared.queue.push(item, turn, point) {
            self.shared.index.shard(id.url).give_up(&id, turn);
            self.shared.counts.dropped.add(1);
        }
    }

    /// Drops a response that is stored in memory anew, or that its endpoint has ended.
    pub fn forget(&self, key: KeyRef<'_>, varying: &[u8]) {
        let id = self.shared.index.id(&key, varying);
        // Before the index: what the search finds meanwhile is not added, and stays in the file.
        let is_open = self.shared.is_open.load(Ordering::SeqCst);
        let was_there = self.shared.index.shard(id.url).forget(&id);
        if was_there || !is_open || self.shared.has_left_out.load(Ordering::SeqCst) {
            let dropped = Dropped { key: key.bytes().into(), url_len: key.url().len(), varying: varying.into() };
            if self.shared.queue.order(Work::Dropped(dropped)) == Ordered::Full {
                self.overflowed(None);
            }
        }
    }

    /// Hides what a purge is meant for. To be called before the memory is purged, so that nothing comes back from here
    /// meanwhile; and [`Disk::purge`] after it.
    pub fn hide(&self, purge: &PurgeRecord) -> Hidden {
        self.purge_index(purge);
        let number = if is_in_index(purge) { None } else { self.shared.purges.add(purge) };
        if number.is_none() && !is_in_index(purge) {
            self.overflowed(None);
        }
        Hidden { number }
    }

    /// Purges for good: what was evicted from memory since [`Disk::hide`], too. The ticket ends when a crash does not undo it.
    pub fn purge(&self, purge: &PurgeRecord, hidden: Hidden) -> Arc<Ticket> {
        self.purge_index(purge);
        let ticket = Arc::<Ticket>::default();
        let ordered = self.shared.queue.order(Work::Purge(purge.clone(), hidden.number, Some(ticket.clone())));
        let has_ended = match ordered {
            Ordered::Taken => false,
            Ordered::Full => !self.overflowed(Some(ticket.clone())),
            Ordered::Ended => true,
        };
        if has_ended {
            ticket.end(match self.stage() {
                Stage::Off(failure) => self.shared.erased(&failure),
                // Another process has the file, and purges of its own.
                _ => Ok(()),
            });
        }
        ticket
    }

    /// Writes what the memory holds, until a time.
    pub fn save(&self, store: &Store<Stored>, until: Instant) {
        let mut at = Some(Cursor::default()).filter(|_| !self.shared.queue.is_closed());
        while let Some(from) = at {
            let point = self.shared.queue.point();
            let (items, next) = store.walk(from, STEP);
            for item in items {
                if !self.shared.queue.wait_for_room(until) {
                    return tracing::warn!("not all of the cache is written to disk: time is over");
                }
                self.offer(item, point);
            }
            at = next;
        }
    }

    /// Writes what waits, and lets go of the file. Does not wait.
    pub fn close(&self) {
        self.shared.queue.close();
        self.reads.end();
    }

    /// Waits until the file is let go of. Not for a thread that serves requests.
    pub fn is_closed(&self, longest: Duration) -> bool {
        self.shared.wait_for(longest, |stage| matches!(stage, Stage::Closed | Stage::Off(_)))
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

    /// Purges everything, where a bound is exceeded. False if nothing is written any more.
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
        self.shared.queue.point()
    }

    fn evicted(&self, item: Item<Stored>, point: u64) {
        self.offer(item, point);
    }
}

/// Opens the file, searches it and writes to it, until the tier is closed.
fn run(shared: &Arc<Shared>, options: &Options, now: impl Fn() -> Moment + Send + Sync + 'static) {
    let ring = match wait_for(shared, options) {
        Ok(Some(ring)) => ring,
        Ok(None) => return shared.enter(Stage::Closed),
        Err(failure) => return shared.fail(&failure),
    };
    let segments = ring.segments();
    let ring = shared.ring.get_or_init(|| ring);
    shared.enter(Stage::Searching);
    thread::scope(|scope| {
        let search = thread::Builder::new().name("cache-search".into()).spawn_scoped(scope, || {
            search(shared, ring, segments, now());
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
        // Behind what was not searched there may be purges.
        Ok(()) if shared.queue.is_closed() => {}
        Ok(()) => {
            let (responses, bytes) = index.size();
            tracing::info!(responses, bytes, broken = scan.broken, took = ?began.elapsed(), "the cache on disk is searched");
            shared.enter(Stage::Open);
        }
        Err(error) => shared.fail(&Failure::of("read", &ring.path, &error)),
    }
}

/// Opens the file as soon as no other process has it. `None` if the tier is closed before.
fn wait_for(shared: &Shared, options: &Options) -> Result<Option<Ring>, Failure> {
    let mut tries = 0_u32;
    loop {
        if let Opened::Ring(ring) = Ring::open(options)? {
            return Ok(Some(ring));
        }
        tries += 1;
        // At an upgrade it takes a moment.
        if tries == 100 {
            let path = options.path.display();
            tracing::warn!(
                "another process uses {path}: the cache is in memory alone until it ends; a folder for each helps"
            );
        }
        if shared.queue.wait_for_close(TRY_EVERY) {
            return Ok(None);
        }
    }
}
