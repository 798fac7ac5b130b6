//! Cost of an answer from a pool with many endpoints: as many picks as it names endpoints, however many there
//! are, because a datagram with a forged source must not cost more.

use evenkeel_balance::loads::Loads;
use evenkeel_balance::{
    Algorithm, EndpointId, EndpointSet, EndpointSpec, Instant, NoPick, Params, PickContext, Picker, Pool, Seat, Slot,
    Tried, algorithms,
};
use evenkeel_dns::pools::{Choice, Family, WorkerPool};
use evenkeel_dns::stats::PoolStats;
use evenkeel_dns::{Endpoint, PoolParts};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const ZONES: [&str; 3] = ["a", "b", "c"];
/// Zone of the first endpoints only, and its size.
const SMALL: (&str, usize) = ("small", 10);

thread_local! {
    /// Number of picks, and sum of the sizes of the sets that they were made from.
    static CHOICES: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// A picker that counts its picks.
struct Counted(Box<dyn Picker>);

impl Picker for Counted {
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        assert!(matches!(cx.tried, Tried::Marked(_)), "a list would be looked through for each endpoint");
        let (choices, sizes) = CHOICES.get();
        CHOICES.set((choices + 1, sizes + cx.set.len()));
        self.0.choose(cx)
    }

    fn on_set(&mut self, set: &EndpointSet, loads: &Loads, now: Instant) {
        self.0.on_set(set, loads, now);
    }

    fn on_start(&mut self, slot: Slot, loads: &Loads, now: Instant) {
        self.0.on_start(slot, loads, now);
    }
}

/// The row of `random` with counted picks.
fn counted() -> Algorithm {
    let of = algorithms::find("random").expect("a row");
    let new = |params: &Params, seat| (algorithms::default().new)(params, seat).map(|p| Box::new(Counted(p)) as _);
    Algorithm { new, ..row(of) }
}

/// A copy of a row, which is not `Clone`.
fn row(of: &Algorithm) -> Algorithm {
    Algorithm {
        name: of.name,
        aliases: of.aliases,
        summary: of.summary,
        docs: of.docs,
        source: of.source,
        needs: of.needs,
        asks: of.asks,
        promises: of.promises,
        params: of.params,
        table: of.table,
        prepare: of.prepare,
        new: of.new,
    }
}

/// A pool of `n` endpoints, every other one with an IPv6 address.
fn pool(n: usize, algorithm: &Algorithm) -> (Pool, WorkerPool) {
    let name = |i: usize| format!("endpoint-{i}");
    let mut pool = Pool::new(1);
    pool.update(&(0..n).map(|i| EndpointSpec::new(&name(i))).collect::<Vec<_>>(), Instant(0));
    let balancer = pool.balancer(algorithm, &Params::defaults(algorithm.params), Seat::default(), 1);
    let endpoint = |i: usize| {
        let ip: IpAddr = match i % 2 {
            0 => Ipv4Addr::from(0x0a00_0000 + i as u32).into(),
            _ => Ipv6Addr::from((0xfd00 << 112) + i as u128).into(),
        };
        let zone = if i < SMALL.1 { SMALL.0 } else { ZONES[i % 3] };
        let slot = pool.slot_of(EndpointId::of(&name(i))).expect("it is in the pool");
        (
            slot,
            Endpoint { addr: (ip, 80).into(), weight: 1, priority: 0, zone: Some(zone.into()), stats: Arc::default() },
        )
    };
    let endpoints = (0..n).map(endpoint).collect();
    let parts =
        PoolParts { balancer: balancer.expect("its defaults"), goes_by_key: false, endpoints, leaving: Vec::new() };
    (pool, WorkerPool::new(parts, Arc::<PoolStats>::default()))
}

#[test]
fn an_answer_takes_one_choice_for_each_endpoint_that_it_names() {
    for n in [600, 1_200] {
        let (_pool, mut worker) = pool(n, &counted());
        for near in [None, Some("a"), Some("small"), Some("nowhere")] {
            for family in [Family::V4, Family::V6, Family::Both] {
                for answers in [1, 4, 64] {
                    let choice = Choice { family, answers, key: None, near, fail_open: true };
                    CHOICES.set((0, 0));
                    let named: Vec<_> = worker.choose(&choice, Instant(1)).map(|e| (e.addr, e.zone.clone())).collect();
                    let (choices, sizes) = CHOICES.get();
                    let case = format!("{n} endpoints, {choice:?}: {choices} choices for {named:?}");
                    // An extra pick finds that there are no more, and another that none is near.
                    assert!(choices <= named.len() + 1, "{case}");
                    let small = if family == Family::Both { SMALL.1 } else { SMALL.1 / 2 };
                    assert_eq!(named.len(), if near == Some("small") { answers.min(small) } else { answers }, "{case}");
                    assert!(near != Some("small") || sizes <= choices * small, "{case}, from {sizes} endpoints");
                    let different: BTreeSet<_> = named.iter().map(|(addr, _)| *addr).collect();
                    assert_eq!(different.len(), named.len(), "{case}");
                    let fits = |ip: IpAddr| family == Family::Both || ip.is_ipv4() == (family == Family::V4);
                    assert!(named.iter().all(|(addr, _)| fits(addr.ip())), "{case}");
                    let is_near = |zone: &Option<Arc<str>>| zone.as_deref() == near;
                    assert!([None, Some("nowhere")].contains(&near) || named.iter().all(|(_, z)| is_near(z)), "{case}");
                }
            }
        }
    }
}

#[test]
fn whom_an_answer_names_follows_the_pool() {
    let (mut pool, mut worker) = pool(30, &row(algorithms::find("round_robin").expect("a row")));
    let choice = Choice { family: Family::V4, answers: 4, key: None, near: Some("small"), fail_open: true };
    let ips = |worker: &mut WorkerPool| {
        let mut ips: Vec<u8> = worker
            .choose(&choice, Instant(1))
            .map(|e| match e.addr.ip() {
                IpAddr::V4(ip) => ip.octets()[3],
                IpAddr::V6(ip) => panic!("{ip} is no answer to A"),
            })
            .collect();
        ips.sort_unstable();
        ips
    };
    // Turns are kept within the zone: five endpoints, four in each answer.
    let mut seen = [0; 10];
    (0..50).for_each(|_| ips(&mut worker).into_iter().for_each(|ip| seen[usize::from(ip)] += 1));
    assert_eq!(seen, [40, 0, 40, 0, 40, 0, 40, 0, 40, 0]);

    let specs = |keep: &dyn Fn(usize) -> bool| -> Vec<EndpointSpec> {
        (0..30).filter(|i| keep(*i)).map(|i| EndpointSpec::new(&format!("endpoint-{i}"))).collect()
    };
    pool.update(&specs(&|i| i > 7), Instant(1));
    assert_eq!(ips(&mut worker), [8], "of the zone one is left");
    pool.update(&specs(&|i| i > 9), Instant(1));
    assert_eq!(ips(&mut worker).len(), 4, "none is left there, so others are named");
    pool.update(&specs(&|_| true), Instant(1));
    assert!(ips(&mut worker).iter().all(|ip| *ip < 10));

    // The same slot, no longer in the zone.
    let slot = pool.slot_of(EndpointId::of("endpoint-0")).expect("it is in the pool");
    let moved = Endpoint {
        addr: "10.0.0.200:80".parse().expect("an address"),
        weight: 1,
        priority: 0,
        zone: None,
        stats: Arc::default(),
    };
    worker.change(&[(slot, moved)]);
    assert_eq!(ips(&mut worker), [2, 4, 6, 8]);
}
