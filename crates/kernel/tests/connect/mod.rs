//! Balancing at connect() by eBPF.

mod place;

use evenkeel_kernel::driver::{Change, Driver};
use evenkeel_kernel::service::{Member, Policy, State, Transport};
use place::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process that another test has started; nothing otherwise.
#[test]
fn process_of_a_role() {
    play_role();
}

/// Asserts that the shares of `counts` are those of weights, within 5 standard deviations of a binomial distribution:
/// one of a million tests fails by chance. Policies that look at loads are more even than that.
fn assert_shares(counts: &BTreeMap<u8, u32>, weights: &[u32], what: &str) {
    let total: u32 = weights.iter().sum();
    let n = f64::from(counts.values().sum::<u32>());
    for (i, &weight) in (1..).zip(weights) {
        let share = f64::from(weight) / f64::from(total);
        let count = f64::from(counts.get(&i).copied().unwrap_or(0));
        let bound = 5.0 * (n * share * (1.0 - share)).sqrt() + 1.0;
        assert!(
            (count - n * share).abs() <= bound,
            "{what}: endpoint {i} got {count} of {n}, its share is {share}: {counts:?}"
        );
    }
    assert!(!counts.contains_key(&0), "{what}: some failed: {counts:?}");
}

const VIP4: &str = "10.99.0.1:80";
const VIP6: &str = "[fd99::1]:80";
const MAPPED: &str = "[::ffff:10.99.0.1]:80";

#[test]
fn connections_share_by_weight_with_every_policy() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[1, 2, 3, 4]) else { return };
    let weights = [4, 3, 2, 1];
    let both = || {
        let members = |ipv4| (1..).zip(weights).map(move |(i, weight)| member(i, ipv4, weight));
        members(true).chain(members(false)).collect::<Vec<Member>>()
    };
    let policies = [("random", Policy::Random { draws: 1 }), ("round robin", Policy::RoundRobin)];
    for (name, policy) in policies {
        set(&mut driver, &service(Transport::Tcp, policy, both()));
        for vip in [VIP4, VIP6, MAPPED] {
            let counts = client.count(&format!("connect {vip} 1000"));
            assert_shares(&counts, &weights, &format!("{name} {vip}"));
        }
    }
    // Load decides these: held connections have shares by weight, each off by one or two.
    for (name, policy, slack) in [("least", Policy::LeastConn, 1), ("draws", Policy::Random { draws: 3 }, 12)] {
        set(&mut driver, &service(Transport::Tcp, policy, both()));
        for vip in [VIP4, VIP6] {
            let counts = client.count(&format!("hold {vip} 200"));
            for (i, weight) in (1..).zip(weights) {
                assert!(counts[&i].abs_diff(20 * weight) <= slack, "{name} {vip}: {counts:?}");
            }
            client.ask("release");
        }
    }
    wait_until(&mut driver, |found| found.values().all(|reading| reading.active == 0));
    let lines = driver.explain(&service(Transport::Tcp, Policy::LeastConn, both())).unwrap();
    assert!(lines.iter().any(|line| line.contains("share 40.00 %")), "{lines:#?}");
}

#[test]
fn maglev_keeps_a_client_address_at_its_endpoint() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[1, 2, 3, 4]) else { return };
    let table: Arc<[u32]> = (0..1021).map(|i| [0, 1, 2, 3, 0, 1, 2, 0, 1, 0][i % 10]).collect();
    let members = (1..).zip([4, 3, 2, 1]).map(|(i, weight)| member(i, true, weight)).collect();
    set(&mut driver, &service(Transport::Tcp, Policy::Maglev { table }, members));
    let first = client.ask(&format!("from {VIP4} 1000"));
    assert_eq!(client.ask(&format!("from {VIP4} 1000")), first);
    let mut counts = BTreeMap::new();
    first.split(' ').for_each(|word| *counts.entry(word.parse().unwrap()).or_insert(0) += 1);
    assert_shares(&counts, &[4, 3, 2, 1], "maglev");
    // A client without an address of its own is its namespace.
    assert_eq!(client.count(&format!("connect {VIP4} 20")).len(), 1);
}

