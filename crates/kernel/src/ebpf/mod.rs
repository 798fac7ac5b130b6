//! Driver of eBPF: programs of the kernel choose an endpoint for each flow, by its load at that moment. Read the files
//! in this order:
//!
//! 1. [`layout`]: values of maps, which `bpf/common.h` declares.
//! 2. [`tables`]: members of a service as programs read them.
//! 3. [`sys`], [`object`]: calls of bpf(2), and how programs are loaded and pinned.
//! 4. [`maps`], [`ranges`]: changes of services, in a single step each.
//! 5. [`connect`]: balancing at connect() for clients of this machine.
//! 6. [`forward`]: balancing of packets that this machine forwards.
//! 7. [`recount`]: corrections of lost counts.
//!
//! Everything is pinned under `/sys/fs/bpf/evenkeel-NAME`: flows continue when the process ends, and the next process
//! takes over. Attaching leaves programs of others in place, which run too.

// Order: connect, forward, recount, maps, object, ranges, tables, layout, sys
#[cfg(test)]
mod choose_tests;
mod connect;
pub mod forward;
mod layout;
mod maps;
mod object;
mod ranges;
mod recount;
mod sys;
mod tables;

use crate::driver::{Change, Driver, Fault, Lack, Reading, endpoints};
use crate::service::{Service, State, Transport};
use crate::sockets::{self, Sockets};
use connect::Connect;
use forward::Forward;
use layout::ENDPOINT_DOWN;
use maps::Maps;
use object::{Pins, Size};
use recount::Recount;
use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Place where flows are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Sockets of clients on this machine, at connect().
    Connect,
    /// Packets that this machine forwards.
    Forward,
    Both,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the balancer, which keeps several on a machine apart.
    pub name: String,
    /// Cgroup whose processes are balanced; `None` = all of the machine.
    pub cgroup: Option<PathBuf>,
    /// Interfaces whose packets are forwarded; none = all of Ethernet that are up.
    pub interfaces: Vec<String>,
    pub attach: Attach,
    /// Most flows that are counted; more are balanced without.
    pub flows_max: u32,
    /// Most endpoints; their numbers are below it.
    pub endpoints_max: u32,
}

/// Driver that balances by programs of eBPF, pinned under its name.
pub struct Ebpf {
    settings: Settings,
    pins: Pins,
    running: Option<Running>,
}

/// Programs and maps that are loaded.
struct Running {
    maps: Maps,
    connect: Option<Connect>,
    forward: Option<Forward>,
    recount: Recount,
    /// Numbers that are read back.
    reported: HashSet<u32>,
    /// Numbers of endpoints that no service has, until their flows have ended.
    left: HashSet<u32>,
    /// Numbers of endpoints that are down.
    down: HashSet<u32>,
    sockets: Sockets,
}

impl Ebpf {
    pub fn new(settings: Settings) -> Ebpf {
        Ebpf { pins: Pins::new(&settings.name), settings, running: None }
    }

    fn sizes(&self) -> Vec<Size> {
        maps::sizes(self.settings.endpoints_max, self.settings.flows_max)
    }

    /// Loads programs and maps, or takes over those that are pinned.
    fn running(&mut self) -> Result<&mut Running, Fault> {
        if self.running.is_none() {
            self.pins.make()?;
            let sizes = self.sizes();
            let connect = match self.settings.attach {
                Attach::Forward => None,
                Attach::Connect | Attach::Both => {
                    Some(Connect::attach(&self.pins, self.settings.cgroup.as_deref(), &sizes, self.settings.flows_max)?)
                }
            };
            let forward = match self.settings.attach {
                Attach::Connect => None,
                Attach::Forward | Attach::Both => {
                    let interfaces = Some(self.settings.interfaces.clone()).filter(|names| !names.is_empty());
                    let settings = forward::Settings {
                        interfaces,
                        flows: self.settings.flows_max,
                        ..forward::Settings::default()
                    };
                    Some(Forward::load(self.pins.folder(), settings, &sizes)?)
                }
            };
            self.pins.complete()?;
            let maps = Maps::open(&self.pins)?;
            if maps.endpoints.len() != self.settings.endpoints_max as usize {
                tracing::warn!(
                    "eBPF: maps of an earlier process have room for {} endpoints, not {}; to replace them, stop evenkeel and run `evenkeel cleanup`",
                    maps.endpoints.len(),
                    self.settings.endpoints_max
                );
            }
            let reported = maps.numbers().into_iter().map(|(_, id)| id).collect();
            self.running = Some(Running {
                maps,
                connect,
                forward,
                recount: Recount::new(),
                reported,
                left: HashSet::new(),
                down: HashSet::new(),
                sockets: Sockets::default(),
            });
        }
        Ok(self.running.as_mut().expect("set above"))
    }
}

