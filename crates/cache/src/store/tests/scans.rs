//! Entries that are used a lot stay while others pass by.

use super::*;

/// Looks up an object, and stores it if it is missing. True for a hit.
fn ask(store: &Store<Page>, text: &str, body: usize) -> bool {
    let is_hit = content(store, text, 0).is_some();
    if !is_hit {
        put(store, text, page(0, b"", 0, body));
    }
    is_hit
}

#[test]
fn a_scan_leaves_what_is_used() {
    // Room for about 5,000 objects.
    let store = Store::new(&Options { capacity: 6 << 20, shards: 4, object_max: 100_000, ..Options::default() });
    for _ in 0..5 {
        (0..1000).for_each(|i| {
            ask(&store, &format!("/hot/{i}"), 1000);
        });
    }
    (0..100_000).for_each(|i| {
        ask(&store, &format!("/scan/{i}"), 1000);
    });
    let kept = (0..1000).filter(|i| content(&store, &format!("/hot/{i}"), 0).is_some()).count();
    // Counts of the sketch are too high for some of the scan.
    assert!(kept >= 980, "{kept} of 1,000");
    let counts = store.counts();
    assert!(counts.evicted > 90_000 && counts.bytes <= 6 << 20);
    store.assert_sound();
}

#[test]
fn new_favourites_come_in() {
    let store = Store::new(&Options { capacity: 1 << 20, shards: 1, object_max: 100_000, ..Options::default() });
    for generation in 0..3 {
        for _ in 0..40 {
            (0..500).for_each(|i| {
                ask(&store, &format!("/{generation}/{i}"), 1000);
            });
        }
        let kept = (0..500).filter(|i| content(&store, &format!("/{generation}/{i}"), 0).is_some()).count();
        assert!(kept >= 490, "{kept} of 500 in generation {generation}");
    }
}
