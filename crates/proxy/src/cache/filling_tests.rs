//! Ends of bodies that were to be stored, and the counters after them.

use super::*;
use crate::cache::flights::Role;
use crate::cache::growing::tests::{head, read, request};
use evenkeel_cache::key::{KeyRules, Place as KeyPlace};
use evenkeel_config::plan::CacheMemory;
use evenkeel_wire::head::Table;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

const OBJECT_MAX: u64 = 1 << 17;

fn cache() -> Arc<SharedCache> {
    let memory =
        CacheMemory { memory: 1 << 20, object_max: OBJECT_MAX, variants_max: 8, unattended_fetches_max: 1, disk: None };
    SharedCache::new(memory, None, Arc::default()).into()
}

fn key() -> Key {
    let mut none = Table::default();
    KeyRules::default().key(&request("/a", &mut none), &KeyPlace::default()).expect("a plain request")
}

fn join(cache: &SharedCache) -> Role {
    cache.flights.join(&key(), |_| Some(Vec::new()), Instant(0), |_| true)
}

/// A body that arrives, and its first reader.
fn begun(cache: &Arc<SharedCache>, length: Option<u64>) -> (Filling, Reader) {
    let Role::Leads(lead) = join(cache) else { panic!("it leads") };
    let growing = Growing::new(head(None, ""), length, cache.store.begin(), Instant(0));
    let ending = Ending { lead: Some(lead), now: Instant(0), tally: Some(Tally::Validation) };
    let filling = Filling::new(cache, key(), growing, Moment(1), cache.room(), ending);
    let reader = filling.reader().expect("it has begun");
    (filling, reader)
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Nothing is counted as under way, and another request can fetch the response.
fn is_over(cache: &SharedCache) -> bool {
    let counts = [&cache.fills, &cache.unattended, &cache.validations, &cache.wholes, &cache.coming].map(load);
    counts == [0; 5] && !matches!(join(cache), Role::Follows(_) | Role::Reads(_))
}

#[test]
fn a_panic_while_a_body_arrives_cuts_its_readers_off_and_leaves_nothing_behind() {
    let cache = cache();
    let (mut filling, mut reader) = begun(&cache, None);
    let later = filling.reader();
    filling.keep_place(Place::validation(&cache));
    filling.add(b"half", Instant(0));
    assert!(!is_over(&cache));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _filling = filling;
        panic!("as the test wants it");
    }));
    assert!(panicked.is_err());
    assert_eq!(read(&mut reader), (b"half".to_vec(), Some(false)));
    assert_eq!(cache.counts.fills.cut.each_ref().map(load), [0, 0, 0, 2], "both readers, as the worker has stopped");
    assert!(later.is_some() && is_over(&cache));
}

#[test]
fn a_body_without_room_is_passed_and_counted() {
    for (others, reason) in [(0, PassedFor::TooLarge), (1 << 20, PassedFor::NoRoom)] {
        let cache = cache();
        let mut room = cache.room();
        let (mut filling, mut reader) = begun(&cache, None);
        room.hold(others);
        let sent = if others > 0 { 1 } else { OBJECT_MAX as usize + 1 };
        filling.add(&vec![b'a'; sent], Instant(0));
        assert!(filling.reader().is_none(), "later requests fetch the response themselves");
        assert_eq!(load(&cache.counts.fills.passed[reason as usize]), 1);
        filling.end();
        assert_eq!((read(&mut reader).0.len(), cache.store.counts().objects), (sent, 0));
        drop((reader, room));
        assert_eq!(cache.counts.fills.cut.each_ref().map(load), [0; 4]);
        assert!(is_over(&cache));
    }
}

#[test]
fn a_fetch_behind_a_request_keeps_its_place_whether_clients_read_or_not() {
    let cache = cache();
    let taken = Place::unattended(&cache);
    for of in [Some(Without::Whole), Some(Without::Validation), None] {
        let (mut filling, reader) = begun(&cache, Some(4));
        let place = of.and_then(|of| Place::new(&cache, of, 1));
        let is_behind = place.is_some();
        filling.keep_place(place);
        let cx = Context::from_waker(Waker::noop());
        assert!(filling.poll_wanted(&cx) == Poll::Ready(true) && !filling.is_unattended());
        drop(reader);
        // The only place for fetches without clients is taken.
        assert_eq!(filling.poll_wanted(&cx), Poll::Ready(is_behind));
        assert_eq!((cache.behind(), filling.is_unattended()), (u64::from(is_behind), true));
        drop(filling);
        assert_eq!(cache.behind(), 0);
    }
    assert!(Place::whole(&cache, 0).is_none() && taken.is_some());
    drop(taken);
    assert!(is_over(&cache));
}
