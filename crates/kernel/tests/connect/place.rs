//! Surroundings of a test: a network namespace, a cgroup, endpoints in threads, and clients in a process of their own.

use evenkeel_kernel::driver::{Change, Driver, Reading};
use evenkeel_kernel::ebpf::{Attach, Ebpf, Settings};
use evenkeel_kernel::service::{Member, Policy, Service, Source, State, Transport};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Variable with the role of a process that the test binary starts of itself.
const ROLE: &str = "EVENKEEL_KERNEL_TEST_ROLE";

/// True if eBPF can be used here. If not, says so.
pub fn able() -> bool {
    if !rustix::process::geteuid().is_root() {
        evenkeel_peers::skip("eBPF needs root");
        return false;
    }
    if cgroup_mount().is_none() {
        evenkeel_peers::skip("no cgroup2 is mounted");
        return false;
    }
    evenkeel_peers::installed(&["ip"])
}

fn cgroup_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let row = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    row.split(' ').nth(1).map(PathBuf::from)
}

static PLACES: AtomicU32 = AtomicU32::new(0);

/// Namespace, cgroup and name of a test's own, removed when dropped.
pub struct Place {
    pub name: String,
    pub cgroup: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Place {
    /// Surroundings with these endpoints, a driver and a client; `None` where eBPF cannot be used.
    pub fn staged(endpoints: &[u8]) -> Option<(Place, Ebpf, Client)> {
        able().then(|| {
            let place = Place::new();
            place.serve(endpoints);
            let (driver, client) = (place.driver(), Client::new(&place));
            (place, driver, client)
        })
    }

    pub fn new() -> Place {
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("ekc{}-{number}", std::process::id());
        let cgroup = cgroup_mount().unwrap().join(format!("evenkeel-test-{name}"));
        let place = Place { name, cgroup, stop: Arc::default() };
        place.run(&["ip", "netns", "add", &place.name]);
        place.run(&["ip", "-n", &place.name, "link", "set", "lo", "up"]);
        for i in 1..=9 {
            place.run(&["ip", "-n", &place.name, "addr", "add", &format!("fd00::{i}/128"), "dev", "lo", "nodad"]);
        }
        fs::create_dir(&place.cgroup).unwrap();
        place
    }

    fn run(&self, command: &[&str]) {
        let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn settings(&self) -> Settings {
        Settings {
            name: self.name.clone(),
            cgroup: Some(self.cgroup.clone()),
            interfaces: Vec::new(),
            attach: Attach::Connect,
            flows_max: 4096,
            endpoints_max: 1024,
        }
    }

    pub fn driver(&self) -> Ebpf {
        Ebpf::new(self.settings())
    }

    /// Runs `work` in a thread in the namespace, and returns what it gives.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                enter(&namespace);
                work()
            });
            thread.join().unwrap()
        })
    }

    /// Starts endpoints of TCP and UDP with these last bytes of their addresses, both families, at port 9000. Each
    /// answers its byte.
    pub fn serve(&self, endpoints: &[u8]) {
        for &i in endpoints {
            for ip in [IpAddr::V4(Ipv4Addr::new(127, 0, 1, i)), IpAddr::V6(v6(i))] {
                let (tcp, udp) =
                    self.inside(|| (TcpListener::bind((ip, 9000)).unwrap(), UdpSocket::bind((ip, 9000)).unwrap()));
                tcp.set_nonblocking(true).unwrap();
                udp.set_nonblocking(true).unwrap();
                let stop = Arc::clone(&self.stop);
                std::thread::spawn(move || serve(i, &tcp, &udp, &stop));
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.driver().remove();
        // Processes that were killed leave the cgroup when they have been waited for.
        let until = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.cgroup).is_err() && self.cgroup.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

fn enter(namespace: &File) {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    use std::os::fd::AsFd;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

pub fn v6(i: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(i))
}

fn serve(byte: u8, tcp: &TcpListener, udp: &UdpSocket, stop: &AtomicBool) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !stop.load(Ordering::Relaxed) {
        let mut sockets = [PollFd::new(tcp, PollFlags::IN), PollFd::new(udp, PollFlags::IN)];
        let _ = poll(&mut sockets, Some(&tick));
        while let Ok((mut stream, _)) = tcp.accept() {
            let _ = stream.write_all(&[byte]);
        }
        let mut buffer = [0; 64];
        while let Ok((_, from)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(&[byte], from);
        }
    }
}

/// Member with this number and last byte of its address.
pub fn member(i: u8, ipv4: bool, weight: u32) -> Member {
    let ip = if ipv4 { IpAddr::V4(Ipv4Addr::new(127, 0, 1, i)) } else { IpAddr::V6(v6(i)) };
    let id = u32::from(i) + if ipv4 { 0 } else { 100 };
    Member { id, addr: SocketAddr::new(ip, 9000), weight, state: State::Serving }
}

pub fn service(transport: Transport, policy: Policy, members: Vec<Member>) -> Service {
    let mut addrs: Vec<SocketAddr> = Vec::new();
    if members.iter().any(|member| member.addr.is_ipv4()) {
        addrs.push("10.99.0.1:80".parse().unwrap());
    }
    if members.iter().any(|member| member.addr.is_ipv6()) {
        addrs.push("[fd99::1]:80".parse().unwrap());
    }
    Service {
        name: Arc::from("web"),
        pool: Arc::from("web"),
        transport,
        addrs,
        policy,
        source: Source::Own,
        affinity: None,
        idle: Duration::from_secs(30),
        members: members.into(),
    }
}

pub fn set(driver: &mut dyn Driver, service: &Service) {
    driver.apply(&Change { set: vec![service], removed: Vec::new(), left: Vec::new() }).unwrap();
}

pub fn readings(driver: &mut dyn Driver) -> BTreeMap<u32, Reading> {
    let mut found = BTreeMap::new();
    driver
        .read(&mut |reading| {
            found.insert(reading.id, reading);
        })
        .unwrap();
    found
}

pub fn active(driver: &mut dyn Driver) -> u32 {
    readings(driver).values().map(|reading| reading.active).sum()
}

/// Reads until `done`, for 10 s at most.
pub fn wait_until(driver: &mut dyn Driver, mut done: impl FnMut(&BTreeMap<u32, Reading>) -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let found = readings(driver);
        if done(&found) {
            return;
        }
        assert!(Instant::now() < until, "not reached: {found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Process in the namespace and cgroup of a test, which does what it is asked.
pub struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    pub fn new(place: &Place) -> Client {
        Client::start("client", place)
    }

    /// Process of a role: `client`, or `loader`.
    pub fn start(role: &str, place: &Place) -> Client {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "connect::process_of_a_role", "--nocapture"])
            .env(ROLE, format!("{role} {} {}", place.name, place.cgroup.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Client { process, input, output }
    }

    /// Asks, and returns the words of the answer.
    pub fn ask(&mut self, request: &str) -> String {
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended after {request:?}");
            // The test runner writes lines of its own.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim().to_string();
            }
        }
    }

    /// Asks for connections, and returns how many each endpoint got. 0 counts those that failed.
    pub fn count(&mut self, request: &str) -> BTreeMap<u8, u32> {
        let answer = self.ask(request);
        let mut counts = BTreeMap::new();
        for word in answer.split(' ').filter(|word| !word.is_empty()) {
            *counts.entry(word.parse().unwrap_or_else(|_| panic!("{request:?} gave {answer:?}"))).or_insert(0) += 1;
        }
        counts
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Does what the role of this process asks, until its input ends. Returns at once if it has none.
pub fn play_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    if words[0] == "client" {
        fs::write(Path::new(words[2]).join("cgroup.procs"), std::process::id().to_string()).unwrap();
        enter(&File::open(format!("/run/netns/{}", words[1])).unwrap());
    }
    let place = Place { name: words[1].into(), cgroup: words[2].into(), stop: Arc::default() };
    let mut role = Role { driver: place.driver(), streams: Vec::new(), sockets: Vec::new() };
    // Its owner removes it.
    std::mem::forget(place);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let answer = role.answer(&line.split(' ').collect::<Vec<_>>());
        println!("> {answer}");
    }
    std::process::exit(0);
}

