//! Driver of nftables in network namespaces of the tests.

use evenkeel_config::plan;
use evenkeel_kernel::driver::{Change, Driver};
use evenkeel_kernel::nftables::Nftables;
use evenkeel_kernel::service::{Member, Policy, Service, Source, State, Transport};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::net::Ipv4Addr;
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
        feedback: false,
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
        assert!(lines.contains("numgen inc mod"), "{lines}");
    });
}
