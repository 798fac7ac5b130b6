//! Stored responses and files for tests.

use evenkeel_cache::key::{Key, KeyRules, Place};
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::Policy;
use evenkeel_cache::record::{PurgeRecord, Scope};
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::store::{Fate, Item, KeyRef, Object, Options as Memory, Store};
use evenkeel_cache::stored::Stored;
use evenkeel_disk::{Admit, Clock, Disk, Options};
use evenkeel_wire::head::{Request, Table};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// Time that a step of another thread may take before a test fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub const NOW: Moment = Moment(1_700_000_000_000);

/// Clocks of a machine that was just started, at a fixed moment.
pub fn clock(now: Moment) -> Clock {
    static RUN: AtomicU64 = AtomicU64::new(0);
    let run = u128::from(RUN.fetch_add(1, Ordering::Relaxed)).to_le_bytes();
    Clock { now: Box::new(move || now), wall: Box::new(move || Date(now.0)), boot: run }
}

/// A folder of its own, removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Folder(std::env::temp_dir().join(format!("evenkeel-disk-{}-{count}", std::process::id())))
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("responses")
    }

    pub fn options(&self, size: u64, object_max: u64) -> Options {
        Options { path: self.0.clone(), size, object_max, queue_max: 64 << 20, admit: Admit::default() }
    }

    /// Opens the tier, and waits until it can be used or has failed.
    pub fn open(&self, size: u64, object_max: u64) -> Disk {
        let disk = Disk::open(self.options(size, object_max), clock(NOW), evenkeel_disk::plain_body);
        assert!(disk.is_settled(DEADLINE));
        disk
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn key(path: &str) -> Key {
    let mut fields = Table::default();
    let request = Request { method: "GET", target: path, host: b"a", fields: fields.fields() };
    KeyRules::default().key(&request, &Place::default()).expect("a plain request")
}

/// A response with a tag, for requests with this language.
pub fn stored(path: &str, language: &str, tag: &str) -> Stored {
    let (mut asked, mut fields) = (Table::default(), Table::default());
    asked.push(b"accept-language", language.as_bytes());
    fields.push(b"cache-control", b"max-age=60");
    fields.push(b"vary", b"accept-language");
    fields.push(b"surrogate-key", tag.as_bytes());
    let request = Request { method: "GET", target: path, host: b"a", fields: asked.fields() };
    let reply = Reply { status: 200, fields: &fields.fields(), sent: NOW, received: NOW, arrived: Date(NOW.0) };
    storable(&request, &Lookup::default(), &reply, &Policy::default()).expect("it can be stored")
}

/// Stores as a cache does that evicts at once: what was there is forgotten, and this is written.
pub fn put(disk: &Disk, path: &str, language: &str, tag: &str, body: Vec<u8>) {
    let (key, head) = (key(path), stored(path, language, tag));
    disk.forget((&key).into(), head.varying());
    let store = Store::new(&Memory::default());
    let point = evenkeel_cache::store::Evictions::point(disk);
    let object = Arc::new(Object::new(head, body.into()));
    store.insert((&key).into(), object, store.begin(), NOW, |_| false);
    let item: Item<Stored> = store.of_url(key.url()).remove(0);
    disk.offer(item, point);
}

/// Language, body and mark of all that is on disk for a path.
pub fn read(disk: &Disk, path: &str) -> Vec<(String, Vec<u8>, bool)> {
    let store: Store<Stored> = Store::new(&Memory::default());
    let key = key(path);
    let Some(read) = disk.read(KeyRef::from(&key), store.begin()) else { return Vec::new() };
    let loaded = wait(read);
    let one = |known: &evenkeel_cache::store::Restored<Stored>| {
        let varying = String::from_utf8(known.object.head().varying().to_vec()).expect("text");
        let language = varying.trim_end().rsplit(' ').next().unwrap_or_default().to_owned();
        (language, known.object.body().to_vec(), known.stale_from.is_some())
    };
    loaded.responses.iter().map(one).collect()
}

/// Purges, and waits until a crash does not undo it.
pub fn purge(disk: &Disk, scope: Scope, fate: Fate) {
    let purge = PurgeRecord { scope, fate, at: NOW };
    let hidden = disk.hide(&purge);
    let ended = disk.purge(&purge, hidden).wait(DEADLINE);
    assert_eq!(ended, Some(Ok(())));
}

/// Waits until everything that was stored so far is written for good.
pub fn settle(disk: &Disk) {
    purge(disk, Scope::Url(key("/nothing-is-stored-here").url().into()), Fate::Removed);
}

pub fn close(disk: &Disk) {
    disk.close();
    assert!(disk.is_closed(DEADLINE));
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