struct Role {
    driver: Ebpf,
    streams: Vec<TcpStream>,
    sockets: Vec<UdpSocket>,
}

impl Role {
    fn answer(&mut self, request: &[&str]) -> String {
        let vip = || -> SocketAddr { request[1].parse().unwrap() };
        let times = || 0..request[2].parse::<usize>().unwrap();
        match request[0] {
            "connect" => times().map(|_| connect(vip(), true).0.to_string()).collect::<Vec<_>>().join(" "),
            // Connections that are not counted have the address of their endpoint.
            "hold" | "hold-uncounted" => {
                let mut answers = Vec::new();
                for _ in times() {
                    let (byte, stream) = connect(vip(), request[0] == "hold");
                    self.streams.extend(stream);
                    answers.push(byte.to_string());
                }
                answers.join(" ")
            }
            // From another address of its own each time.
            "from" => times().map(|i| connect_from(i, vip()).to_string()).collect::<Vec<_>>().join(" "),
            "release" => {
                self.streams.clear();
                self.sockets.clear();
                "done".into()
            }
            "udp-connected" => times().map(|_| self.datagram(vip(), true).to_string()).collect::<Vec<_>>().join(" "),
            "udp" => times().map(|_| self.datagram(vip(), false).to_string()).collect::<Vec<_>>().join(" "),
            // Several datagrams from the latest socket.
            "udp-again" => {
                let socket = self.sockets.last().unwrap();
                times().map(|_| exchange(socket, vip(), false).to_string()).collect::<Vec<_>>().join(" ")
            }
            "load" => {
                let members = (1..=4).map(|i| member(i, true, 1)).collect();
                set(&mut self.driver, &service(Transport::Tcp, Policy::RoundRobin, members));
                "done".into()
            }
            other => panic!("unknown request {other}"),
        }
    }