#[test]
fn datagrams_are_balanced_and_answered_by_the_virtual_address() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[1, 2, 3, 4]) else { return };
    let members = |state: State| -> Vec<Member> {
        let both = [true, false].into_iter().flat_map(|ipv4| (1..=4).map(move |i| member(i, ipv4, 1)));
        both.map(|mut member| {
            if member.id % 100 == 1 && state == State::Down {
                (member.state, member.weight) = (state, 0);
            }
            member
        })
        .collect()
    };
    let mut service = service(Transport::Udp, Policy::Random { draws: 2 }, members(State::Serving));
    set(&mut driver, &service);
    for vip in [VIP4, VIP6, MAPPED] {
        for request in ["udp-connected", "udp"] {
            let counts = client.count(&format!("{request} {vip} 200"));
            assert_shares(&counts, &[1, 1, 1, 1], &format!("{request} {vip}"));
            assert_eq!(active(&mut driver), 200);
            client.ask("release");
            wait_until(&mut driver, |found| found.values().all(|reading| reading.active == 0));
        }
    }
    // A socket keeps its endpoint, until that is down.
    let kept = client.count(&format!("udp {VIP4} 1"));
    let again = client.count(&format!("udp-again {VIP4} 20"));
    assert!(again.len() == 1 && again.keys().eq(kept.keys()), "{kept:?} {again:?}");
    while client.count(&format!("udp {VIP4} 1")).keys().next() != Some(&1) {}
    service.members = members(State::Down).into();
    set(&mut driver, &service);
    let moved = client.count(&format!("udp-again {VIP4} 20"));
    assert!(moved.len() == 1 && !moved.contains_key(&1) && !moved.contains_key(&0), "{moved:?}");
    // Flows that are idle are no longer counted.
    client.ask("release");
    service.idle = Duration::from_millis(200);
    set(&mut driver, &service);
    client.ask(&format!("udp {VIP4} 10"));
    wait_until(&mut driver, |found| found.values().all(|reading| reading.active == 0));
}

#[test]
fn counts_return_to_zero_when_clients_are_killed() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[1, 2, 3, 4]) else { return };
    set(
        &mut driver,
        &service(Transport::Tcp, Policy::Random { draws: 2 }, (1..=4).map(|i| member(i, true, 1)).collect()),
    );
    client.ask(&format!("hold {VIP4} 100"));
    assert_eq!(active(&mut driver), 100);
    client.kill();
    wait_until(&mut driver, |found| found.values().all(|reading| reading.active == 0));
    assert_eq!(readings(&mut driver).values().map(|reading| reading.started).sum::<u64>(), 100);
}

#[test]
fn an_endpoint_that_refuses_gets_few_connections() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[1, 2, 3]) else { return };
    for (name, policy) in [("draws", Policy::Random { draws: 2 }), ("least", Policy::LeastConn)] {
        set(&mut driver, &service(Transport::Tcp, policy, (1..=4).map(|i| member(i, true, 1)).collect()));
        let before = readings(&mut driver)[&4].failed;
        let counts = client.count(&format!("hold {VIP4} 40"));
        let refused = counts.get(&0).copied().unwrap_or(0);
        println!("{name}: {refused} of 40 were refused");
        // 15 % of them.
        assert!(refused <= 6, "{name}: {counts:?}");
        assert_eq!(readings(&mut driver)[&4].failed - before, u64::from(refused));
        client.ask("release");
    }
}

