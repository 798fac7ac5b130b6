//! Networks of a test: clients, a machine that balances, and endpoints, each in a network namespace.

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

/// Time after which something that was expected has failed to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Addresses of services, by family; they are local at the balancer.
pub const VIP: &str = "192.0.2.10";
pub const VIP6: &str = "2001:db8::10";
/// Network of clients' addresses.
pub const CLIENTS: &str = "10.1.4.0/22";

/// Network namespace, which ends with its last user.
pub struct Namespace(File);

impl Namespace {
    fn new() -> Namespace {
        let made = thread::spawn(|| {
            // SAFETY: only the network namespace of this thread changes, which shares no memory or descriptors by it.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root makes namespaces");
            File::open("/proc/thread-self/ns/net").expect("a thread has a namespace")
        });
        Namespace(made.join().expect("it does not panic"))
    }

    /// Runs `f` on a thread in this namespace. Its sockets stay there.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network)).expect("root enters");
                f()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.0.as_raw_fd())
    }

    /// Runs commands of `ip`, in one process: starting one is slow in a kernel that is a program.
    fn ip(&self, commands: &[&str]) {
        let output = self.run(|| {
            let mut ip = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("ip is installed");
            let mut input = ip.stdin.take().expect("is a pipe");
            input.write_all((commands.join("\n") + "\n").as_bytes()).expect("ip reads it");
            drop(input);
            ip.wait_with_output().expect("ip ends")
        });
        assert!(output.status.success(), "ip: {}", String::from_utf8_lossy(&output.stderr));
    }
}

pub struct World {
    pub clients: Namespace,
    pub balancer: Namespace,
    pub endpoints: Namespace,
}

impl World {
    /// Makes the networks, and runs `body` where the balancer is.
    pub fn run(body: impl FnOnce(&World) + Send) {
        let world = World { clients: Namespace::new(), balancer: Namespace::new(), endpoints: Namespace::new() };
        world.balancer.ip(&[
            &format!("link add clients type veth peer name router netns {}", world.clients.path()),
            &format!("link add endpoints type veth peer name router netns {}", world.endpoints.path()),
            "address add 10.1.0.1/24 dev clients",
            "address add 10.2.0.1/24 dev endpoints",
            "address add fd01::1/64 dev clients nodad",
            "address add fd02::1/64 dev endpoints nodad",
            &format!("address add {VIP}/32 dev lo"),
            &format!("address add {VIP6}/128 dev lo"),
            "link set lo up",
            "link set clients up",
            "link set endpoints up",
            &format!("route add {CLIENTS} via 10.1.0.2"),
        ]);
        world.clients.ip(&[
            "address add 10.1.0.2/24 dev router",
            "address add fd01::2/64 dev router nodad",
            "link set lo up",
            "link set router up",
            "route add default via 10.1.0.1",
            "route add default via fd01::1",
            &format!("route add local {CLIENTS} dev lo"),
        ]);
        world.endpoints.ip(&[
            "address add 10.2.0.2/24 dev router",
            "address add fd02::2/64 dev router nodad",
            "link set lo up",
            "link set router up",
            "route add default via 10.2.0.1",
            "route add default via fd02::1",
            "route add local 10.2.0.8/29 dev lo",
            "address add fd02::11/64 dev router nodad",
            "address add fd02::12/64 dev router nodad",
        ]);
        world.balancer.run(|| {
            set("net.ipv4.ip_forward", 1);
            set("net.ipv6.conf.all.forwarding", 1);
            set("net.ipv4.vs.expire_nodest_conn", 1);
            set("net.ipv4.vs.expire_quiescent_template", 1);
            body(&world);
        });
    }

    /// Starts an endpoint of TCP and one of UDP. They send their address and the client's, and then back what they get.
    pub fn serve(&self, addr: &str) -> SocketAddr {
        let addr: SocketAddr = addr.parse().expect("an address");
        let (listener, socket) = self.endpoints.run(|| {
            (TcpListener::bind(addr).expect("the address is free"), UdpSocket::bind(addr).expect("the address is free"))
        });
        thread::spawn(move || {
            while let Ok((mut stream, peer)) = listener.accept() {
                thread::spawn(move || {
                    let mut buffer = [0; 64];
                    let mut sent = writeln!(stream, "{addr} {}", peer.ip());
                    while let (Ok(()), Ok(len @ 1..)) = (sent, stream.read(&mut buffer)) {
                        sent = stream.write_all(&buffer[..len]);
                    }
                });
            }
        });
        thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(format!("{addr} {}", peer.ip()).as_bytes(), peer);
            }
        });
        addr
    }

    /// Connects, from an address of choice.
    pub fn connect(&self, to: SocketAddr, from: Option<IpAddr>) -> Connection {
        self.try_connect(to, from).unwrap_or_else(|error| panic!("{to} from {from:?}: {error}"))
    }

    pub fn try_connect(&self, to: SocketAddr, from: Option<IpAddr>) -> std::io::Result<Connection> {
        let stream = self.clients.run(|| {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
            if let Some(from) = from {
                socket.bind(&SockAddr::from(SocketAddr::new(from, 0)))?;
            }
            socket.connect_timeout(&SockAddr::from(to), PATIENCE)?;
            Ok::<_, std::io::Error>(TcpStream::from(socket))
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let (endpoint, client) = parse(&line);
        Ok(Connection { stream, endpoint, client })
    }

    pub fn datagrams(&self, to: SocketAddr) -> UdpSocket {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = self.clients.run(|| UdpSocket::bind(any)).expect("a port is free");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("it has timeouts");
        socket.connect(to).expect("there is a route");
        socket
    }
}

/// Asks an endpoint of UDP who it is, again if a datagram gets lost.
pub fn ask(socket: &UdpSocket) -> SocketAddr {
    let mut buffer = [0; 128];
    let mut answer = None;
    until("a datagram is answered", || {
        let _ = socket.send(b"?");
        answer = socket.recv(&mut buffer).ok();
        answer.is_some()
    });
    parse(&String::from_utf8_lossy(&buffer[..answer.expect("there was one")])).0
}

fn parse(line: &str) -> (SocketAddr, IpAddr) {
    let (endpoint, client) = line.trim().split_once(' ').unwrap_or_else(|| panic!("not an endpoint's line: {line:?}"));
    (endpoint.parse().expect("an address"), client.parse().expect("an address"))
}

/// Connection through the balancer.
pub struct Connection {
    stream: BufReader<TcpStream>,
    pub endpoint: SocketAddr,
    /// Client's address as the endpoint sees it.
    pub client: IpAddr,
}

impl Connection {
    /// Sends bytes there and back.
    pub fn echo(&mut self) {
        self.stream.get_mut().write_all(b"ping").expect("the connection stands");
        let mut back = [0; 4];
        self.stream.read_exact(&mut back).expect("the connection stands");
        assert_eq!(&back, b"ping");
    }
}

/// Waits for something that happens on its own.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "it does not happen that {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sets a setting of the kernel in the namespace of this thread.
pub fn set(name: &str, value: u32) {
    // The first use of IPVS loads its module, which has settings.
    let _ = evenkeel_kernel::netlink::Family::open("IPVS", 1);
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value.to_string()).unwrap_or_else(|error| panic!("{path}: {error}"));
}
