//! Driver of nftables in network namespaces of the tests.

use evenkeel_balance::Rng;
use evenkeel_config::plan;
use evenkeel_kernel::driver::{Change, Driver};
use evenkeel_kernel::nftables::Nftables;
use evenkeel_kernel::service::{Member, Policy, Service, Source, State, Transport};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `work` on a thread in a network namespace of its own, if that can be.
fn in_namespace(work: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        return evenkeel_peers::skip("namespaces need root");
    }
    if !evenkeel_peers::installed(&["nft"]) {
        return;
    }
    let run = || {
        // SAFETY: only the network namespace of this thread changes, which shares no memory or descriptors by it.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root makes namespaces");
        work();
    };
    std::thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn service(at: u32, members: u32) -> Service {
    let member = |n: u32| Member {
        id: at * members + n + 1,
        addr: (Ipv4Addr::from(0x0a00_0001 + at * members + n), 80).into(),
        weight: 1 + n % 3,
        state: State::Serving,
    };
    Service {
        name: format!("service-{at}").into(),
        pool: format!("pool-{at}").into(),
        transport: Transport::Tcp,
        addrs: vec![(Ipv4Addr::from(0x0b00_0001 + at), 80).into()],
        policy: Policy::Random { draws: 1 },
        source: Source::Own,
        affinity: None,
        idle: Duration::from_secs(3600),
        members: (0..members).map(member).collect(),
    }
}

fn set(services: &[Service]) -> Change<'_> {
    Change { set: services.iter().collect(), removed: Vec::new(), left: Vec::new() }
}