#[test]
fn a_client_without_a_route_to_an_endpoint_is_not_its_failure() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[]) else { return };
    let far = |id: u32, addr: &str| Member { id, addr: addr.parse().unwrap(), ..member(1, true, 1) };
    let members = vec![far(1, "203.0.113.1:9000"), far(2, "[2001:db8::1]:9000")];
    set(&mut driver, &service(Transport::Tcp, Policy::LeastConn, members));
    for vip in [VIP4, VIP6] {
        assert_eq!(client.count(&format!("connect {vip} 3")), BTreeMap::from([(0, 3)]));
    }
    let counts: Vec<(u32, u64, u64)> =
        readings(&mut driver).values().map(|reading| (reading.active, reading.started, reading.failed)).collect();
    assert_eq!(counts, [(0, 3, 0), (0, 3, 0)]);
}

#[test]
fn a_service_without_endpoints_refuses() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[]) else { return };
    set(&mut driver, &service(Transport::Tcp, Policy::RoundRobin, vec![member(1, true, 0)]));
    assert_eq!(client.count(&format!("connect {VIP4} 3")), BTreeMap::from([(0, 3)]));
    assert_eq!(driver.totals().unwrap()[0], ("no-endpoint", 3));
}

#[test]
fn balancing_survives_the_process_and_the_next_one_takes_over() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.serve(&[1, 2, 3, 4]);
    let mut client = Client::new(&place);
    let mut loader = Client::start("loader", &place);
    loader.ask("load");
    assert_eq!(client.count(&format!("hold {VIP4} 40")), BTreeMap::from([(1, 10), (2, 10), (3, 10), (4, 10)]));
    loader.kill();
    assert_eq!(client.count(&format!("hold {VIP4} 40")), BTreeMap::from([(1, 10), (2, 10), (3, 10), (4, 10)]));
    let mut driver = place.driver();
    let adopted: BTreeMap<_, _> = driver.adopt().unwrap().into_iter().map(|(addr, id)| (id, addr)).collect();
    assert_eq!(adopted, (1..=4).map(|i| (u32::from(i), member(i, true, 1).addr)).collect());
    assert_eq!(active(&mut driver), 80);
    // The address that is not wanted any more goes with the first change.
    let mut other = service(Transport::Tcp, Policy::RoundRobin, (1..=2).map(|i| member(i, true, 1)).collect());
    other.name = "other".into();
    other.addrs = vec!["10.99.0.2:80".parse().unwrap()];
    set(&mut driver, &other);
    assert_eq!(client.count("connect 10.99.0.2:80 10"), BTreeMap::from([(1, 5), (2, 5)]));
    assert_eq!(client.count(&format!("connect {VIP4} 1")), BTreeMap::from([(0, 1)]));
    assert_eq!(active(&mut driver), 80);
    client.ask("release");
    wait_until(&mut driver, |found| found.values().all(|reading| reading.active == 0));
    driver.remove().unwrap();
    assert_eq!(client.count("connect 10.99.0.2:80 1"), BTreeMap::from([(0, 1)]));
}

#[test]
fn weights_change_and_endpoints_drain_while_connections_are_held() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[1, 2, 3, 4]) else { return };
    let mut service = service(Transport::Tcp, Policy::RoundRobin, (1..=4).map(|i| member(i, true, 1)).collect());
    set(&mut driver, &service);
    client.ask(&format!("hold {VIP4} 40"));
    let mut members = service.members.to_vec();
    (members[0].state, members[0].weight) = (State::Draining, 0);
    members[1].weight = 2;
    service.members = members.into();
    set(&mut driver, &service);
    assert_eq!(client.count(&format!("hold {VIP4} 40")), BTreeMap::from([(2, 20), (3, 10), (4, 10)]));
    let found = readings(&mut driver);
    assert_eq!((1..=4).map(|id| found[&id].active).collect::<Vec<_>>(), [10, 30, 20, 20]);
}

