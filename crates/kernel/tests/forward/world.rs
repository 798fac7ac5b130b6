//! Client, balancer and endpoints, each in a namespace, joined by the balancer.

use crate::spaces::{Space, possible, unique};
use crate::tables::Tables;
use aya::programs::{SchedClassifier, TcAttachType};
use evenkeel_kernel::driver::{Change, Driver, Reading};
use evenkeel_kernel::ebpf::{self, Attach, Ebpf};
use evenkeel_kernel::service::{Member, Policy, Service, Source, State, Transport};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub const IPV4: &str = "10.9.0.1:80";
pub const IPV6: &str = "[fd09::1]:80";

/// Virtual address of [`World::serve_two`].
pub const OTHER: &str = "10.9.0.2:80";

const PORT: u16 = 8080;
/// Port of endpoints that close first.
const CLOSES: u16 = 8081;

#[derive(Clone)]
pub struct Settings {
    pub flows_max: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { flows_max: 16_384 }
    }
}

pub struct World {
    name: String,
    pub client: Space,
    balancer: Space,
    pub endpoints: Vec<Space>,
    driver: Option<Ebpf>,
    settings: Settings,
    peers: Arc<Mutex<Vec<IpAddr>>>,
}

pub fn driver(name: &str, settings: &Settings) -> Ebpf {
    Ebpf::new(ebpf::Settings {
        name: name.to_owned(),
        cgroup: None,
        interfaces: Vec::new(),
        attach: Attach::Forward,
        flows_max: settings.flows_max,
        endpoints_max: 1024,
    })
}

fn service(transport: Transport, source: Source, members: &[(u32, State); 4], port: u16) -> Service {
    let member = |family: u32, i: u32| {
        let (weight, state) = members[i as usize - 1];
        let addr = if family == 4 { format!("10.2.{i}.2:{port}") } else { format!("[fd02:{i}::2]:{port}") };
        Member { id: if family == 4 { i } else { i + 4 }, addr: addr.parse().unwrap(), weight, state }
    };
    Service {
        name: transport.name().into(),
        pool: "pool".into(),
        transport,
        addrs: vec![IPV4.parse().unwrap(), IPV6.parse().unwrap()],
        policy: Policy::Random { draws: 1 },
        source,
        affinity: None,
        idle: Duration::from_secs(3600),
        members: [4, 6].into_iter().flat_map(|family| (1..=4).map(move |i| member(family, i))).collect(),
    }
}

/// Applies the services of the test.
pub fn set(driver: &mut Ebpf, source: Source, members: &[(u32, State); 4], port: u16, transports: &[Transport]) {
    let services: Vec<Service> =
        transports.iter().map(|&transport| service(transport, source, members, port)).collect();
    let change = Change { set: services.iter().collect(), removed: Vec::new(), left: Vec::new() };
    driver.apply(&change).expect("applied");
}

impl World {
    pub fn new(prefix: &str, settings: Settings) -> Option<World> {
        if !possible() {
            return None;
        }
        let (client, balancer) = (Space::new(&format!("{prefix}c")), Space::new(&format!("{prefix}b")));
        let endpoints: Vec<Space> = (1..=4).map(|i| Space::new(&format!("{prefix}{i}"))).collect();
        join(&balancer, "c", &client, "10.1.0", "fd01:");
        for (i, endpoint) in (1..).zip(&endpoints) {
            join(&balancer, &format!("e{i}"), endpoint, &format!("10.2.{i}"), &format!("fd02:{i}:"));
        }
        balancer.set("net/ipv4/ip_forward", "1");
        balancer.set("net/ipv6/conf/all/forwarding", "1");
        let peers = Arc::new(Mutex::new(Vec::new()));
        for (i, endpoint) in (1..).zip(&endpoints) {
            serve(endpoint, i, &peers);
        }
        let name = unique("test");
        let mut world = World { name, client, balancer, endpoints, driver: None, settings, peers };
        world.driver = Some(driver(&world.name, &world.settings));
        Some(world)
    }

