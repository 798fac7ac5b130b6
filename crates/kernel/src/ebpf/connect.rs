//! Balancing at connect() for clients of this machine, `bpf/connect.c`: attached to a cgroup, and its flows.

use super::maps::MAPS;
use super::object::{self, Pins, Size};
use super::recount::Counted;
use super::sys::Hash;
use crate::driver::Fault;
use crate::service::Transport;
use crate::sockets::Cookies;
use aya::programs::Program;
use aya::{Ebpf, Pod, include_bytes_aligned};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/connect.o");

/// Maps that `bpf/connect.c` declares, in addition to the maps of `bpf/common.h`.
const OWN: [&str; 2] = ["socket_flows", "datagram_flows"];

/// Programs, and their types of attachment, `enum bpf_attach_type`. The end of a socket comes first, and connecting
/// last: no flow is counted whose end would be missed.
const PROGRAMS: [(&str, u32); 10] = [
    ("sock_release", 34),
    ("established", 3),
    ("getpeername4", 29),
    ("getpeername6", 30),
    ("recvmsg4", 19),
    ("recvmsg6", 20),
    ("sendmsg4", 14),
    ("sendmsg6", 15),
    ("connect4", 10),
    ("connect6", 11),
];

/// State of a flow of TCP that is not answered yet.
const FLOW_SENT: u8 = 2;

/// Virtual addresses to which an unconnected socket sends.
const DATAGRAM_FLOWS: usize = 4;

/// `struct socket_flow`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SocketFlow {
    vip: [u8; 16],
    port: [u8; 2],
    protocol: u8,
    state: u8,
    endpoint: u32,
    started_ns: u64,
}

/// `struct datagram_flow`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DatagramFlow {
    vip: [u8; 16],
    port: [u8; 2],
    spare: u16,
    endpoint: u32,
    epoch: u32,
    spare_word: u32,
    last_ns: u64,
    idle_ns: u64,
}

/// `struct datagram_flows`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DatagramFlows {
    flow: [DatagramFlow; DATAGRAM_FLOWS],
}

// SAFETY: bytes and numbers whose sizes add up to 32.
unsafe impl Pod for SocketFlow {}
// SAFETY: bytes and numbers whose sizes add up to 4 times 48.
unsafe impl Pod for DatagramFlows {}

const _: () = assert!(size_of::<SocketFlow>() == 32 && size_of::<DatagramFlows>() == 4 * 48);

pub struct Connect {
    socket_flows: Hash<u64, SocketFlow>,
    datagram_flows: Hash<u64, DatagramFlows>,
    /// Held, though pins keep them too: a cgroup that is removed ends its links.
    _links: Vec<OwnedFd>,
}

impl Connect {
    /// Loads the programs and attaches them, or replaces those that an earlier process has left.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn attach(pins: &Pins, cgroup: Option<&Path>, sizes: &[Size], flows_max: u32) -> Result<Connect, Fault> {
        let folder = match cgroup {
            Some(folder) => folder.to_path_buf(),
            None => root_cgroup().ok_or_else(|| Fault::new("find a cgroup", "no cgroup2 is mounted"))?,
        };
        let cgroup = File::open(&folder).map_err(|error| Fault::new(format!("open {}", folder.display()), error))?;
        let names: Vec<&'static str> = MAPS.into_iter().chain(OWN).collect();
        let mut object = object::load(OBJECT, &names, Some(pins), &all_sizes(sizes, flows_max))?;
        let mut links = Vec::new();
        for (name, kind) in PROGRAMS {
            let program = load_program(&mut object, name)?;
            links.push(object::attach(pins, name, program, &cgroup, kind)?);
        }
        let (socket_flows, datagram_flows) = (Hash::open(&pins.map(OWN[0]))?, Hash::open(&pins.map(OWN[1]))?);
        Ok(Connect { socket_flows, datagram_flows, _links: links })
    }

    /// Returns the sockets that a flow binds to any of these endpoints, though it cannot answer: connected sockets of
    /// UDP, and of TCP those that were not answered yet.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn bound(&self, ids: &HashSet<u32>) -> Result<Cookies, Fault> {
        let mut bound = Cookies::new();
        let add = |&cookie: &u64, flow: &SocketFlow| _ = flow.bound_to(ids).map(|it| bound.insert(cookie, it));
        self.socket_flows.for_each(add).map_err(|error| Fault::new("read flows of sockets", error))?;
        Ok(bound)
    }

    /// Counts flows, and forgets idle flows of datagrams: they are no longer counted. Returns the sockets that
    /// are [bound](Self::bound) to any of these endpoints.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn count(&mut self, counted: &mut Counted, ids: &HashSet<u32>) -> Result<Cookies, Fault> {
        let fault = |error| Fault::new("read flows of sockets", error);
        let mut bound = Cookies::new();
        self.socket_flows
            .for_each(|&cookie, flow| {
                counted.add(flow.endpoint);
                _ = flow.bound_to(ids).map(|it| bound.insert(cookie, it));
            })
            .map_err(fault)?;
        let now_ns = monotonic_ns();
        let mut idle = Vec::new();
        self.datagram_flows
            .for_each(|&cookie, flows| {
                let open =
                    |flow: &&DatagramFlow| flow.endpoint != 0 && now_ns.saturating_sub(flow.last_ns) < flow.idle_ns;
                let before = idle.len();
                idle.push(cookie);
                for flow in flows.flow.iter().filter(open) {
                    counted.add(flow.endpoint);
                    idle.truncate(before);
                }
            })
            .map_err(fault)?;
        for cookie in idle {
            self.datagram_flows.remove(&cookie).map_err(fault)?;
        }
        Ok(bound)
    }
}