/// Not a bound on time: the time is printed.
#[test]
fn ten_thousand_services_are_loaded_and_one_changes_alone() {
    if !able() {
        return;
    }
    let place = Place::new();
    let mut settings = place.settings();
    settings.endpoints_max = 131_072;
    let mut driver = evenkeel_kernel::ebpf::Ebpf::new(settings);
    let services: Vec<_> = (0..10_000u32)
        .map(|s| {
            let [_, _, a, b] = s.to_be_bytes();
            let members = (0..10u32).map(|i| {
                let id = s * 10 + i + 1;
                let [_, x, y, z] = id.to_be_bytes();
                Member { id, addr: ([10, x, y, z], 80).into(), weight: 1 + i, state: State::Serving }
            });
            let mut service = service(Transport::Tcp, Policy::Random { draws: 2 }, members.collect());
            service.name = format!("s{s}").into();
            service.addrs = vec![([10, 100, a, b], 80).into()];
            service
        })
        .collect();
    let began = Instant::now();
    driver.apply(&Change { set: services.iter().collect(), removed: Vec::new(), left: Vec::new() }).unwrap();
    println!("10,000 services with 100,000 endpoints: {:?}", began.elapsed());
    let before: Vec<_> = [0, 4_999, 9_999].map(|s: usize| driver.explain(&services[s]).unwrap()).into();
    let began = Instant::now();
    let mut changed = services[4_999].clone();
    changed.policy = Policy::LeastConn;
    set(&mut driver, &changed);
    println!("one of them changed: {:?}", began.elapsed());
    let began = Instant::now();
    readings(&mut driver);
    println!("read: {:?}", began.elapsed());
    let after: Vec<_> = [0, 4_999, 9_999].map(|s: usize| driver.explain(&services[s]).unwrap()).into();
    assert!(before[0] == after[0] && before[2] == after[2] && before[1] != after[1]);
}

/// Prints the time that programs take; asserts nothing of it.
#[test]
#[ignore = "measures, with statistics of the kernel enabled"]
fn times_of_programs() {
    let Some((place, mut driver, mut client)) = Place::staged(&[1, 2, 3, 4]) else { return };
    let statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime).unwrap();
    for (name, policy) in [
        ("random", Policy::Random { draws: 1 }),
        ("two draws", Policy::Random { draws: 2 }),
        ("least", Policy::LeastConn),
        ("round robin", Policy::RoundRobin),
    ] {
        set(&mut driver, &service(Transport::Tcp, policy, (1..=4).map(|i| member(i, true, 1)).collect()));
        let programs = ["connect4", "established", "getpeername4", "sock_release"];
        let now = || programs.map(|program| run_time(&place, program));
        let before = now();
        client.ask(&format!("connect {VIP4} 5000"));
        let times: Vec<String> = (0..4)
            .map(|i| {
                let (ns, runs) = (now()[i].0 - before[i].0, now()[i].1 - before[i].1);
                format!("{} {} ns in {runs} runs", programs[i], ns / runs.max(1))
            })
            .collect();
        println!("{name}: {}", times.join(", "));
    }
    drop(statistics);
}

fn run_time(place: &Place, program: &str) -> (u64, u64) {
    let pin = format!("/sys/fs/bpf/evenkeel-{}/link-{program}", place.name);
    let link = aya::programs::links::FdLink::from(aya::programs::links::PinnedLink::from_pin(pin).unwrap());
    let id = link.info().unwrap().program_id();
    let info = aya::programs::loaded_programs().filter_map(Result::ok).find(|info| info.id() == id).unwrap();
    (info.run_time().as_nanos() as u64, info.run_count())
}

#[test]
fn nothing_is_lacking_but_an_address_that_a_process_listens_on() {
    if !able() {
        return;
    }
    let place = Place::new();
    let mut taken = service(Transport::Tcp, Policy::LeastConn, vec![member(1, true, 1)]);
    taken.addrs = vec!["127.0.1.1:9000".parse().unwrap()];
    let lacks = || place.inside(|| place.driver().lacks(std::slice::from_ref(&taken)));
    assert_eq!(lacks(), []);
    place.serve(&[1]);
    let found = lacks();
    assert!(found.len() == 1 && found[0].problem.contains("listens on 127.0.1.1:9000"), "{found:?}");
}

