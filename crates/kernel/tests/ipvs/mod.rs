//! The driver of IPVS, in a kernel that has it: [`crate::uml`] runs these tests inside.

mod world;

use crate::uml::inside;
use evenkeel_kernel::driver::{Change, Driver, Reading};
use evenkeel_kernel::ipvs::Ipvs;
use evenkeel_kernel::netlink::Family;
use evenkeel_kernel::service::{Member, Policy, Service, Source, State, Transport};
use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use world::{VIP, VIP6, World, ask, set, until};

/// Commands and attributes of IPVS that only tests use.
const SET_CONFIG: u8 = 12;
const FLUSH: u8 = 17;
const TIMEOUT_TCP: u16 = 4;
const TIMEOUT_FIN: u16 = 5;
const TIMEOUT_UDP: u16 = 6;

fn vip(port: u16) -> SocketAddr {
    SocketAddr::new(VIP.parse().expect("an address"), port)
}

fn service(
    name: &str,
    addr: SocketAddr,
    transport: Transport,
    policy: Policy,
    members: &[(SocketAddr, u32)],
) -> Service {
    let member = |(index, (addr, weight)): (usize, &(SocketAddr, u32))| Member {
        id: index as u32 + 1,
        addr: *addr,
        weight: *weight,
        state: State::Serving,
    };
    Service {
        name: name.into(),
        pool: name.into(),
        transport,
        addrs: vec![addr],
        policy,
        source: Source::Client,
        affinity: None,
        idle: Duration::from_secs(60),
        members: members.iter().enumerate().map(member).collect(),
    }
}

/// Returns the service with another state of its first member.
fn first_is(service: &Service, state: State) -> Service {
    let mut members = service.members.to_vec();
    members[0].state = state;
    Service { members: members.into(), ..service.clone() }
}

/// Folder of a process' own, which ends with the kernel.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    env::temp_dir().join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn apply(driver: &mut Ipvs, services: &[&Service]) {
    let change = Change { set: services.to_vec(), removed: Vec::new(), left: Vec::new() };
    driver.apply(&change).unwrap_or_else(|fault| panic!("{fault}"));
}

fn read(driver: &mut Ipvs) -> BTreeMap<u32, Reading> {
    let mut readings = BTreeMap::new();
    let result = driver.read(&mut |reading| {
        readings.insert(reading.id, reading);
    });
    result.unwrap_or_else(|fault| panic!("{fault}"));
    readings
}

fn active(driver: &mut Ipvs) -> Vec<u32> {
    read(driver).values().map(|reading| reading.active).collect()
}

fn started(driver: &mut Ipvs) -> Vec<u64> {
    read(driver).values().map(|reading| reading.started).collect()
}

/// Waits until connections are counted: the kernel sums them up every two seconds.
fn until_started(driver: &mut Ipvs, expected: &[u64]) {
    let mut counts = Vec::new();
    until("the kernel counts connections", || {
        counts = started(driver);
        counts.iter().zip(expected).all(|(count, expected)| count >= expected)
    });
    assert_eq!(counts, expected);
}

fn explain(driver: &mut Ipvs, service: &Service) -> String {
    driver.explain(service).unwrap_or_else(|fault| panic!("{fault}")).join("\n")
}

fn lacks(driver: &Ipvs, service: &Service) -> String {
    let lacks = driver.lacks(std::slice::from_ref(service));
    lacks.iter().map(|lack| format!("{}: {}\n", lack.problem, lack.help)).collect()
}

/// Connects `n` times, each connection closed before the next, and counts by endpoint.
fn shares(world: &World, to: SocketAddr, n: usize) -> BTreeMap<SocketAddr, usize> {
    let mut shares = BTreeMap::new();
    for _ in 0..n {
        *shares.entry(world.connect(to, None).endpoint).or_insert(0) += 1;
    }
    shares
}

