//! A site: a namespace of clients, one of the balancer, and one for each of four servers.

use super::mechanism::Mechanism;
use super::namespace::{End, Namespace};
use super::server::{PORT, Server, name_in};
use super::support::{Folder, Running, evenkeel, eventually, get, text, within};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Time without an answer after which a client gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Address family of clients and endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// Virtual port of the listeners.
const VIRTUAL: u16 = 80;

pub struct Site {
    pub mechanism: &'static Mechanism,
    pub family: Family,
    pub servers: Vec<Server>,
    pub endpoints: Vec<Namespace>,
    pub balancer: Namespace,
    pub clients: Namespace,
    folder: Folder,
    pub running: Option<Running>,
    number: u8,
}

impl Site {
    /// Lays out the site and starts evenkeel. `transport`: `tcp` or `udp`. `pool`: its keys, after its endpoints of which
    /// each has the keys of `of`.
    pub fn start(mechanism: &'static Mechanism, family: Family, transport: &str, of: [&str; 4], pool: &str) -> Site {
        let mut site = Site::lay_out(mechanism, family);
        site.write(transport, of, pool);
        site.run();
        site
    }

    /// Lays out the site with its servers, without evenkeel.
    pub fn lay_out(mechanism: &'static Mechanism, family: Family) -> Site {
        let (balancer, clients) = (Namespace::new(), Namespace::new());
        let unique = unique();
        // Programs that balance at connect() see those of the whole machine.
        let number = ((std::process::id() + unique) % 200) as u8 + 20;
        let end = |name: &str, third: u8, host: u8| end(number, name, third, host);
        let endpoints: Vec<Namespace> = (1..=4)
            .map(|n| {
                let namespace = Namespace::new();
                balancer.cable(&end(&format!("e{n}"), n, 1), &namespace, &end("eth0", n, 2));
                namespace.ip(&format!("route add default via 10.{number}.{n}.1"));
                namespace.ip(&format!("-6 route add default via fd{number:02x}:{n}::1"));
                namespace
            })
            .collect();
        cable_clients(&balancer, &clients, number);
        for parameter in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            balancer.set(parameter, "1");
        }
        // Local clients need a route for packets that are redirected afterwards.
        balancer.ip("route add default dev lo");
        balancer.ip("-6 route add default dev lo");
        let servers = endpoints.iter().zip(NAMES).map(|(namespace, name)| Server::start(namespace, name)).collect();
        let folder = Folder::new(&format!("kernel-{}-{unique}", std::process::id()));
        Site { mechanism, family, servers, endpoints, balancer, clients, folder, running: None, number }
    }

    /// Removes the cable between clients and balancer, and lays another one of the same names and addresses.
    pub fn cable_clients_again(&self) {
        self.balancer.ip("link del clients");
        cable_clients(&self.balancer, &self.clients, self.number);
    }

    /// Name of what evenkeel makes in the kernel.
    pub fn name(&self) -> String {
        format!("ek{}n{}", std::process::id(), self.number)
    }

    /// Address of an endpoint, by its index.
    pub fn endpoint(&self, at: usize) -> IpAddr {
        match self.family {
            Family::V4 => IpAddr::from([10, self.number, at as u8 + 1, 2]),
            Family::V6 => format!("fd{:02x}:{}::2", self.number, at + 1).parse().expect("an address"),
        }
    }

    /// Address and port that clients connect to.
    pub fn address(&self) -> SocketAddr {
        // Other than that of a site of another process with the same number.
        let process = std::process::id() / 200 % 100;
        let ip = match self.family {
            Family::V4 => IpAddr::from([10, self.number, 100 + process as u8, 99]),
            Family::V6 => format!("fd{:02x}:{}::99", self.number, 100 + process).parse().expect("an address"),
        };
        SocketAddr::new(ip, VIRTUAL)
    }

    /// Writes the configuration.
    pub fn write(&self, transport: &str, of: [&str; 4], pool: &str) {
        self.write_listener(transport, "", of, pool);
    }

    /// Writes the configuration, with more keys of the listener.
    pub fn write_listener(&self, transport: &str, listener: &str, of: [&str; 4], pool: &str) {
        let list: Vec<_> = (0..4).zip(of).collect();
        self.write_endpoints(transport, listener, &list, pool);
    }

    /// Writes the configuration with these endpoints, by index.
    pub fn write_endpoints(&self, transport: &str, listener: &str, of: &[(usize, &str)], pool: &str) {
        let one = |(at, keys): &(usize, &str)| {
            let addr = SocketAddr::new(self.endpoint(*at), PORT);
            format!("{{ addr = '{addr}', name = '{}', {keys} }}", NAMES[*at])
        };
        let endpoints: Vec<String> = of.iter().map(one).collect();
        let socket = self.folder.0.join("admin.sock");
        let balance = if pool.contains("balance") {
            String::new()
        } else {
            format!("balance = {}\n", self.mechanism.balances[0])
        };
        let config = format!(
            "[runtime]\nworkers = 1\n[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '127.0.0.1:9900' }}\n\
             [kernel]\nname = '{}'\n{}\n[listener.web]\nbind = ['{}']\nmode = '{transport}'\nplane = '{}'\npool = 'web'\n{listener}\n\
             [pool.web]\n{balance}endpoints = [{}]\n{pool}\n",
            socket.display(),
            self.name(),
            self.mechanism.settings,
            self.address(),
            self.mechanism.plane,
            endpoints.join(", ")
        );
        self.folder.file("evenkeel.toml", &config);
    }

    /// Path of the configuration.
    pub fn config(&self) -> String {
        self.folder.0.join("evenkeel.toml").display().to_string()
    }

    /// Starts evenkeel in the namespace of the balancer.
    pub fn run(&mut self) {
        let config = self.config();
        let running = self.balancer.within(|| Running::start(&["run", "-c", &config]));
        self.running = Some(running);
        eventually("an evenkeel that serves", || self.command(&["status"]));
    }

    pub fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("it was started")
    }

    /// Runs a command of operators; its output if it succeeds.
    pub fn command(&self, arguments: &[&str]) -> Option<String> {
        let socket = self.folder.0.join("admin.sock").display().to_string();
        let output = evenkeel(&[arguments, &["--socket", &socket]].concat());
        output.status.success().then(|| text(&output.stdout))
    }

    /// Reloads the configuration.
    #[track_caller]
    pub fn reload(&self) {
        assert!(self.command(&["reload"]).is_some(), "{}", self.said());
    }

    pub fn said(&self) -> String {
        self.running.as_ref().map(Running::said).unwrap_or_default()
    }

    /// Sum of all series of a metric whose lines begin so.
    pub fn sum(&self, begin: &str) -> f64 {
        let (_, metrics) =
            self.balancer.within(|| get("127.0.0.1:9900", "/metrics")).expect("the admin listener answers");
        let lines = metrics.lines().filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Runs `work` where clients are.
    pub fn as_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        if self.mechanism.is_local { self.balancer.within(work) } else { self.clients.within(work) }
    }

    /// Opens a connection to the virtual address from where clients are.
    pub fn connect(&self) -> std::io::Result<TcpStream> {
        let to = self.address();
        self.as_client(|| connect(to))
    }

    /// Asks once over TCP or UDP, on a connection or socket of its own. `None` without an answer.
    pub fn ask(&self, transport: &str) -> Option<String> {
        self.ask_all(transport, 1).pop().flatten()
    }

    /// Asks `n` times, one after the other.
    pub fn ask_all(&self, transport: &str, n: usize) -> Vec<Option<String>> {
        let to = self.address();
        let ask = || match transport {
            "tcp" => said(&mut connect(to).ok()?).ok(),
            _ => {
                let socket = datagrams(to);
                exchange(&socket, b"who").ok()
            }
        };
        self.as_client(|| (0..n).map(|_| ask()).collect())
    }

    /// Asks `n` times, and returns the number of answers of each server, and of those that never came.
    pub fn counts(&self, transport: &str, n: usize) -> [usize; 5] {
        let mut counts = [0; 5];
        for answer in self.ask_all(transport, n) {
            let at = answer.and_then(|name| NAMES.iter().position(|known| *known == name)).unwrap_or(4);
            counts[at] += 1;
        }
        counts
    }

    /// Client whose datagrams are a flow that can move.
    pub fn sender(&self) -> Sender {
        let (to, is_connected) = (self.address(), !self.mechanism.binds_sockets);
        let socket = self.as_client(|| if is_connected { datagrams(to) } else { unconnected(to) });
        Sender { socket, to, is_connected }
    }

    /// Waits until just these endpoints answer.
    #[track_caller]
    pub fn serves(&self, transport: &str, of: &[usize]) {
        let what = format!("{}, {transport}: {of:?}\n{}", self.mechanism.name, self.said());
        eventually(&what, || {
            let counts = self.counts(transport, 40);
            ((0..4).filter(|at| counts[*at] > 0).collect::<Vec<_>>() == of && counts[4] == 0).then_some(())
        });
    }
}

