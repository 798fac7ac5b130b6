//! The table finds the same as a search through all networks.

use super::*;
use crate::structures::rng::Rng;
use Value::{First, Second, Third};

/// A value of which an `Option` takes a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    First,
    Second,
    Third,
}

/// Networks in a list, searched in order.
#[derive(Default)]
struct Naive(Vec<(IpAddr, u8, Value)>);

impl Naive {
    fn find(&self, address: IpAddr) -> Option<Value> {
        let address = address.to_canonical();
        let around = self.0.iter().filter(|(network, prefix, _)| contains(*network, *prefix, address));
        around.max_by_key(|(_, prefix, value)| (*prefix, *value)).map(|(.., value)| *value)
    }

    fn table(&self) -> Networks<Value> {
        let mut builder = Builder::default();
        self.0.iter().for_each(|(network, prefix, value)| builder.add(*network, *prefix, *value));
        builder.build()
    }
}

fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (0..u32::from(prefix)).all(|bit| (network.to_bits() ^ address.to_bits()) >> (31 - bit) & 1 == 0)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (0..u32::from(prefix)).all(|bit| (network.to_bits() ^ address.to_bits()) >> (127 - bit) & 1 == 0)
        }
        _ => false,
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// Asserts that both agree at the ends of every network, beside them, and at some addresses in between.
fn agree(naive: &Naive, rng: &mut Rng, seed: u64) {
    let table = naive.table();
    let check = |address: IpAddr| assert_eq!(table.find(address), naive.find(address), "seed {seed}: {address}");
    for (network, prefix, _) in &naive.0 {
        match network {
            IpAddr::V4(network) => {
                let first = network.to_bits() & !u32::behind(*prefix);
                let last = Bits::last(first, *prefix);
                let inside = first | rng.next_u64() as u32 & u32::behind(*prefix);
                for address in [first, last, inside, first.wrapping_sub(1), last.wrapping_add(1)] {
                    check(Ipv4Addr::from_bits(address).into());
                }
            }
            IpAddr::V6(network) => {
                let first = network.to_bits() & !u128::behind(*prefix);
                let last = Bits::last(first, *prefix);
                let inside = first | u128::from(rng.next_u64()) & u128::behind(*prefix);
                for address in [first, last, inside, first.wrapping_sub(1), last.wrapping_add(1)] {
                    check(Ipv6Addr::from_bits(address).into());
                }
            }
        }
    }
    for _ in 0..50 {
        check(Ipv4Addr::from_bits(rng.next_u64() as u32).into());
        check(Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())).into());
    }
    for end in [ip("0.0.0.0"), ip("255.255.255.255"), ip("::"), ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")] {
        check(end);
    }
}

#[test]
fn finds_what_a_search_through_all_of_them_finds() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut naive = Naive::default();
        // Few leading bits that differ make networks nest, and few of them make some equal.
        let spread = 1 + rng.below(32);
        for _ in 0..rng.below(120) {
            let value = [First, Second, Third][rng.below(3) as usize];
            if rng.below(2) == 0 {
                let bits = (rng.next_u64() as u32).checked_shr(32 - spread).unwrap_or(0) << rng.below(32);
                naive.0.push((Ipv4Addr::from_bits(bits).into(), rng.below(33) as u8, value));
            } else {
                let bits = u128::from(rng.next_u64() >> (64 - spread)) << rng.below(128);
                naive.0.push((Ipv6Addr::from_bits(bits).into(), rng.below(129) as u8, value));
            }
        }
        agree(&naive, &mut rng, seed);
    }
}

#[test]
fn the_longest_prefix_decides_and_outside_there_is_nothing() {
    let networks =
        [("10.0.0.0", 8, First), ("10.1.0.0", 16, Second), ("10.1.2.3", 32, First), ("2001:db8::", 32, Second)];
    let table = Naive(networks.map(|(network, prefix, value)| (ip(network), prefix, value)).into()).table();
    for (address, value) in [
        ("9.255.255.255", None),
        ("10.0.0.0", Some(First)),
        ("10.1.2.2", Some(Second)),
        ("10.1.2.3", Some(First)),
        ("10.1.2.4", Some(Second)),
        ("10.2.0.0", Some(First)),
        ("11.0.0.0", None),
        ("::ffff:10.1.2.4", Some(Second)),
        ("2001:db8:ffff::1", Some(Second)),
        ("2001:db9::", None),
    ] {
        assert_eq!(table.find(ip(address)), value, "{address}");
    }
    let nothing = Builder::<Value>::default().build();
    assert_eq!((nothing.find(ip("10.0.0.1")), nothing.find(ip("::1"))), (None, None));
}

#[test]
fn of_two_values_of_a_network_the_greater_counts_and_neighbours_with_one_value_are_one_range() {
    let table =
        Naive(vec![(ip("10.0.0.0"), 9, Second), (ip("10.0.0.0"), 9, First), (ip("10.128.0.0"), 9, Second)]).table();
    assert_eq!(table.find(ip("10.200.0.0")), Some(Second));
    assert_eq!(table.v4.values.len(), 3, "before, within and behind");
    let everything = Naive(vec![(ip("0.0.0.0"), 0, First), (ip("::"), 0, First)]).table();
    assert_eq!((everything.v4.values.len(), everything.v6.values.len()), (1, 1));
}

/// Networks of a list against abuse: addresses and small networks, far from each other.
fn many(count: u32, rng: &mut Rng) -> (Builder<Value>, Builder<Value>) {
    let (mut v4, mut v6) = (Builder::default(), Builder::default());
    for _ in 0..count {
        let prefix = [32, 32, 32, 24, 22][rng.below(5) as usize];
        v4.add(Ipv4Addr::from_bits(rng.next_u64() as u32).into(), prefix, First);
        let bits = 0x20 << 120 | u128::from(rng.next_u64()) << 56;
        v6.add(Ipv6Addr::from_bits(bits).into(), [48, 56, 64][rng.below(3) as usize], First);
    }
    (v4, v6)
}

#[test]
fn a_network_takes_at_most_the_memory_that_is_stated() {
    let (v4, v6) = many(50_000, &mut Rng::new(1));
    let (v4, v6) = (v4.build().memory(), v6.build().memory());
    assert!(v4 <= 14 * 50_000 && v6 <= 38 * 50_000, "{v4} and {v6} bytes");
}

/// `cargo test -p evenkeel-balance networks::tests::measures -- --ignored --nocapture`
#[test]
#[ignore = "measures, and asserts nothing"]
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]
fn measures_a_million_networks() {
    const COUNT: u32 = 1_000_000;
    const LOOKUPS: u32 = 10_000_000;
    let rng = &mut Rng::new(1);
    let (v4, v6) = many(COUNT, rng);
    for (kind, builder) in [("IPv4", v4), ("IPv6", v6)] {
        let began = std::time::Instant::now();
        let table = builder.build();
        let built = began.elapsed();
        let addresses: Vec<IpAddr> = (0..1 << 17)
            .map(|_| match kind {
                "IPv4" => IpAddr::V4(Ipv4Addr::from_bits(rng.next_u64() as u32)),
                _ => IpAddr::V6(Ipv6Addr::from_bits(0x20 << 120 | u128::from(rng.next_u64()) << 56)),
            })
            .collect();
        let began = std::time::Instant::now();
        let found = (0..LOOKUPS as usize).filter(|n| table.find(addresses[n % addresses.len()]).is_some()).count();
        let each = began.elapsed() / LOOKUPS;
        println!("{kind}: built in {built:?}, {} bytes, {each:?} a lookup, {found} found", table.memory());
    }
}