#[test]
fn maps_of_another_version_are_built_anew() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.serve(&[1, 2]);
    let mut client = Client::new(&place);
    let wanted = service(Transport::Tcp, Policy::RoundRobin, vec![member(1, true, 1), member(2, true, 1)]);
    let mut driver = place.driver();
    set(&mut driver, &wanted);
    drop(driver);
    let pin = format!("/sys/fs/bpf/evenkeel-{}/map-layout", place.name);
    let map = aya::maps::Map::Array(aya::maps::MapData::from_pin(pin).unwrap());
    aya::maps::Array::<_, u64>::try_from(map).unwrap().set(0, 99, 0).unwrap();
    let mut driver = place.driver();
    assert_eq!(driver.adopt().unwrap(), []);
    set(&mut driver, &wanted);
    assert_eq!(client.count(&format!("connect {VIP4} 10")), BTreeMap::from([(1, 5), (2, 5)]));
}

#[test]
fn connections_beyond_the_table_of_flows_are_balanced_and_not_counted() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.serve(&[1, 2]);
    let mut client = Client::new(&place);
    let mut settings = place.settings();
    settings.flows_max = 16;
    let mut driver = evenkeel_kernel::ebpf::Ebpf::new(settings);
    set(&mut driver, &service(Transport::Tcp, Policy::RoundRobin, vec![member(1, true, 1), member(2, true, 1)]));
    assert_eq!(client.count(&format!("hold-uncounted {VIP4} 40")), BTreeMap::from([(1, 20), (2, 20)]));
    assert_eq!(active(&mut driver), 16);
    assert!(driver.totals().unwrap().contains(&("flows-full", 24)));
    client.ask("release");
    wait_until(&mut driver, |found| found.values().all(|reading| reading.active == 0));
}

#[test]
fn a_client_keeps_its_endpoint_for_the_time_of_affinity() {
    let Some((_place, mut driver, mut client)) = Place::staged(&[1, 2, 3, 4]) else { return };
    let both = [true, false].into_iter().flat_map(|ipv4| (1..=4).map(move |i| member(i, ipv4, 1)));
    let mut sticky = service(Transport::Tcp, Policy::Random { draws: 1 }, both.collect());
    sticky.affinity = Some(Duration::from_secs(60));
    set(&mut driver, &sticky);
    for vip in [VIP4, VIP6] {
        let counts = client.count(&format!("connect {vip} 50"));
        assert!(counts.len() == 1 && !counts.contains_key(&0), "{vip}: {counts:?}");
    }
    // Clients of other addresses have endpoints of their own.
    assert_eq!(client.count(&format!("from {VIP4} 200")).len(), 4);
}

/// Programs of others at the same cgroup run too, and stay when these are removed.
#[test]
fn two_balancers_share_a_cgroup() {
    if !able() {
        return;
    }
    let (place, other) = (Place::new(), Place::new());
    place.serve(&[1, 2]);
    let mut client = Client::new(&place);
    let mut settings = other.settings();
    settings.cgroup = Some(place.cgroup.clone());
    let mut drivers = [place.driver(), evenkeel_kernel::ebpf::Ebpf::new(settings)];
    for (i, driver) in (1..).zip(&mut drivers) {
        let mut one = service(Transport::Tcp, Policy::LeastConn, vec![member(i, true, 1)]);
        one.addrs = vec![([10, 99, 0, i], 80).into()];
        set(driver, &one);
    }
    assert_eq!(client.count("connect 10.99.0.1:80 5"), BTreeMap::from([(1, 5)]));
    assert_eq!(client.count("connect 10.99.0.2:80 5"), BTreeMap::from([(2, 5)]));
    drivers[0].remove().unwrap();
    assert_eq!(client.count("connect 10.99.0.1:80 1"), BTreeMap::from([(0, 1)]));
    assert_eq!(client.count("connect 10.99.0.2:80 5"), BTreeMap::from([(2, 5)]));
}
