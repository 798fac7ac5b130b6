//! Limits per address hold under contention, eviction and arbitrary timing.

use super::*;
use proptest::prelude::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn max(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not 0")
}

#[test]
fn an_address_has_so_many_connections_and_no_more() {
    let table = Arc::new(PerAddress::default());
    let mut places: Vec<_> = (0..3).map(|_| table.open(ip("10.0.0.1"), max(3)).expect("a place")).collect();
    assert!(table.open(ip("10.0.0.1"), max(3)).is_none());
    assert!(table.open(ip("::ffff:10.0.0.1"), max(3)).is_none(), "the same address");
    assert!(table.open(ip("10.0.0.2"), max(3)).is_some());
    places.pop();
    assert!(table.open(ip("10.0.0.1"), max(3)).is_some());
}

#[test]
fn ipv6_addresses_count_by_their_network_of_64_bits() {
    let table = Arc::new(PerAddress::default());
    let _first = table.open(ip("2001:db8:0:1::1"), max(1)).expect("a place");
    assert!(table.open(ip("2001:db8:0:1:ffff::2"), max(1)).is_none());
    assert!(table.open(ip("2001:db8:0:2::1"), max(1)).is_some());
}

/// Otherwise addresses that connect once each would fill the memory.
#[test]
fn nothing_is_kept_of_an_address_without_connections() {
    let table = Arc::new(PerAddress::default());
    for n in 0..10_000_u32 {
        drop(table.open(IpAddr::V4(n.into()), max(1)));
    }
    assert!(table.open.shards.iter().all(|shard| lock(shard).is_empty()));
}

#[test]
fn the_limit_of_connections_holds_while_threads_race_for_it() {
    let table = Arc::new(PerAddress::default());
    let most = std::sync::atomic::AtomicUsize::new(0);
    let open = std::sync::atomic::AtomicUsize::new(0);
    use std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let Some(place) = table.open(ip("10.0.0.1"), max(2)) else { continue };
                    most.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
                    open.fetch_sub(1, SeqCst);
                    drop(place);
                }
            });
        }
    });
    assert!((1..=2).contains(&most.load(SeqCst)), "{most:?}");
    assert!(table.open.shards.iter().all(|shard| lock(shard).is_empty()));
}

#[test]
fn a_burst_passes_and_then_the_rate_counts() {
    let (table, rate) = (PerAddress::default(), Rate::new(10.0, 3));
    let at = |ms: u64| table.request(ip("10.0.0.1"), rate, Instant(ms * 1_000_000));
    assert_eq!([at(5), at(5), at(5)], [Ok(()); 3]);
    assert_eq!(at(5), Err(100_000_000), "ten a second: the next in 100 ms");
    assert_eq!(at(55), Err(50_000_000), "a refused one costs nothing");
    assert_eq!([at(105), at(205)], [Ok(()); 2]);
    assert!(at(205).is_err());
    assert_eq!([at(9_000), at(9_000), at(9_000)], [Ok(()); 3], "never more than the burst");
    assert!(at(9_000).is_err());
    assert_eq!(table.request(ip("10.0.0.2"), rate, Instant(0)), Ok(()), "another address");
}

#[test]
fn who_comes_most_often_is_not_forgotten_when_the_table_is_full() {
    let (table, rate) = (PerAddress::default(), Rate::new(1.0, 100));
    let busy = ip("10.0.0.1");
    for _ in 0..100 {
        table.request(busy, rate, Instant(0)).expect("within the burst");
    }
    for n in 0..4 * RATES as u32 {
        let _ = table.request(IpAddr::V4((0x0b00_0000 + n).into()), rate, Instant(1));
    }
    assert!(table.request(busy, rate, Instant(2)).is_err(), "it is still known");
}

proptest! {
    /// In any interval an address gets at most its burst plus the rate times the length of the interval.
    #[test]
    fn no_history_gets_more_than_its_rate(
        per_second in 0.1..1000.0_f64,
        burst in 1..50_u32,
        gaps in proptest::collection::vec(0..200_000_000_u64, 1..300),
    ) {
        let (table, rate) = (PerAddress::default(), Rate::new(per_second, burst));
        let mut now = 0;
        let mut passed = Vec::new();
        for gap in gaps {
            now += gap;
            if table.request(ip("10.0.0.1"), rate, Instant(now)).is_ok() {
                passed.push(now);
            }
        }
        for from in 0..passed.len() {
            for to in from..passed.len() {
                let allowed = f64::from(burst) + (passed[to] - passed[from]) as f64 / rate.interval_ns() as f64;
                prop_assert!((to - from) as f64 <= allowed, "{} in {} ns", to - from + 1, passed[to] - passed[from]);
            }
        }
    }
}