    fn datagram(&mut self, vip: SocketAddr, connected: bool) -> u8 {
        let any: SocketAddr = if vip.is_ipv4() { "0.0.0.0:0".parse().unwrap() } else { "[::]:0".parse().unwrap() };
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        if connected {
            socket.connect(vip).unwrap();
            assert_eq!(socket.peer_addr().unwrap(), vip);
        }
        let byte = exchange(&socket, vip, connected);
        self.sockets.push(socket);
        byte
    }
}

fn exchange(socket: &UdpSocket, vip: SocketAddr, connected: bool) -> u8 {
    let sent = if connected { socket.send(b"x") } else { socket.send_to(b"x", vip) };
    if sent.is_err() {
        return 0;
    }
    let mut byte = [0];
    let Ok((_, from)) = socket.recv_from(&mut byte) else { return 0 };
    assert_eq!(from, vip, "the answer comes from another address");
    byte[0]
}

fn connect(vip: SocketAddr, counted: bool) -> (u8, Option<TcpStream>) {
    let Ok(mut stream) = TcpStream::connect(vip) else { return (0, None) };
    let peer = stream.peer_addr().unwrap();
    assert!(peer == vip || !counted, "connected to {peer}");
    let mut byte = [0];
    if stream.read_exact(&mut byte).is_err() {
        return (0, None);
    }
    (byte[0], Some(stream))
}

/// Connects from the i-th address of 127.2.0.0/16.
fn connect_from(i: usize, vip: SocketAddr) -> u8 {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 2, (i / 200) as u8, (i % 200) as u8 + 1], 0))).unwrap();
    if connect(&socket, &vip).is_err() {
        return 0;
    }
    let mut stream = TcpStream::from(socket);
    let mut byte = [0];
    if stream.read_exact(&mut byte).is_err() { 0 } else { byte[0] }
}