impl SocketFlow {
    /// Transport of its socket, if the flow is to any of these endpoints and waits for it.
    fn bound_to(&self, ids: &HashSet<u32>) -> Option<Transport> {
        let transport = if self.protocol == Transport::Udp.number() { Transport::Udp } else { Transport::Tcp };
        let waits = transport == Transport::Udp || self.state == FLOW_SENT;
        (waits && ids.contains(&self.endpoint)).then_some(transport)
    }
}

fn all_sizes(sizes: &[Size], flows_max: u32) -> Vec<Size> {
    // Few sockets send datagrams to a service without connecting: clients of DNS, mostly.
    let own = [(OWN[0], flows_max), (OWN[1], (flows_max / 8).max(256))];
    sizes.iter().copied().chain(own).collect()
}

fn load_program<'o>(object: &'o mut Ebpf, name: &str) -> Result<BorrowedFd<'o>, Fault> {
    let step = || format!("load the program {name}");
    let program = object.program_mut(name).ok_or_else(|| Fault::new(step(), "the object does not have it"))?;
    let loaded = match program {
        Program::CgroupSockAddr(program) => object::load_program(|| program.load()),
        Program::CgroupSock(program) => object::load_program(|| program.load()),
        Program::SockOps(program) => object::load_program(|| program.load()),
        _ => return Err(Fault::new(step(), "its type is unknown")),
    };
    loaded.map_err(|error| Fault::new(step(), object::chain(&error)))?;
    Ok(program.fd().map_err(|error| Fault::new(step(), object::chain(&error)))?.as_fd())
}

/// Programs that share the choice of another program: verifying it takes the kernel most of a second.
const ALIKE: [&str; 3] = ["connect6", "sendmsg4", "sendmsg6"];

/// Loads programs without attaching them, once in the life of the process, to see whether this kernel accepts them.
///
/// # Errors
/// The kernel does not.
pub fn try_load() -> Result<(), Fault> {
    static ACCEPTED: OnceLock<()> = OnceLock::new();
    if ACCEPTED.get().is_some() {
        return Ok(());
    }
    let mut object = object::load(OBJECT, &[], None, &all_sizes(&super::maps::sizes(1024, 1024), 1024))?;
    let names = PROGRAMS.iter().map(|(name, _)| name).filter(|name| !ALIKE.contains(name));
    names.into_iter().try_for_each(|name| load_program(&mut object, name).map(drop))?;
    // Another thread may have found the same.
    let _ = ACCEPTED.set(());
    Ok(())
}

/// Mount of cgroup2, wherever this machine has it.
pub fn root_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    // Spaces in a path are written as \040, and no distribution has such a path.
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let path = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(path))
    })
}

/// Clock of bpf_ktime_get_coarse_ns().
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}
