//! Limits by key hold over threads, under eviction and under attack.

use super::*;
use evenkeel_balance::time::SECOND_NS;
use std::sync::atomic::Ordering::SeqCst;

const DAY_NS: u64 = 86_400 * SECOND_NS;

fn take(table: &KeyTable, key: u64, rate: Rate, now: u64) -> bool {
    let rule = Take { rate, now: Instant(now) };
    table.apply(table.hash(key), &rule).expect("a bucket is never pinned").1.is_ok()
}

#[test]
fn a_burst_passes_and_then_the_rate_counts() {
    let (table, rate) = (KeyTable::new(1000), Rate::per(10, SECOND_NS, 3));
    let at = |key, ms: u64| take(&table, key, rate, ms * 1_000_000);
    assert_eq!([at(1, 5), at(1, 5), at(1, 5), at(1, 5)], [true, true, true, false]);
    assert!(at(2, 5), "another key");
    assert_eq!([at(1, 105), at(1, 105)], [true, false]);
    assert_eq!(table.forgotten(), 0);
}

/// Four threads use the same key as fast as they can, while their shared time advances.
#[test]
fn a_rate_holds_within_two_percent_over_four_threads() {
    const SECONDS: u64 = 20;
    for burst in [1, 50, 1000] {
        let (table, rate) = (KeyTable::new(1000), Rate::per(1000, SECOND_NS, burst));
        let (now, passed) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (table, now, passed) = (&table, &now, &passed);
                scope.spawn(move || {
                    // Each step of 25 us is asked for twice by some thread: eighty times the rate.
                    while now.load(SeqCst) < SECONDS * SECOND_NS {
                        let at = now.fetch_add(12_500, SeqCst);
                        // Clocks of workers are up to some microseconds apart.
                        passed.fetch_add(u64::from(take(table, 7, rate, at.saturating_sub(worker * 1000))), SeqCst);
                    }
                });
            }
        });
        let (passed, allowed) = (passed.load(SeqCst), u64::from(burst) + 1000 * SECONDS);
        assert!(passed <= allowed && passed * 100 >= allowed * 98, "{passed} of {allowed} with a burst of {burst}");
    }
}

/// A key shares its set with others that come and go.
#[test]
fn a_rate_holds_while_other_keys_are_forgotten_beside_it() {
    const SECONDS: u64 = 5;
    let (table, rate) = (KeyTable::new(8), Rate::per(1000, SECOND_NS, 100));
    let (now, passed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..4_u64 {
            let (table, now, passed) = (&table, &now, &passed);
            scope.spawn(move || {
                let mut other = worker << 40;
                while now.load(SeqCst) < SECONDS * SECOND_NS {
                    let at = now.fetch_add(25_000, SeqCst);
                    passed.fetch_add(u64::from(take(table, 7, rate, at)), SeqCst);
                    other += 1;
                    take(table, other | 1 << 50, rate, at);
                }
            });
        }
    });
    let (passed, allowed) = (passed.load(SeqCst), 100 + 1000 * SECONDS);
    assert!(passed <= allowed * 102 / 100 && passed * 100 >= allowed * 98, "{passed} of {allowed}");
}

/// Ten million keys in the memory for a hundred thousand.
#[test]
fn ten_million_keys_stay_within_the_bound_and_a_limited_one_stays_limited() {
    const KEYS: u64 = 10_000_000;
    let (table, rate) = (KeyTable::new(100_000), Rate::per(100, DAY_NS, 100));
    let bytes = size_of_val(&*table.sets);
    assert_eq!(bytes, 16 * 100_000);
    while take(&table, 7, rate, 0) {}
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for key in (worker..KEYS).step_by(4) {
                    assert!(take(table, key | 1 << 32, rate, 1), "a new key has a full bucket");
                }
            });
        }
    });
    assert_eq!(size_of_val(&*table.sets), bytes);
    assert!(!take(&table, 7, rate, 2), "the limited key is still known");
    // Every key that was forgotten had a used bucket. A few were forgotten before their worker had seen their mark
    // again, and were added a second time.
    let kept = table.sets.iter().flat_map(|set| &set.marks).filter(|mark| mark.load(SeqCst) != 0).count() as u64;
    assert_eq!(kept, 100_000);
    let least = KEYS + 1 - kept;
    assert!((least..least + KEYS / 1000).contains(&table.forgotten()), "{} of {least}", table.forgotten());
}

#[test]
fn a_full_bucket_is_forgotten_first_and_at_no_loss() {
    let (table, rate) = (KeyTable::new(8), Rate::per(1, SECOND_NS, 10));
    for key in 0..8 {
        take(&table, key, rate, 0);
    }
    while take(&table, 3, rate, 0) {}
    // A second later all buckets but the first are full again.
    for key in 100..107 {
        assert!(take(&table, key, rate, SECOND_NS));
    }
    assert_eq!(table.forgotten(), 0);
    assert!(take(&table, 3, rate, SECOND_NS) && !take(&table, 3, rate, SECOND_NS), "one token in a second");
}

fn enter(table: &KeyTable, key: u64, max: u32) -> Option<(u32, bool)> {
    table.apply(table.hash(key), &Enter { max })
}

#[test]
fn requests_in_flight_are_counted_while_threads_race_for_few_places() {
    const MAX: u32 = 3;
    // Sixteen keys for eight places, so that idle keys are replaced all the time.
    let table = KeyTable::new(8);
    let open: [AtomicU64; 16] = std::array::from_fn(|_| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (table, open) = (&table, &open);
            scope.spawn(move || {
                for n in 0..100_000_usize {
                    let key = (n * (worker + 1)) % open.len();
                    if let Some((place, true)) = enter(table, key as u64, MAX) {
                        let seen = open[key].fetch_add(1, SeqCst) + 1;
                        assert!(seen <= u64::from(MAX), "{seen} in flight");
                        open[key].fetch_sub(1, SeqCst);
                        table.leave(place);
                    }
                }
            });
        }
    });
    let left = table.sets.iter().flat_map(|set| &set.states).filter(|state| state.load(SeqCst) != 0).count();
    assert_eq!(left, 0, "all have left");
}

#[test]
fn a_key_with_requests_in_flight_is_never_forgotten() {
    let table = KeyTable::new(8);
    let places: Vec<u32> = (0..8).map(|key| enter(&table, key, 1).expect("there is room").0).collect();
    for key in 100..1000 {
        assert_eq!(enter(&table, key, 1), None, "no place, so it is not counted");
    }
    assert_eq!(table.forgotten(), 900);
    assert!((0..8).all(|key| enter(&table, key, 1).is_some_and(|(_, counted)| !counted)), "all are at their limit");
    table.leave(places[3]);
    assert!(enter(&table, 100, 1).is_some_and(|(place, counted)| counted && place == places[3]));
}

#[test]
fn two_tables_hash_a_key_differently() {
    let (one, other) = (KeyTable::new(8), KeyTable::new(8));
    assert_ne!(one.hash("a"), other.hash("a"));
    assert_ne!(one.hash("a").set, one.hash("a").mark);
}