/// Runs `nft` in the namespace of the thread, and returns its output.
fn nft(arguments: &[&str]) -> String {
    let output = std::process::Command::new("nft").args(arguments).output().expect("it is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const TABLE: [&str; 4] = ["list", "table", "inet", "evenkeel"];

/// Lines of a list, sorted: elements of hashed sets come in any order, and sets and chains in that of their creation.
fn sorted(text: &str) -> Vec<String> {
    let elements = text.replace("elements = {", "\n").replace(" }", "\n").replace(", ", "\n").replace(",\n", "\n");
    let mut lines: Vec<String> = elements.lines().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn another_source_address_is_that_of_endpoints_that_were_there() {
    in_namespace(|| {
        let mut driver = Nftables::new(&plan::Kernel::default());
        let masqueraded = || nft(&["list", "set", "inet", "evenkeel", "masqueraded"]).contains("0xee000001");
        for (source, is_own) in [(Source::Own, true), (Source::Client, false), (Source::Own, true)] {
            driver.apply(&set(&[Service { source, ..service(0, 3) }])).expect("it is valid");
            assert_eq!(masqueraded(), is_own, "{source:?}");
        }
        let none = Change { set: Vec::new(), removed: vec![service(0, 3).name], left: vec![1, 2, 3] };
        driver.apply(&none).expect("it is valid");
        assert!(!masqueraded());
    });
}

#[test]
fn a_change_after_others_have_flushed_the_rules_brings_all_of_them_back() {
    in_namespace(|| {
        let mut driver = Nftables::new(&plan::Kernel::default());
        // One has no endpoint, so that no counter is missed either.
        let (empty, other) = (service(0, 0), service(1, 2));
        driver.apply(&set(std::slice::from_ref(&empty))).expect("it is valid");
        nft(&["flush", "ruleset"]);
        driver.apply(&set(std::slice::from_ref(&other))).expect("it is valid");
        let rules = nft(&["list", "table", "inet", "evenkeel"]);
        assert!([&empty, &other].into_iter().all(|it| rules.contains(&it.addrs[0].ip().to_string())), "{rules}");
        nft(&["flush", "ruleset"]);
        driver.read(&mut |_| ()).expect("it is restored");
        let other = Service { policy: Policy::RoundRobin, ..other };
        driver.apply(&set(std::slice::from_ref(&other))).expect("it is there");
    });
}

/// Rules of the services of [`the_rules_are_those_that_an_operator_would_write`], as an operator would write them.
const WRITTEN: &str = include_str!("nftables.nft");

#[test]
fn the_rules_are_those_that_an_operator_would_write() {
    in_namespace(|| {
        let mut driver = Nftables::new(&plan::Kernel::default());
        let six = |n: u16| (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n), 80).into();
        let both = service(0, 3);
        let of_six = Member { id: 9, addr: six(9), weight: 1, state: State::Serving };
        let services = [
            Service {
                addrs: vec![both.addrs[0], six(1)],
                members: both.members.iter().cloned().chain([of_six]).collect(),
                affinity: Some(Duration::from_secs(60)),
                ..both
            },
            Service { policy: Policy::RoundRobin, transport: Transport::Udp, source: Source::Client, ..service(4, 2) },
            Service { policy: Policy::Maglev { table: Arc::new([0, 1, 0]) }, ..service(6, 2) },
            service(20, 1),
            service(21, 0),
        ];
        driver.apply(&set(&services)).expect("they are valid");
        let ours = nft(&TABLE);
        nft(&["flush", "ruleset"]);
        let file = std::env::temp_dir().join(format!("evenkeel-{}.nft", std::process::id()));
        std::fs::write(&file, WRITTEN).expect("it is written");
        nft(&["-f", file.to_str().expect("it is UTF-8")]);
        std::fs::remove_file(&file).expect("it is there");
        let theirs = nft(&TABLE);
        assert_eq!(sorted(&ours), sorted(&theirs), "{ours}\n{theirs}");
    });
}

/// Some service of six, with members of a pool of its own.
fn any_service(rng: &mut Rng) -> Service {
    let (at, below) = (rng.below(6), |rng: &mut Rng, n: u32| rng.below(n));
    let six = |n: u32| SocketAddr::from((Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n as u16), 80));
    let mut service = service(at, 4);
    let sixth = |n: u32| Member { id: 100 + at * 2 + n, addr: six(100 + at * 2 + n), weight: n, state: State::Serving };
    let mut members: Vec<Member> = service.members.iter().cloned().chain([sixth(0), sixth(1)]).collect();
    members.retain(|_| below(rng, 3) > 0);
    members.iter_mut().for_each(|member| member.weight *= below(rng, 4));
    let four = service.addrs[0];
    service.addrs = [vec![four], vec![six(at)], vec![four, six(at)]][below(rng, 3) as usize].clone();
    members.retain(|member| service.addrs.iter().any(|addr| addr.is_ipv4() == member.addr.is_ipv4()));
    service.members = members.into();
    service.policy = [Policy::Random { draws: 1 }, Policy::RoundRobin][below(rng, 2) as usize].clone();
    service.affinity = [None, Some(Duration::from_secs(9)), Some(Duration::from_secs(60))][below(rng, 3) as usize];
    service.source = [Source::Own, Source::Client][below(rng, 2) as usize];
    service
}

#[test]
fn changes_lead_to_the_rules_of_a_start_with_the_same_services() {
    in_namespace(|| {
        let mut rng = Rng::new(7);
        let mut driver = Nftables::new(&plan::Kernel::default());
        let mut services: BTreeMap<Arc<str>, Service> = BTreeMap::new();
        for step in 0..60 {
            let set: Vec<Service> = (0..=rng.below(2)).map(|_| any_service(&mut rng)).collect();
            let set: BTreeMap<Arc<str>, Service> = set.into_iter().map(|it| (it.name.clone(), it)).collect();
            let removed = any_service(&mut rng).name;
            let removed = Some(removed).filter(|name| services.contains_key(name) && !set.contains_key(name));
            let change =
                Change { set: set.values().collect(), removed: removed.iter().cloned().collect(), left: vec![] };
            driver.apply(&change).unwrap_or_else(|fault| panic!("step {step}: {fault}: {set:?}"));
            removed.iter().for_each(|name| _ = services.remove(name));
            services.extend(set);
            let changed = nft(&TABLE);
            let all = Change { set: services.values().collect(), removed: vec![], left: vec![] };
            nft(&["flush", "ruleset"]);
            driver = Nftables::new(&plan::Kernel::default());
            driver.apply(&all).expect("they are valid");
            let anew = nft(&TABLE);
            assert_eq!(sorted(&changed), sorted(&anew), "step {step}: {changed}\n{anew}");
        }
    });
}

#[test]
fn ten_thousand_services_are_set_and_one_of_them_changes() {
    in_namespace(|| {
        let mut driver = Nftables::new(&plan::Kernel::default());
        let services: Vec<Service> = (0..10_000).map(|at| service(at, 10)).collect();
        let began = Instant::now();
        driver.apply(&set(&services)).expect("they are valid");
        let all = began.elapsed();
        let changed = Service { policy: Policy::RoundRobin, ..service(77, 8) };
        let began = Instant::now();
        driver.apply(&set(std::slice::from_ref(&changed))).expect("it is valid");
        println!("10,000 services with 100,000 endpoints: {all:?}; a change of one: {:?}", began.elapsed());
        let lines = driver.explain(&changed).expect("it is there").join("\n");
        assert!(lines.contains("a turn below 15 chooses"), "{lines}");
    });
}