/// End of a cable of the site of a number.
fn end(number: u8, name: &str, third: u8, host: u8) -> End {
    End {
        name: name.into(),
        v4: format!("10.{number}.{third}.{host}/24"),
        v6: format!("fd{number:02x}:{third}::{host}/64"),
    }
}

fn cable_clients(balancer: &Namespace, clients: &Namespace, number: u8) {
    balancer.cable(&end(number, "clients", 0, 1), clients, &end(number, "eth0", 0, 2));
    clients.ip(&format!("route add default via 10.{number}.0.1"));
    clients.ip(&format!("-6 route add default via fd{number:02x}:0::1"));
}

impl Drop for Site {
    /// Ends evenkeel by signals, so that nothing of it stays in the kernel.
    fn drop(&mut self) {
        // Pins outlive the namespace, and stay after on_exit = 'keep'.
        let pins = format!("/sys/fs/bpf/evenkeel-{}", self.name());
        let _remove = Remove(pins);
        for pid in processes_of(&self.config()) {
            // The second one ends it without waiting for flows.
            let told = (0..2).all(|_| kill_process(pid, Signal::TERM).is_ok());
            let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok();
            // One that is not waited for yet is a zombie.
            let is_gone = || state().is_none_or(|state| state.contains(") Z "));
            let _ = told && within(PATIENCE, || is_gone().then_some(())).is_some();
        }
    }
}