    /// Uses the driver in the namespace of the balancer.
    fn with<T: Send + 'static>(&mut self, inside: impl FnOnce(&mut Ebpf) -> T + Send + 'static) -> T {
        let mut driver = self.driver.take().expect("a driver");
        let (driver, value) = self.balancer.enter(move || {
            let value = inside(&mut driver);
            (driver, value)
        });
        self.driver = Some(driver);
        value
    }

    pub fn serve(&mut self, source: Source, weights: &[u32; 4]) {
        self.serve_at(source, weights, PORT);
    }

    /// Serves at another port of the endpoints.
    pub fn serve_at(&mut self, source: Source, weights: &[u32; 4], port: u16) {
        let members = weights.map(|weight| (weight, State::Serving));
        self.with(move |driver| set(driver, source, &members, port, &[Transport::Tcp, Transport::Udp]));
    }

    /// Serves two virtual addresses of one endpoint, or of all with [`Source::Own`], which closes first.
    pub fn serve_two(&mut self, source: Source) {
        for n in 10..210 {
            self.client.ip(&format!("addr add 10.1.0.{n}/24 dev eth0"));
        }
        self.with(move |driver| {
            let serving = (1, State::Serving);
            let members = if source == Source::Own {
                [serving; 4]
            } else {
                [serving, (0, State::Serving), (0, State::Serving), (0, State::Serving)]
            };
            let first = service(Transport::Tcp, source, &members, CLOSES);
            let second = Service { name: "other".into(), addrs: vec![OTHER.parse().unwrap()], ..first.clone() };
            let change = Change { set: vec![&first, &second], removed: Vec::new(), left: Vec::new() };
            driver.apply(&change).expect("applied");
        });
    }

    /// Makes all flows that have ended end ten seconds earlier.
    pub fn age_ends(&self) {
        Tables::new(&self.folder()).change_flows(crate::tables::ENDED, |at| at.saturating_sub(10_000_000_000));
    }

    pub fn change(&mut self, transport: Transport, members: &[(u32, State); 4]) {
        let members = *members;
        self.with(move |driver| set(driver, Source::Own, &members, PORT, &[transport]));
    }

    pub fn readings(&mut self) -> Vec<Reading> {
        self.with(|driver| {
            let mut readings = Vec::new();
            driver.read(&mut |reading| readings.push(reading)).expect("readings");
            readings.sort_by_key(|reading| reading.id);
            readings
        })
    }

    /// Open flows of all endpoints.
    pub fn active(&mut self) -> u32 {
        self.readings().iter().map(|reading| reading.active).sum()
    }

    /// Open flows as the programs count them, without a recount.
    pub fn counted(&self) -> i64 {
        let tables = Tables::new(&self.folder());
        (1..=8).map(|id| tables.load(id).0).sum()
    }

    pub fn total(&self, reason: &str) -> u64 {
        let totals = self.driver.as_ref().expect("a driver").totals().expect("totals");
        totals.iter().find(|(name, _)| *name == reason).expect("a reason").1
    }

    pub fn totals(&self) -> Vec<(&'static str, u64)> {
        let totals = self.driver.as_ref().expect("a driver").totals().expect("totals");
        totals.into_iter().filter(|&(_, count)| count > 0).collect()
    }

    pub fn lacks(&mut self) -> Vec<String> {
        let members = [(1, State::Serving); 4];
        let services = [service(Transport::Tcp, Source::Own, &members, PORT)];
        self.with(move |driver| driver.lacks(&services).into_iter().map(|lack| lack.problem).collect())
    }

    pub fn forbid_forwarding(&self) {
        self.balancer.set("net/ipv4/ip_forward", "0");
    }

    /// Time that the program took so far, and how often it ran.
    pub fn times(&self) -> (Duration, u64) {
        self.balancer.enter(|| {
            let (_, programs) = SchedClassifier::query_tcx("c", TcAttachType::Ingress).expect("programs");
            (programs[0].run_time(), programs[0].run_count())
        })
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/sys/fs/bpf/evenkeel-{}", self.name))
    }

    /// Entries of the table of flows: two for each.
    pub fn entries(&self) -> usize {
        Tables::new(&self.folder()).flows().len()
    }

    /// Makes all flows idle for too long, however short the machine has been up.
    pub fn expire(&self) {
        Tables::new(&self.folder()).change_flows(104, |_| 0);
    }

    pub fn lower_mtu(&self, mtu: &str) {
        for (i, endpoint) in (1..).zip(&self.endpoints) {
            self.balancer.ip(&format!("link set e{i} mtu {mtu}"));
            endpoint.ip(&format!("link set eth0 mtu {mtu}"));
        }
    }

    /// Addresses that endpoints have seen.
    pub fn peers(&self) -> Vec<IpAddr> {
        self.peers.lock().expect("no thread panics with it").clone()
    }

    /// Starts a test of this file as a process: a client, or in the balancer's namespace.
    pub fn child(&self, test: &str) -> Child {
        let space = if test == "held_connections" { &self.client } else { &self.balancer };
        let program = std::env::current_exe().expect("this program");
        let name = format!("forward::{test}");
        // Not by `ip netns exec`, whose mount of /sys has no bpffs.
        Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", space.name))
            .arg(program)
            .args(["--ignored", "--exact", &name])
            .env("EVENKEEL_TEST_WORLD", &self.name)
            .stdout(Stdio::null())
            .spawn()
            .expect("nsenter")
    }

    pub fn unload(&mut self) {
        self.driver = None;
    }

    pub fn attached(&self) -> bool {
        let entries = std::fs::read_dir(self.folder()).into_iter().flatten().filter_map(Result::ok);
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("link-forward-")).count() == 5
    }

    /// Takes over what another process has left, with a new driver.
    pub fn adopt(&mut self) {
        self.driver = Some(driver(&self.name, &self.settings));
        let numbers = self.with(|driver| driver.adopt().expect("adopted"));
        assert_eq!(numbers.len(), 8);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = driver(&self.name, &self.settings).remove();
    }
}