impl Running {
    /// Endpoints that cannot answer, or shall not be asked any more.
    fn unable(&self) -> HashSet<u32> {
        self.down.union(&self.left).copied().collect()
    }

    /// Ends sockets that are bound to endpoints which cannot answer.
    fn end_sockets(&mut self) -> Result<(), Fault> {
        let unable = self.unable();
        if let Some(connect) = self.connect.as_ref().filter(|_| !unable.is_empty()) {
            self.sockets.end(connect.bound(&unable)?);
        }
        Ok(())
    }
}

impl Driver for Ebpf {
    /// Sockets that were balanced at connect() need nothing any more; forwarded packets do.
    fn carries_flows(&self) -> bool {
        self.settings.attach != Attach::Connect
    }

    fn lacks(&self, services: &[Service]) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let missing = object::missing_capabilities();
        if !missing.is_empty() {
            let problem = format!("plane \"ebpf\" needs the capabilities {}", missing.join(", "));
            return vec![Lack::new(
                problem,
                "start evenkeel as root, or grant them with AmbientCapabilities= in its systemd unit",
            )];
        }
        if let Some(lack) = object::private_mount() {
            lacks.push(lack);
        }
        let mut lack = |problem: String, help: &str| lacks.push(Lack::new(problem, help));
        if self.settings.attach != Attach::Forward && self.settings.cgroup.is_none() && connect::root_cgroup().is_none()
        {
            lack(
                "no cgroup2 is mounted".into(),
                "mount one: mkdir -p /run/cgroup2 && mount -t cgroup2 none /run/cgroup2",
            );
        }
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !object::mounted() && !known.lines().any(|line| line.ends_with("\tbpf")) {
            lack("this kernel has no bpffs".into(), "use a kernel with CONFIG_BPF_SYSCALL");
        }
        if self.settings.attach != Attach::Forward
            && let Err(fault) = connect::try_load()
        {
            lack(
                format!("cannot load eBPF programs: {}", fault.reason.lines().next().unwrap_or_default()),
                "use Linux 5.18 or newer",
            );
        }
        if self.settings.attach != Attach::Forward && services.iter().any(|it| it.transport == Transport::Udp) {
            lacks.extend(sockets::lack());
        }
        let mut lack = |problem: String, help: &str| lacks.push(Lack::new(problem, help));
        if self.settings.attach != Attach::Connect {
            for (problem, help) in forward::lacks(&self.settings.interfaces, services) {
                lack(problem, help);
            }
        }
        for service in services {
            for addr in listeners(service) {
                lack(
                    format!(
                        "a process of this machine listens on {addr}, an address of the listener \"{}\"",
                        service.name
                    ),
                    "clients on this machine no longer reach that process; stop it, or use another address",
                );
            }
        }
        lacks
    }

    fn adopt(&mut self) -> Result<Vec<(SocketAddr, u32)>, Fault> {
        if !self.pins.left()? {
            return Ok(Vec::new());
        }
        Ok(self.running()?.maps.numbers())
    }

    fn apply(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        if self.running.is_none() {
            self.pins.left()?;
        }
        let running = self.running()?;
        // Addresses first: flows may begin with the tables.
        if let Some(forward) = &mut running.forward {
            forward.apply(change)?;
        }
        running.maps.apply(change)?;
        if let Some(forward) = &mut running.forward {
            let members = change.set.iter().flat_map(|service| service.members.iter());
            let down = members.filter(|member| member.state == State::Down).map(|member| member.id);
            forward.left(&change.left.iter().copied().chain(down).collect())?;
        }
        change.left.iter().for_each(|id| _ = running.down.remove(id));
        for member in change.set.iter().flat_map(|service| service.members.iter()) {
            running.reported.insert(member.id);
            running.left.remove(&member.id);
            match member.is_down() {
                true => running.down.insert(member.id),
                false => running.down.remove(&member.id),
            };
        }
        running.left.extend(&change.left);
        // The maps are in place: a failure here is no reason to change them again.
        if let Err(fault) = running.end_sockets() {
            tracing::warn!(%fault, "eBPF: cannot close sockets to endpoints that are down");
        }
        Ok(())
    }

    fn read(&mut self, readings: &mut dyn FnMut(Reading)) -> Result<(), Fault> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let unable = running.unable();
        let Running { maps, connect, forward, recount, reported, left, sockets, .. } = running;
        if let Some(forward) = forward {
            forward.read()?;
        }
        // No flow is of an endpoint that was never reported.
        let below = reported.iter().max().map_or(0, |highest| highest + 1);
        recount.run(&maps.loads, below, |counted| {
            if let Some(forward) = forward {
                forward.open(below).for_each(|(id, open)| counted.add_all(id, open));
            }
            let Some(connect) = connect else { return Ok(()) };
            // Those that have begun while their endpoint went down.
            sockets.end(connect.count(counted, &unable)?);
            Ok(())
        })?;
        maps.reclaim(false);
        for &id in reported.iter() {
            let load = maps.loads.read(id);
            readings(Reading { id, active: load.open(), started: load.started, failed: load.failed });
        }
        // The last flow of an endpoint that no service has: its number is free.
        for id in left.extract_if(|&id| maps.loads.read(id).open() == 0) {
            let mut endpoint = maps.endpoints.read(id);
            endpoint.flags = ENDPOINT_DOWN;
            maps.endpoints.write(id, endpoint);
            reported.remove(&id);
        }
        Ok(())
    }

    fn follow(&mut self) {
        self.running.iter_mut().filter_map(|running| running.forward.as_mut()).for_each(Forward::follow);
    }

    fn totals(&self) -> Result<Vec<(&'static str, u64)>, Fault> {
        let Some(running) = &self.running else { return Ok(Vec::new()) };
        let mut totals = maps::totals(&self.pins)?;
        totals.extend([("sockets-ended", running.sockets.ended), ("sockets-kept", running.sockets.kept_total)]);
        Ok(totals)
    }

    fn found(&mut self) -> Result<Option<String>, Fault> {
        if let Some(lack) = object::private_mount() {
            return Err(Fault::new("find pinned maps", lack.problem));
        }
        // Adopting would attach programs again.
        if !self.pins.left()? {
            return Ok(None);
        }
        let known = endpoints(Maps::open(&self.pins)?.numbers().len());
        Ok(Some(format!("programs and maps of \"{}\" with {known}", self.settings.name)))
    }

    fn lost(&mut self) -> bool {
        let is_lost = self.running.is_some() && !self.pins.are_there();
        if is_lost {
            self.running = None;
        }
        is_lost
    }

    fn remove(&mut self) -> Result<(), Fault> {
        self.running = None;
        self.pins.remove()
    }

    fn explain(&mut self, service: &Service) -> Result<Vec<String>, Fault> {
        if self.running.is_none() && !self.pins.left()? {
            return Ok(vec!["eBPF: nothing is loaded".into()]);
        }
        let running = self.running()?;
        let mut lines = running.maps.explain(service);
        for member in service.members.iter().filter(|member| member.weight == 0 || member.state != State::Serving) {
            let load = running.maps.loads.read(member.id);
            lines.push(format!("  endpoint {} {}: serves no new flows, {} open", member.id, member.addr, load.open()));
        }
        for (reason, count) in self.totals()?.into_iter().filter(|&(_, count)| count > 0) {
            lines.push(format!("  {reason}: {count}"));
        }
        Ok(lines)
    }
}