/// Sends a command of administration.
fn administer(command: u8, attributes: &[(u16, u32)]) {
    let mut family = Family::open("IPVS", 1).expect("this kernel has IPVS");
    let mut payload = family.payload(command);
    for (kind, value) in attributes {
        payload.push_u32(*kind, *value);
    }
    family.request(0, &payload, |_| ()).expect("root may do it");
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn round_robin_follows_weights_and_their_changes() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let (a, b) = (world.serve("10.2.0.11:80"), world.serve("10.2.0.12:80"));
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let of = |weights: [u32; 2]| {
            service("web", vip(80), Transport::Tcp, Policy::RoundRobin, &[(a, weights[0]), (b, weights[1])])
        };
        // The scheduler is deterministic: each round of the weights' sum is exact.
        apply(&mut driver, &[&of([3 << 20, 1 << 20])]);
        assert_eq!(shares(world, vip(80), 40), [(a, 30), (b, 10)].into());
        // A round that has begun ends otherwise than it would have: by three connections at most.
        apply(&mut driver, &[&of([1, 1])]);
        let even = shares(world, vip(80), 40);
        assert!(even[&a].abs_diff(20) <= 3, "{even:?}");
        apply(&mut driver, &[&of([0, 1])]);
        assert_eq!(shares(world, vip(80), 10), [(b, 10)].into());
        assert_eq!(world.connect(vip(80), None).client, "10.1.0.2".parse::<IpAddr>().unwrap());
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn least_connections_are_balanced_and_counted() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let (a, b) = (world.serve("10.2.0.11:80"), world.serve("10.2.0.12:80"));
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let web = service("web", vip(80), Transport::Tcp, Policy::LeastConn, &[(a, 2000), (b, 1000)]);
        apply(&mut driver, &[&web]);
        let mut held: Vec<_> = (0..30).map(|_| world.connect(vip(80), None)).collect();
        // Loads per weight are even after each third connection; those of a handshake count as others do.
        let at_a = held.iter().filter(|connection| connection.endpoint == a).count();
        assert!(at_a.abs_diff(20) <= 1, "{at_a} of 30");
        assert_eq!(active(&mut driver), [at_a as u32, 30 - at_a as u32]);
        until_started(&mut driver, &[at_a as u64, 30 - at_a as u64]);
        // With all of one endpoint's closed, it gets the next ones: closing ones count little.
        held.retain(|connection| connection.endpoint == a);
        until("closed connections are not counted", || active(&mut driver) == [at_a as u32, 0]);
        held.extend((0..8).map(|_| world.connect(vip(80), None)));
        assert!(held[at_a..].iter().all(|connection| connection.endpoint == b));
        assert_eq!(active(&mut driver), [at_a as u32, 8]);
        held.iter_mut().for_each(|connection| connection.echo());
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn maglev_keeps_clients_and_follows_weights() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let endpoints: Vec<_> = (11..14).map(|last| world.serve(&format!("10.2.0.{last}:80"))).collect();
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let table: Policy = Policy::Maglev { table: Arc::from([]) };
        let of = |weights: [u32; 3]| {
            let members: Vec<_> = endpoints.iter().copied().zip(weights).collect();
            service("web", vip(80), Transport::Tcp, table.clone(), &members)
        };
        let clients: Vec<IpAddr> =
            (0..80u32).map(|n| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 1, 4, 1)) + n).into()).collect();
        let chosen = || -> Vec<SocketAddr> {
            clients.iter().map(|client| world.connect(vip(80), Some(*client)).endpoint).collect()
        };
        let count = |chosen: &[SocketAddr], of: usize| chosen.iter().filter(|addr| **addr == endpoints[of]).count();
        apply(&mut driver, &[&of([2, 1, 1])]);
        let before = chosen();
        // Binomial with n = 80 and p = 1/2: five standard deviations are 22. The hash has no seed, so it never varies.
        assert!(count(&before, 0).abs_diff(40) <= 22, "{}", count(&before, 0));
        assert_eq!(chosen(), before);
        apply(&mut driver, &[&of([2, 1, 0])]);
        let after = chosen();
        assert_eq!(count(&after, 2), 0);
        // Of clients whose endpoint still serves, few move: the table of the kernel is Maglev's.
        let stayed = before.iter().filter(|addr| **addr != endpoints[2]).count();
        let moved = before.iter().zip(&after).filter(|(was, is)| **was != endpoints[2] && was != is).count();
        eprintln!("maglev: shares {:?}, moved {moved} of {stayed}", [0, 1, 2].map(|of| count(&before, of)));
        assert!(moved * 3 <= stayed, "{moved} of {stayed} moved");
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn datagrams_leave_an_endpoint_that_is_down_and_stay_at_one_that_drains() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let (a, b) = (world.serve("10.2.0.11:53"), world.serve("10.2.0.12:53"));
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let dns = service("dns", vip(53), Transport::Udp, Policy::RoundRobin, &[(a, 1), (b, 1)]);
        apply(&mut driver, &[&dns]);
        let flows: Vec<_> = (0..10).map(|_| world.datagrams(vip(53))).collect();
        let first: Vec<_> = flows.iter().map(ask).collect();
        assert_eq!(first.iter().filter(|addr| **addr == a).count(), 5);
        assert_eq!(active(&mut driver), [5, 5]);
        apply(&mut driver, &[&first_is(&dns, State::Draining)]);
        assert_eq!(flows.iter().map(ask).collect::<Vec<_>>(), first);
        assert_eq!(ask(&world.datagrams(vip(53))), b);
        apply(&mut driver, &[&first_is(&dns, State::Down)]);
        assert!(flows.iter().all(|flow| ask(flow) == b));
        apply(&mut driver, &[&dns]);
        let again: Vec<_> = (0..4).map(|_| ask(&world.datagrams(vip(53)))).collect();
        assert!(again.contains(&a), "{again:?}");
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn a_connection_outlives_drain_and_the_end_of_its_endpoint() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let (a, b) = (world.serve("10.2.0.11:80"), world.serve("10.2.0.12:80"));
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let web = service("web", vip(80), Transport::Tcp, Policy::RoundRobin, &[(a, 1), (b, 1)]);
        apply(&mut driver, &[&web]);
        let mut held = [world.connect(vip(80), None), world.connect(vip(80), None)];
        held.sort_by_key(|connection| connection.endpoint);
        let [at_a, at_b] = &mut held;
        assert_eq!((at_a.endpoint, at_b.endpoint), (a, b));
        for state in [State::Draining, State::Down] {
            apply(&mut driver, &[&first_is(&web, state)]);
            assert_eq!(shares(world, vip(80), 5), [(b, 5)].into());
            at_a.echo();
        }
        let without = Service { members: web.members[1..].into(), ..web.clone() };
        apply(&mut driver, &[&without]);
        assert_eq!(shares(world, vip(80), 5), [(b, 5)].into());
        at_a.echo();
        assert_eq!(read(&mut driver)[&1].active, 1);
        assert!(explain(&mut driver, &web).contains("-> 10.2.0.11:80 Masq weight 0 active 1"));
        // A timeout of one second from the next packet on ends it for the kernel.
        administer(SET_CONFIG, &[(TIMEOUT_TCP, 1), (TIMEOUT_FIN, 1), (TIMEOUT_UDP, 1)]);
        at_a.echo();
        until("the endpoint is removed", || {
            read(&mut driver);
            !explain(&mut driver, &web).contains("10.2.0.11")
        });
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn affinity_keeps_a_client_until_its_endpoint_drains() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let (a, b) = (world.serve("10.2.0.11:80"), world.serve("10.2.0.12:80"));
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let mut web = service("web", vip(80), Transport::Tcp, Policy::RoundRobin, &[(a, 1), (b, 1)]);
        web.affinity = Some(Duration::from_secs(300));
        apply(&mut driver, &[&web]);
        assert!(explain(&mut driver, &web).contains("tcp 192.0.2.10:80 wrr persistent 300"));
        let clients: Vec<IpAddr> = (1..=10).map(|n| Ipv4Addr::new(10, 1, 4, n).into()).collect();
        let first: Vec<_> = clients.iter().map(|from| world.connect(vip(80), Some(*from)).endpoint).collect();
        assert_eq!(first.iter().filter(|addr| **addr == a).count(), 5);
        for (from, first) in clients.iter().zip(&first) {
            assert_eq!(world.connect(vip(80), Some(*from)).endpoint, *first);
        }
        apply(&mut driver, &[&first_is(&web, State::Draining)]);
        for from in &clients {
            assert_eq!(world.connect(vip(80), Some(*from)).endpoint, b);
        }
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn ipv6_is_balanced_as_well() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let (a, b) = (world.serve("[fd02::11]:80"), world.serve("[fd02::12]:80"));
        let old = world.serve("10.2.0.11:80");
        let to: SocketAddr = SocketAddr::new(VIP6.parse().expect("an address"), 80);
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let members = [(a, 1), (b, 1), (old, 1)];
        let mut web = service("web", to, Transport::Tcp, Policy::RoundRobin, &members);
        web.addrs.push(vip(80));
        let dns = service("dns", to, Transport::Udp, Policy::RoundRobin, &members);
        assert_eq!(lacks(&driver, &web), "");
        apply(&mut driver, &[&web, &dns]);
        assert_eq!(shares(world, to, 20), [(a, 10), (b, 10)].into());
        // Endpoints of the address' own family.
        assert_eq!(shares(world, vip(80), 5), [(old, 5)].into());
        assert_eq!(world.connect(to, None).client, "fd01::2".parse::<IpAddr>().unwrap());
        let flows: Vec<_> = (0..4).map(|_| ask(&world.datagrams(to))).collect();
        assert_eq!(flows.iter().filter(|addr| **addr == a).count(), 2);
        // An endpoint's counts are those of all its services.
        until("all are counted", || started(&mut driver).iter().sum::<u64>() == 30);
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn services_survive_their_owner_and_are_taken_over() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let (a, b) = (world.serve("10.2.0.11:80"), world.serve("10.2.0.12:80"));
        let folder = folder();
        let program = env::current_exe().expect("the test has a path");
        let mut owner = Command::new(program)
            .args(["--ignored", "--exact", "--nocapture", "ipvs::owner"])
            .env(OWNER, &folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test starts again");
        let output = BufReader::new(owner.stdout.take().expect("is a pipe"));
        let ready = output.lines().map_while(Result::ok).any(|line| line.contains("ready"));
        assert!(ready, "the owner failed");
        let mut held = world.connect(vip(80), None);
        owner.kill().expect("it runs");
        owner.wait().expect("it has ended");
        held.echo();
        let (web, _) = owned();
        let mut driver = Ipvs::new(&folder, "evenkeel");
        assert_eq!(lacks(&driver, &web), "", "what is ours is no clash");
        assert_eq!(driver.adopt().unwrap(), [(a, 1), (b, 2)]);
        assert_eq!(read(&mut driver).values().map(|reading| reading.active).sum::<u32>(), 1);
        held.echo();
        apply(&mut driver, &[&web]);
        held.echo();
        assert_eq!(world.connect(vip(80), None).endpoint, if held.endpoint == a { b } else { a });
        // The other service is not wanted any more.
        let (_, dns) = owned();
        assert_eq!(explain(&mut driver, &dns).lines().next(), Some("udp 192.0.2.10:53: not in IPVS"));
        // Another namespace owns nothing, with the same file.
        world.endpoints.run(|| assert_eq!(Ipvs::new(&folder, "evenkeel").adopt().unwrap(), []));
        // Another process removes it all, for `cleanup`.
        Ipvs::new(&folder, "evenkeel").remove().unwrap();
        assert_eq!(explain(&mut driver, &web).lines().next(), Some("tcp 192.0.2.10:80: not in IPVS"));
        assert_eq!(std::fs::read_dir(&folder).expect("it was made").count(), 0);
    });
}