/// Joins a namespace to the balancer.
fn join(balancer: &Space, name: &str, other: &Space, net: &str, net6: &str) {
    balancer.ip(&format!("link add {name} type veth peer name eth0 netns {}", other.name));
    balancer.ip(&format!("addr add {net}.1/24 dev {name}"));
    balancer.ip(&format!("addr add {net6}:1/64 dev {name} nodad"));
    balancer.ip(&format!("link set {name} up"));
    other.ip(&format!("addr add {net}.2/24 dev eth0"));
    other.ip(&format!("addr add {net6}:2/64 dev eth0 nodad"));
    other.ip("link set eth0 up");
    other.ip(&format!("route add default via {net}.1"));
    other.ip(&format!("-6 route add default via {net6}:1"));
}

/// Serves in a namespace until the process ends: a connection gets the number and its bytes back, and so does a
/// datagram.
fn serve(space: &Space, number: u8, peers: &Arc<Mutex<Vec<IpAddr>>>) {
    let (tcp, udp) = space.enter(|| {
        let bind =
            |ip: &str| (TcpListener::bind((ip, PORT)).expect("a port"), UdpSocket::bind((ip, PORT)).expect("a port"));
        // One socket serves both families.
        bind("::")
    });
    let closes = space.enter(|| TcpListener::bind(("::", CLOSES)).expect("a port"));
    for _ in 0..2 {
        let closes = closes.try_clone().expect("a handle");
        thread::spawn(move || {
            for mut stream in closes.incoming().filter_map(Result::ok) {
                let _ = stream.write_all(&[number]);
            }
        });
    }
    let seen = peers.clone();
    thread::spawn(move || {
        for stream in tcp.incoming() {
            let Ok(mut stream) = stream else { continue };
            if let Ok(peer) = stream.peer_addr() {
                seen.lock().expect("no thread panics with it").push(peer.ip().to_canonical());
            }
            thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let _ = stream.write_all(&[number]);
                let mut buffer = vec![0; 65_536];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        buffer[0] = number;
        while let Ok((length, from)) = udp.recv_from(&mut buffer[1..]) {
            let _ = udp.send_to(&buffer[..=length], from);
        }
    });
}

/// Connects from a port of all addresses, and reads until the endpoint closes.
pub fn ends_first(port: u16, to: SocketAddr) -> std::io::Result<()> {
    ends_first_from(SocketAddr::from(([10, 1, 0, 2], port)), to)
}

/// Connects from an address, and reads until the endpoint closes.
pub fn ends_first_from(from: SocketAddr, to: SocketAddr) -> std::io::Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&from.into())?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.connect(&to.into())?;
    let mut stream = std::net::TcpStream::from(socket);
    match stream.read_to_end(&mut Vec::new())? {
        1 => Ok(()),
        length => Err(std::io::Error::other(format!("{length} bytes"))),
    }
}

/// Polls until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends SYNs from addresses that nobody has, from the namespace of the client.
pub fn spoof(count: u32) {
    // SAFETY: a new socket.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) };
    assert!(socket >= 0, "{}", std::io::Error::last_os_error());
    let to: SocketAddr = IPV4.parse().unwrap();
    for n in 0..count {
        let from: SocketAddr = format!("10.1.0.{}:{}", 100 + n % 100, 1024 + n / 100).parse().unwrap();
        let packet = crate::packets::bytes::tcp(from, to, 2, (n, 0), &[], &[]);
        let mut addr: libc::sockaddr_in = unsafe_zeroed();
        addr.sin_family = libc::AF_INET as libc::sa_family_t;
        addr.sin_addr.s_addr = u32::from_ne_bytes([10, 9, 0, 1]);
        // SAFETY: pointers and lengths are of the packet and the address.
        let sent = unsafe {
            libc::sendto(
                socket,
                packet[14..].as_ptr().cast(),
                packet.len() - 14,
                0,
                (&raw const addr).cast(),
                size_of::<libc::sockaddr_in>() as u32,
            )
        };
        assert_eq!(sent as usize, packet.len() - 14, "{}", std::io::Error::last_os_error());
    }
    // SAFETY: the socket is this function's.
    unsafe { libc::close(socket) };
}

fn unsafe_zeroed() -> libc::sockaddr_in {
    // SAFETY: zeros are a value of it.
    unsafe { std::mem::zeroed() }
}