/// Addresses of a service that a socket of this network namespace listens on.
fn listeners(service: &Service) -> Vec<SocketAddr> {
    let (tables, state) = match service.transport {
        Transport::Tcp => (["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"], Some("0A")),
        Transport::Udp => (["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"], Some("07")),
    };
    let mut found = Vec::new();
    for table in tables {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let mut fields = line.split_whitespace().skip(1);
            let addr = fields.next().and_then(parse_socket);
            if fields.nth(1) == state
                && let Some(addr) = addr.filter(|addr| service.addrs.contains(addr))
            {
                found.push(addr);
            }
        }
    }
    found
}

/// Reads an address of `/proc/net`, whose words have the order of this machine.
fn parse_socket(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<u8>> = (0..ip.len() / 8)
        .map(|i| u32::from_str_radix(ip.get(8 * i..8 * i + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect::<Option<Vec<[u8; 4]>>>()
        .map(|words| words.concat());
    let bytes = words?;
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_proc_net_are_read() {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let v4 = format!("{}:0050", word([127, 0, 0, 1]));
        assert_eq!(parse_socket(&v4), Some("127.0.0.1:80".parse().unwrap()));
        let v6 = format!("{}{}{}{}:01BB", word([0x20, 1, 0xd, 0xb8]), word([0; 4]), word([0; 4]), word([0, 0, 0, 1]));
        assert_eq!(parse_socket(&v6), Some("[2001:db8::1]:443".parse().unwrap()));
        assert_eq!(parse_socket("xyz"), None);
    }
}
