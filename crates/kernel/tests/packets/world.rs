//! Balancer whose program gets packets made by hand.

use super::bytes::{ACK, Read, SYN, TCP, UDP, tcp};
use crate::spaces::{Pins, Space, possible};
use crate::tables::{self, Tables};
use aya::programs::{SchedClassifier, TcAttachType, TestRun, TestRunOptions};
use evenkeel_kernel::driver::Change;
use evenkeel_kernel::ebpf::forward::{Forward, Settings};
use evenkeel_kernel::service::{Member, Policy, Service, Source, State, Transport};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub const NEXT: i32 = -1;
pub const DROP: i32 = 2;
pub const REDIRECT: i32 = 7;

pub const SECOND: u64 = 1_000_000_000;

/// Balancer with two interfaces, and a service of both protocols and families with one endpoint.
pub struct World {
    pub forward: RefCell<Forward>,
    pub program: SchedClassifier,
    pub tables: Tables,
    client: u32,
    _pins: Pins,
}

/// Addresses of a family: client, virtual address, this machine towards the endpoint, and the endpoint.
#[derive(Clone, Copy)]
pub struct Family {
    pub client: SocketAddr,
    pub service: SocketAddr,
    pub own: SocketAddr,
    pub endpoint: SocketAddr,
    pub id: u32,
}

pub fn families() -> [Family; 2] {
    let addr = |text: &str| text.parse().expect("an address");
    [
        Family {
            client: addr("10.1.0.2:4000"),
            service: addr("10.9.0.1:80"),
            own: addr("10.2.0.1:1"),
            endpoint: addr("10.2.0.2:8080"),
            id: 1,
        },
        Family {
            client: addr("[fd01::2]:4000"),
            service: addr("[fd09::1]:80"),
            own: addr("[fd02::1]:1"),
            endpoint: addr("[fd02::2]:8080"),
            id: 2,
        },
    ]
}

impl World {
    /// Runs a test in a namespace.
    pub fn run(settings: Settings, flags: u8, test: impl FnOnce(World) + Send + 'static) {
        if !possible() {
            return;
        }
        let space = Space::new("p");
        for (name, mac, net) in [("client0", "02:00:00:00:00:01", 1), ("server0", "02:00:00:00:00:03", 2)] {
            space.ip(&format!("link add {name} address {mac} type veth peer name {name}p"));
            space.ip(&format!("link set {name} up"));
            space.ip(&format!("link set {name}p up"));
            space.ip(&format!("addr add 10.{net}.0.1/24 dev {name}"));
            space.ip(&format!("addr add fd0{net}::1/64 dev {name} nodad"));
        }
        space.ip("link set server0 mtu 1400");
        space.set("net/ipv4/ip_forward", "1");
        space.set("net/ipv6/conf/all/forwarding", "1");
        space.enter(move || test(World::new(settings, flags)));
    }

    fn new(settings: Settings, flags: u8) -> World {
        let pins = Pins::new();
        let mut forward = Forward::load(&pins.folder, settings, &[]).expect("the program is loaded");
        let mut tables = Tables::new(&pins.folder);
        for family in families() {
            for (transport, protocol) in [(Transport::Tcp, TCP), (Transport::Udp, UDP)] {
                let source = if flags & tables::CLIENT == 0 { Source::Own } else { Source::Client };
                let service = service(family, transport, source);
                let change = Change { set: vec![&service], removed: Vec::new(), left: Vec::new() };
                forward.apply(&change).expect("addresses");
                tables.service(family.service, protocol, 60 * SECOND, flags, &[(family.id, family.endpoint, 1)]);
                let empty = SocketAddr::new(family.service.ip(), 81);
                tables.service(empty, protocol, 60 * SECOND, flags, &[]);
            }
        }
        let (_, mut programs) = SchedClassifier::query_tcx("client0", TcAttachType::Ingress).expect("programs");
        let info = programs.pop().expect("the program is attached");
        let program = SchedClassifier::from_program_info(info, "forward".into()).expect("the program");
        let client = rustix_index("client0");
        World { forward: RefCell::new(forward), program, tables, client, _pins: pins }
    }

    /// Returns the result of the program, and the packet after it.
    pub fn send(&self, packet: &[u8]) -> (i32, Vec<u8>) {
        let mut context = [0; 192];
        context[40..44].copy_from_slice(&self.client.to_ne_bytes());
        let mut out = vec![0; 4096];
        let mut options = TestRunOptions::new();
        options.data_in = Some(packet);
        options.data_out = Some(&mut out);
        options.ctx_in = Some(&context);
        let result = match self.program.test_run(options) {
            Ok(result) => result,
            // The kernel runs no program on less than a header of IP.
            Err(_) if packet.len() < 54 => return (NEXT, packet.to_vec()),
            Err(e) => panic!("{e}: {packet:02x?}"),
        };
        out.truncate(result.data_size_out as usize);
        (result.return_value as i32, out)
    }

    /// The packet after the program has sent it.
    #[track_caller]
    pub fn sent(&self, packet: &[u8]) -> Read {
        let (result, out) = self.send(packet);
        assert_eq!(result, REDIRECT, "{packet:02x?}");
        Read::frame(&out)
    }

    /// Asserts that the packet is left to the stack, untouched.
    #[track_caller]
    pub fn passes(&self, packet: &[u8]) {
        let (result, out) = self.send(packet);
        assert_eq!(result, NEXT, "{packet:02x?}");
        assert_eq!(out, packet);
    }

    /// Opens a connection, and returns this machine's end of it.
    pub fn open(&self, family: Family) -> SocketAddr {
        let Family { client, service, endpoint, .. } = family;
        let own = self.sent(&tcp(client, service, SYN, (100, 0), &[], &[])).from();
        self.sent(&tcp(endpoint, own, SYN | ACK, (500, 101), &[], &[]));
        self.sent(&tcp(client, service, ACK, (101, 501), &[], &[]));
        own
    }
}

fn rustix_index(name: &str) -> u32 {
    let text = std::process::Command::new("ip").args(["-o", "link", "show", "dev", name]).output().expect("ip").stdout;
    String::from_utf8_lossy(&text).split(':').next().and_then(|index| index.parse().ok()).expect("an interface")
}

fn service(family: Family, transport: Transport, source: Source) -> Service {
    let member = Member { id: family.id, addr: family.endpoint, weight: 1, state: State::Serving };
    Service {
        name: format!("{}{}", transport.name(), family.id).into(),
        pool: "p".into(),
        transport,
        addrs: vec![family.service],
        policy: Policy::Random { draws: 1 },
        source,
        affinity: None,
        idle: Duration::from_secs(60),
        members: Arc::new([member]),
    }
}