/// Processes that run with a configuration: the one that was started, and those that took over.
fn processes_of(config: &str) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let runs = |pid: &i32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|argument| argument == config.as_bytes())
    };
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(runs).filter_map(Pid::from_raw).collect()
}

/// Folder that is removed when dropped.
struct Remove(String);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Client that sends datagrams to one address.
pub struct Sender {
    socket: UdpSocket,
    to: SocketAddr,
    is_connected: bool,
}

impl Sender {
    /// Sends a datagram and returns the name in the answer.
    pub fn exchange(&self, datagram: &[u8]) -> std::io::Result<String> {
        if self.is_connected {
            return exchange(&self.socket, datagram);
        }
        self.socket.send_to(datagram, self.to)?;
        let mut buffer = vec![0; 65_535];
        let (len, _) = self.socket.recv_from(&mut buffer)?;
        Ok(name_in(&buffer[..len]))
    }
}

/// Opens a connection whose reads have a timeout.
pub fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Asks on a connection who is there.
pub fn said(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(b"who\n")?;
    let mut buffer = [0; 64];
    let len = stream.read(&mut buffer)?;
    Ok(name_in(&buffer[..len]))
}

/// Socket for datagrams of the family of an address.
fn unconnected(to: SocketAddr) -> UdpSocket {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0u8; 16].into() };
    let socket = UdpSocket::bind((any, 0)).expect("a port is free");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("sockets have timeouts");
    socket
}

/// Socket for datagrams to an address.
pub fn datagrams(to: SocketAddr) -> UdpSocket {
    let socket = unconnected(to);
    socket.connect(to).expect("there is a route");
    socket
}

/// Sends a datagram and returns the name in the answer.
pub fn exchange(socket: &UdpSocket, datagram: &[u8]) -> std::io::Result<String> {
    socket.send(datagram)?;
    let mut buffer = vec![0; 65_535];
    let len = socket.recv(&mut buffer)?;
    Ok(name_in(&buffer[..len]))
}

fn unique() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
}
