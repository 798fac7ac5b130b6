//! Many threads that look, store, purge and sweep at a time.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Next number of a generator that is good enough for choices.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn what_was_purged_is_never_returned_and_bytes_are_bounded() {
    const KEYS: u64 = 64;
    const CAPACITY: u64 = 256 << 10;
    let store = Store::<Page>::new(&Options { capacity: CAPACITY, shards: 2, purges_max: 4, ..Options::default() });
    // Version of the content of each key at the endpoint. A purge follows each change, so that after the purge no older
    // version may be found. `floor` is the version that was purged for.
    let versions: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let floor: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (store, versions, floor) = (&store, &versions, &floor);
            scope.spawn(move || {
                let mut state = 0x9E37_79B9_7F4A_7C15 ^ (thread + 1);
                for _ in 0..20_000 {
                    let chosen = next(&mut state);
                    let at = chosen % KEYS;
                    let index = at as usize;
                    let text = format!("/{}/{at}|{}", at % 4, at % 2);
                    match chosen >> 32 & 63 {
                        // An update: a new version, then a purge, then no lookup may find an older version.
                        0..4 => {
                            let version = versions[index].fetch_add(1, Ordering::SeqCst) + 1;
                            let (key, fate) = (key(&text), Fate::Removed);
                            match chosen >> 40 & 7 {
                                0 => _ = store.purge(Target::Tag([at as u8].into()), fate, Moment(0)),
                                1 => _ = store.purge(Target::Prefix(key.url().into()), fate, Moment(0)),
                                2 => _ = store.purge_key(key, fate, Moment(0)),
                                _ => _ = store.purge_url(key.url(), fate, Moment(0)),
                            }
                            floor[index].fetch_max(version, Ordering::SeqCst);
                        }
                        4 => _ = store.sweep(100),
                        5 => _ = store.walk(Cursor::default(), 50),
                        6 => assert!(store.counts().bytes <= CAPACITY),
                        7 if chosen >> 40 & 31 == 0 => _ = store.purge(Target::All, Fate::Removed, Moment(0)),
                        8..30 => {
                            let began = store.begin();
                            let version = versions[index].load(Ordering::SeqCst);
                            if chosen >> 48 & 1 == 0 {
                                std::thread::yield_now();
                            }
                            let object = page(0, &[at as u8], version, (chosen >> 50) as usize);
                            store.insert(key(&text), object, began, Moment(0), |_| true);
                        }
                        _ => {
                            let least = floor[index].load(Ordering::SeqCst);
                            if let Some((version, _)) = content(store, &text, 0) {
                                assert!(version >= least, "version {version} of {text}, purged up to {least}");
                            }
                        }
                    }
                }
            });
        }
    });
    store.assert_sound();
    while store.sweep(1000) {}
    let counts = store.counts();
    assert!(counts.hits > 0 && counts.purged > 0 && counts.refused_purged > 0, "{counts:?}");
    store.purge(Target::All, Fate::Removed, Moment(0));
    while store.sweep(1000) {}
    assert_eq!((store.counts().bytes, store.counts().entries), (0, 0));
}