/// Variable with the folder of the process that [`owner`] is.
const OWNER: &str = "EVENKEEL_OWNER";

/// Services of the owner: this list is all that both processes share.
fn owned() -> (Service, Service) {
    let members = ["10.2.0.11:80", "10.2.0.12:80"].map(|addr| (addr.parse().expect("an address"), 1));
    (
        service("web", vip(80), Transport::Tcp, Policy::RoundRobin, &members),
        service("dns", vip(53), Transport::Udp, Policy::LeastConn, &members),
    )
}

/// Not a test by itself: the process that is killed.
#[test]
#[ignore = "runs in User-Mode Linux"]
fn owner() {
    let Some(folder) = env::var_os(OWNER) else { return };
    let mut driver = Ipvs::new(Path::new(&folder), "evenkeel");
    let (web, dns) = owned();
    apply(&mut driver, &[&web, &dns]);
    println!("ready");
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn services_of_others_are_never_touched() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let a = world.serve("10.2.0.11:80");
        let of = |name, port| service(name, vip(port), Transport::Tcp, Policy::RoundRobin, &[(a, 1)]);
        // With a folder of its own, it is somebody else.
        let mut other = Ipvs::new(&folder(), "evenkeel");
        apply(&mut other, &[&of("theirs", 80)]);
        let before = explain(&mut other, &of("theirs", 80));
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        assert_eq!(driver.adopt().unwrap(), []);
        assert!(lacks(&driver, &of("ours", 80)).contains("tcp 192.0.2.10:80 already, which is not evenkeel's"));
        apply(&mut driver, &[&of("first", 81)]);
        // The change fails at its last address: those before it are undone, and the end of `first`, too.
        let mut ours = of("ours", 79);
        ours.addrs.extend([vip(81), vip(80)]);
        ours.policy = Policy::LeastConn;
        let change = Change { set: vec![&ours], removed: vec!["first".into()], left: Vec::new() };
        let fault = driver.apply(&change).unwrap_err().to_string();
        assert!(fault.contains("tcp 192.0.2.10:80 already, which is not evenkeel's"), "{fault}");
        assert!(explain(&mut driver, &of("", 79)).starts_with("tcp 192.0.2.10:79: not in IPVS"));
        assert!(
            explain(&mut driver, &of("", 81)).starts_with("tcp 192.0.2.10:81 wrr\n  -> 10.2.0.11:80 Masq weight 1")
        );
        assert_eq!(world.connect(vip(81), None).endpoint, a);
        driver.remove().unwrap();
        assert!(explain(&mut driver, &of("", 81)).starts_with("tcp 192.0.2.10:81: not in IPVS"));
        assert_eq!(explain(&mut other, &of("theirs", 80)), before);
        assert_eq!(world.connect(vip(80), None).endpoint, a);
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn a_service_that_somebody_removed_comes_back() {
    if !inside() {
        return;
    }
    World::run(|world| {
        let a = world.serve("10.2.0.11:80");
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        apply(&mut driver, &[&service("web", vip(80), Transport::Tcp, Policy::LeastConn, &[(a, 1)])]);
        shares(world, vip(80), 3);
        until_started(&mut driver, &[3]);
        administer(FLUSH, &[]);
        read(&mut driver);
        assert_eq!(shares(world, vip(80), 2), [(a, 2)].into());
        // The count goes on, though the kernel's began anew.
        until_started(&mut driver, &[5]);
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn endpoints_see_an_address_of_this_machine_if_they_shall() {
    if !inside() {
        return;
    }
    World::run(|world| {
        set("net.ipv4.vs.conntrack", 1);
        let (a, a6) = (world.serve("10.2.0.11:80"), world.serve("[fd02::11]:80"));
        let vip6 = SocketAddr::new(VIP6.parse().expect("an address"), 80);
        let mut web = service("web", vip(80), Transport::Tcp, Policy::RoundRobin, &[(a, 1), (a6, 1)]);
        web.addrs.push(vip6);
        web.source = Source::Own;
        let plain = service("plain", vip(81), Transport::Tcp, Policy::RoundRobin, &[(a, 1)]);
        let dns = Service { transport: Transport::Udp, name: "dns".into(), ..web.clone() };
        let folder = folder();
        let mut driver = Ipvs::new(&folder, "evenkeel");
        let lacking = lacks(&driver, &web);
        if !lacking.is_empty() {
            // Debian's kernel for User-Mode Linux has no nftables for IP.
            assert!(lacking.contains("endpoints cannot see an address of this machine"), "{lacking}");
            let change = Change { set: vec![&web], removed: Vec::new(), left: Vec::new() };
            let fault = driver.apply(&change).unwrap_err().to_string();
            assert!(fault.contains("change the rules of nftables"), "{fault}");
            assert!(explain(&mut driver, &web).starts_with("tcp 192.0.2.10:80: not in IPVS"));
            return evenkeel_peers::skip("this kernel has no nftables for IP");
        }
        apply(&mut driver, &[&web, &plain, &dns]);
        let ip = |addr: &str| addr.parse::<IpAddr>().expect("an address");
        let mut held = world.connect(vip(80), None);
        assert_eq!(held.client, ip("10.2.0.1"));
        assert_eq!(world.connect(vip6, None).client, ip("fd02::1"));
        assert_eq!(world.connect(vip(81), None).client, ip("10.1.0.2"));
        assert_eq!(ask(&world.datagrams(vip(80))), a);
        assert!(explain(&mut driver, &web).contains("wrr masqueraded"));
        held.echo();
        // Another process takes the rules over, and changes them.
        let mut driver = Ipvs::new(&folder, "evenkeel");
        driver.adopt().unwrap();
        apply(&mut driver, &[&Service { source: Source::Client, ..web.clone() }, &plain]);

        held.echo();
        assert_eq!(world.connect(vip(80), None).client, ip("10.1.0.2"));

        held.echo();
        driver.remove().unwrap();
        let tables = Command::new("nft").args(["list", "tables"]).output().expect("nft is installed");
        assert_eq!(String::from_utf8_lossy(&tables.stdout), "");
    });
}

#[test]
#[ignore = "runs in User-Mode Linux"]
fn lacks_are_named_with_their_fix() {
    if !inside() {
        return;
    }
    World::run(|_| {
        let a = "10.2.0.11:80".parse().unwrap();
        let mut driver = Ipvs::new(&folder(), "evenkeel");
        let of = |policy| service("web", vip(80), Transport::Udp, policy, &[(a, 1)]);
        assert_eq!(lacks(&driver, &of(Policy::LeastConn)), "");
        // Debian's kernel is built without it.
        let twos = of(Policy::Random { draws: 2 });
        assert!(lacks(&driver, &twos).contains("no IPVS scheduler twos: load it with `modprobe ip_vs_twos`"));
        let change = Change { set: vec![&twos], removed: Vec::new(), left: Vec::new() };
        let fault = driver.apply(&change).unwrap_err().to_string();
        assert!(fault.contains("no IPVS scheduler twos"), "{fault}");
        let random = of(Policy::Random { draws: 1 });
        assert!(lacks(&driver, &random).contains("without regard to load"));
        let change = Change { set: vec![&random], removed: Vec::new(), left: Vec::new() };
        driver.apply(&change).unwrap_err();
        // Without an endpoint that serves, a table has no place, and its service comes as random.
        let none = Service { members: Arc::from([]), ..random.clone() };
        assert_eq!(lacks(&driver, &none), "");
        let own = Service { source: Source::Own, ..of(Policy::LeastConn) };
        assert!(lacks(&driver, &own).contains("set it with `sysctl -w net.ipv4.vs.conntrack=1`"));
        let strange = Service { addrs: vec!["198.51.100.1:80".parse().unwrap()], ..of(Policy::LeastConn) };
        assert!(lacks(&driver, &strange).contains("add it with `ip address add 198.51.100.1/32 dev lo`"));
        for name in ["net.ipv4.ip_forward", "net.ipv4.vs.expire_nodest_conn"] {
            set(name, 0);
            assert!(lacks(&driver, &of(Policy::LeastConn)).contains(&format!("set it with `sysctl -w {name}=1`")));
        }
        // Without the capability, nothing else can be asked.
        let none = rustix::thread::CapabilitySet::empty();
        let none = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, none).expect("a thread may give up what it has");
        assert!(lacks(&driver, &of(Policy::LeastConn)).contains("needs the capability CAP_NET_ADMIN"));
    });
}
