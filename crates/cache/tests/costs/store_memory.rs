//! The store counts all memory that it takes, and a hit takes none. In a binary of its own, as it counts what all
//! threads of its process allocate.

use bytes::Bytes;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::store::{Fate, Found, Head, Inserted, KeyRef, Object, Options, Store, Target};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

struct Counting;

/// Bytes that are allocated now, each allocation with the header and the rounding of glibc's allocator.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Allocations since the process began.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Turn of a test: both count the same bytes.
static TURN: Mutex<()> = Mutex::new(());

fn real(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16)
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(real(layout), Ordering::Relaxed);
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(real(layout), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Head of 180 bytes of fields.
struct Fields(Box<[u8]>);

impl Head for Fields {
    fn weight(&self) -> usize {
        size_of::<Fields>() + self.0.len() + 16
    }

    fn has_tag(&self, _: &[u8]) -> bool {
        false
    }
}

fn url(number: usize) -> String {
    format!("https://www.example.com/some/path/{number:07}")
}

/// Bytes that an object of 1 KiB, 180 of it fields, takes with its key, counted by the allocator and by the store.
fn bytes_of_an_object(objects: usize) -> (usize, usize) {
    let before = HELD.load(Ordering::Relaxed);
    let store = Store::new(&Options { capacity: 4 << 30, shards: 64, ..Options::default() });
    for number in 0..objects {
        let url = url(number);
        let object = Object::new(Fields(vec![b'f'; 180].into()), Bytes::from(vec![b'b'; 844]));
        let key = KeyRef::new(url.as_bytes(), url.len());
        let inserted = store.insert(key, Arc::new(object), store.begin(), Moment(0), |_| true);
        assert_eq!(inserted, Inserted::Added);
    }
    let held = HELD.load(Ordering::Relaxed) - before;
    let counted = store.counts().bytes as usize;

    let count = COUNT.load(Ordering::Relaxed);
    let url = url(objects / 2);
    let shared = COUNT.load(Ordering::Relaxed) - count;
    for _ in 0..100 {
        assert!(matches!(store.lookup(KeyRef::new(url.as_bytes(), url.len()), |_| Some(0)), Found::Hit(_)));
    }
    assert_eq!(COUNT.load(Ordering::Relaxed) - count, shared, "allocations of hits");

    store.purge(Target::All, Fate::Removed, Moment(0));
    while store.sweep(10_000) {}
    let left = HELD.load(Ordering::Relaxed) - before;
    // Sketches keep their size, and marks.
    assert!(left < 64 * (64 << 10) + objects * 16, "{left} bytes of an empty store");
    (held / objects, counted / objects)
}

fn assert_honest(held: usize, counted: usize) {
    println!("{held} bytes an object, {counted} counted");
    assert!(held <= 1500, "{held} bytes for an object of 1,024");
    assert!(counted * 20 >= held * 19 && counted * 9 <= held * 10, "{counted} bytes counted, {held} taken");
}

#[test]
fn memory_of_objects_is_counted_and_hits_take_none() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (held, counted) = bytes_of_an_object(60_000);
    assert_honest(held, counted);
}

#[test]
#[ignore = "takes 1.5 GB of memory"]
fn a_million_objects_cost_what_they_are_counted_for() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (held, counted) = bytes_of_an_object(1_000_000);
    assert_honest(held, counted);
}
