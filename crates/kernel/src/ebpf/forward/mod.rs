//! Forwarding of packets by a program at the ingress of interfaces: [`Forward`]. The program is `bpf/forward.c`, which
//! decides about each packet; here it is loaded, attached, given addresses, and its flows are swept.

// Order: sweep, ends, walk, memory, interfaces
mod ends;
mod interfaces;
mod memory;
mod sweep;
mod walk;

use super::object::{chain, load_program};
use crate::driver::{Change, Fault};
use crate::netlink::Events;
use crate::service::{Service, Source};
use aya::maps::{HashMap, MapData, MapInfo};
use aya::programs::links::{FdLink, LinkError, PinnedLink};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use memory::Memory;
use std::collections::{BTreeMap, BTreeSet, HashMap as Table, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sweep::Sweep;

static OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/forward.o");

/// Maps of the program, all pinned. The maps of `common.h` are shared with other programs.
const MAPS: [&str; 16] = [
    "layout",
    "services",
    "records",
    "places",
    "slots",
    "endpoints",
    "loads",
    "affinities",
    "totals",
    "flows",
    "openings",
    "unproven",
    "egresses",
    "scratch",
    "fragments",
    "virtuals",
];

/// Programs of the object: for packets, and for the sweep.
const FORWARD: &str = "forward";
const END_FLOWS: &str = "end_flows";

/// Part of the flows that may be unproven, and the least number.
const UNPROVEN_PART: u32 = 8;
const UNPROVEN_MIN: u32 = 512;

/// Reads of [`Forward::read`] between two looks at routes and interfaces.
const REVIEW: u32 = 10;

/// Time up to which a sweep is repeated every second; a longer sweep is followed by a pause of `SWEEP_PAUSE` times its
/// duration, so that it uses at most 5 % of a core.
const SWEEP_SHORT: Duration = Duration::from_millis(50);
const SWEEP_PAUSE: u32 = 20;

/// Names of pinned links begin so; the number of the interface follows.
const LINK: &str = "link-forward-";

#[derive(Clone, Debug)]
pub struct Settings {
    /// Interfaces with clients or endpoints; `None` = all of Ethernet that are up.
    pub interfaces: Option<Vec<String>>,
    /// Number of flows. When it is reached, the kernel removes those without a packet for the longest time. A table
    /// that exists keeps its size. Flows whose clients have not proved that they are there are in a table of an eighth
    /// of this size.
    pub flows: u32,
    /// Source ports towards endpoints: each may have as many flows with [`Source::Own`] as there are ports.
    pub ports: RangeInclusive<u16>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { interfaces: None, flows: 262_144, ports: 1024..=65535 }
    }
}

/// Forwarding by packets. Loaded programs continue without the process.
pub struct Forward {
    folder: PathBuf,
    settings: Settings,
    program: Ebpf,
    virtuals: HashMap<MapData, [u32; 4], u32>,
    egresses: Memory,
    sweep: Sweep,
    /// Endpoints by number, whose route leads over this machine's own address if `true`.
    endpoints: BTreeMap<u32, (SocketAddr, bool)>,
    /// Number above all endpoints so far.
    below: u32,
    services: BTreeMap<Arc<str>, Service>,
    until_review: u32,
    next_sweep: Instant,
    /// Changes of interfaces; `None` where the kernel does not report them.
    events: Option<Events>,
}

impl Forward {
    /// Loads the program, with maps that are pinned in `folder` or will be, and attaches it. If an earlier program is
    /// attached, it is replaced, and its flows continue. `sizes` has the numbers of entries of shared maps.
    ///
    /// # Errors
    /// The kernel refuses a map, the program or a link.
    pub fn load(folder: &Path, settings: Settings, sizes: &[(&'static str, u32)]) -> Result<Forward, Fault> {
        let mut program = load(folder, &settings, sizes)?;
        let virtuals = program.take_map("virtuals").ok_or_else(|| Fault::new("find the map \"virtuals\"", "no map"))?;
        let virtuals = HashMap::try_from(virtuals).map_err(|e| Fault::new("open the map \"virtuals\"", e))?;
        for name in [FORWARD, END_FLOWS] {
            let classifier = classifier(&mut program, name)?;
            load_program(|| classifier.load())
                .map_err(|e| Fault::new(format!("load the program \"{name}\""), chain(&e)))?;
        }
        let egresses = Memory::of(&folder.join("map-egresses"))?;
        let sweep = Sweep::new(folder)?;
        // Before interfaces are looked at, so that none is missed.
        let events = Events::of_interfaces();
        if let Err(error) = &events {
            tracing::warn!(%error, "eBPF: cannot watch network interfaces; new interfaces are found within ten seconds");
        }
        let mut forward = Forward {
            folder: folder.to_owned(),
            settings,
            program,
            virtuals,
            egresses,
            sweep,
            endpoints: BTreeMap::new(),
            services: BTreeMap::new(),
            below: 0,
            until_review: REVIEW,
            next_sweep: Instant::now(),
            events: events.ok(),
        };
        forward.attach()?;
        Ok(forward)
    }

    /// Prepares forwarding to changed services: called before flows to them can begin.
    ///
    /// # Errors
    /// The kernel refuses an address.
    pub fn apply(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        for name in &change.removed {
            self.services.remove(name);
        }
        self.services.extend(change.set.iter().map(|&service| (service.name.clone(), service.clone())));
        let mut endpoints: BTreeMap<u32, (SocketAddr, bool)> = BTreeMap::new();
        let mut addrs: BTreeSet<[u32; 4]> = BTreeSet::new();
        for service in self.services.values() {
            addrs.extend(service.addrs.iter().map(|addr| words(addr.ip())));
            for member in service.members.iter() {
                let own = service.source == Source::Own;
                endpoints.entry(member.id).and_modify(|at| at.1 |= own).or_insert((member.addr, own));
            }
        }
        let is_new = |(id, at): &(&u32, &(SocketAddr, bool))| self.endpoints.get(id) != Some(at);
        let new: Vec<u32> = endpoints.iter().filter(is_new).map(|(id, _)| *id).collect();
        self.below = endpoints.keys().next_back().map_or(0, |highest| highest + 1).max(self.below);
        self.endpoints = endpoints;
        self.find_sources(&new);
        let old: BTreeSet<[u32; 4]> = self.virtuals.keys().filter_map(Result::ok).collect();
        for addr in addrs.difference(&old) {
            self.virtuals.insert(addr, 1, 0).map_err(|e| Fault::new("write the map \"virtuals\"", e))?;
        }
        for addr in old.difference(&addrs) {
            // It may be gone already.
            let _ = self.virtuals.remove(addr);
        }
        Ok(())
    }

    /// Does its work of each second: ends idle flows, and corrects counts that evicted flows have left.
    ///
    /// # Errors
    /// The kernel refuses to list flows.
    pub fn read(&mut self) -> Result<(), Fault> {
        self.until_review -= 1;
        if self.until_review == 0 {
            self.review();
        }
        if Instant::now() >= self.next_sweep { self.sweep() } else { Ok(()) }
    }

    /// Attaches the program to interfaces that have come, if some have changed: called several times a second.
    pub fn follow(&mut self) {
        if self.events.as_ref().is_some_and(Events::happened) {
            self.review();
        }
    }

    /// Looks at routes and interfaces again.
    fn review(&mut self) {
        self.until_review = REVIEW;
        let all: Vec<u32> = self.endpoints.keys().copied().collect();
        self.find_sources(&all);
        // An interface may be removed meanwhile. The next review attaches missing programs.
        if let Err(fault) = self.attach() {
            tracing::warn!("eBPF: {fault}");
        }
    }

    /// Ends idle flows, and corrects counts, however short ago it did that.
    ///
    /// # Errors
    /// The kernel refuses to list flows.
    pub fn sweep(&mut self) -> Result<(), Fault> {
        self.sweep_with(|| ())
    }

    /// Sweeps, and calls `between` after reading all flows and before ending any. For tests of changes at that time.
    ///
    /// # Errors
    /// The kernel refuses to list flows.
    #[doc(hidden)]
    pub fn sweep_with(&mut self, between: impl FnOnce()) -> Result<(), Fault> {
        let began = Instant::now();
        self.sweep.run(classifier(&mut self.program, END_FLOWS)?, &self.egresses, self.below, between)?;
        let took = began.elapsed();
        // Of many flows, some 0.7 us each, a sweep every second would take a part of a core.
        if took > SWEEP_SHORT {
            self.next_sweep = Instant::now() + (took * SWEEP_PAUSE).min(Duration::from_secs(60));
        }
        Ok(())
    }

    /// Ends the flows of datagrams of endpoints that have left or are down, and connections that they have not
    /// answered.
    ///
    /// # Errors
    /// The kernel refuses to list flows.
    pub fn left(&mut self, ids: &HashSet<u32>) -> Result<(), Fault> {
        self.sweep.left(classifier(&mut self.program, END_FLOWS)?, ids)
    }

    /// Open flows by the number of their endpoint, if it is below `below`; a part of its load.
    pub fn open(&self, below: u32) -> impl Iterator<Item = (u32, u32)> {
        let counts = (0..below).zip(sweep::counts(&self.egresses, below));
        counts.filter(|&(_, open)| open > 0).map(|(id, open)| (id, u32::try_from(open).unwrap_or(u32::MAX)))
    }

    /// Writes this machine's address towards each of these endpoints, as the kernel's routes give it. An endpoint
    /// without a route keeps the address that it had.
    fn find_sources(&self, ids: &[u32]) {
        for (&id, &(addr, own)) in ids.iter().filter_map(|id| self.endpoints.get_key_value(id)) {
            if let Some(source) = own.then(|| source_towards(addr)).flatten() {
                self.egresses.write(id, 0, words(source));
            }
        }
    }

    /// Attaches the program to interfaces that lack it, replaces older programs, and removes it from other interfaces.
    fn attach(&mut self) -> Result<(), Fault> {
        let all = interfaces::ethernets().map_err(|e| Fault::new("list interfaces", e))?;
        let wanted: Table<u32, String> = match &self.settings.interfaces {
            Some(names) => {
                all.into_iter().filter(|(_, name, _)| names.contains(name)).map(|(i, n, _)| (i, n)).collect()
            }
            None => all.into_iter().filter(|&(_, _, up)| up).map(|(i, n, _)| (i, n)).collect(),
        };
        for (index, path) in links(&self.folder)? {
            if !wanted.contains_key(&index) {
                fs::remove_file(&path).map_err(|e| Fault::new(format!("remove {}", path.display()), e))?;
            }
        }
        let program = classifier(&mut self.program, FORWARD)?;
        for (index, name) in wanted {
            let path = self.folder.join(format!("{LINK}{index}"));
            attach_to(program, &name, &path)?;
        }
        Ok(())
    }
}

/// Returns problems of forwarding on this machine, with help.
pub(super) fn lacks(interfaces: &[String], services: &[Service]) -> Vec<(String, &'static str)> {
    let mut lacks = Vec::new();
    let known = interfaces::ethernets().unwrap_or_default();
    for name in interfaces.iter().filter(|name| !known.iter().any(|(_, known, _)| known == *name)) {
        lacks.push((
            format!("no interface of Ethernet has the name \"{name}\""),
            "`ip link` lists interfaces; packets of tunnels and of loopback are not forwarded",
        ));
    }
    if let Err(reason) = tcx() {
        lacks.push((
            format!("this kernel does not attach programs of eBPF to interfaces by links (tcx): {reason}"),
            "use Linux 6.6 or newer, as root or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
        ));
    }
    for (ipv6, switch, help) in [
        (
            false,
            "ipv4/ip_forward",
            "enable it (sysctl -w net.ipv4.ip_forward=1), or set attach = \"connect\" in [kernel]: all clients are on this machine then",
        ),
        (
            true,
            "ipv6/conf/all/forwarding",
            "enable it (sysctl -w net.ipv6.conf.all.forwarding=1), or set attach = \"connect\" in [kernel]: all clients are on this machine then",
        ),
    ] {
        let wanted = services.iter().flat_map(|service| &service.addrs).any(|addr| addr.is_ipv6() == ipv6);
        let value = fs::read_to_string(Path::new("/proc/sys/net").join(switch)).unwrap_or_default();
        if wanted && value.trim() != "1" {
            lacks
                .push((format!("the kernel does not forward packets of {}", if ipv6 { "IPv6" } else { "IPv4" }), help));
        }
    }
    lacks
}

/// Asks which programs are attached to loopback by tcx: kernels without it do not know the question.
fn tcx() -> Result<(), String> {
    SchedClassifier::query_tcx("lo", TcAttachType::Ingress).map(drop).map_err(|e| chain(&e))
}

fn classifier<'e>(object: &'e mut Ebpf, name: &str) -> Result<&'e mut SchedClassifier, Fault> {
    let fault = || format!("find the program \"{name}\"");
    let program = object.program_mut(name).ok_or_else(|| Fault::new(fault(), "no program"))?;
    program.try_into().map_err(|e| Fault::new(fault(), e))
}

/// Loads the object, with its maps.
fn load(folder: &Path, settings: &Settings, sizes: &[(&'static str, u32)]) -> Result<Ebpf, Fault> {
    let (first, last) = (u32::from(*settings.ports.start()), u32::from(*settings.ports.end()));
    let (local_first, local_last) = local_ports();
    let (mut local_first, mut local_last) = (local_first.max(first), local_last.min(last));
    if local_first > local_last {
        (local_first, local_last) = (1, 0);
    }
    // Entries of both directions.
    let entries = settings.flows.saturating_mul(2).max(2);
    // Source ports begin elsewhere after each start: endpoints may still wait for packets of former connections.
    let mut secret = [0; 4];
    rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Fault::new("choose where source ports begin", e))?;
    let secret = u32::from_ne_bytes(secret);
    // A table that exists keeps its size.
    let unproven = MapInfo::from_pin(folder.join("map-openings"))
        .map_or((settings.flows / UNPROVEN_PART).max(UNPROVEN_MIN), |info| info.max_entries() / 2);
    let mut loader = EbpfLoader::new();
    loader
        .override_global("port_secret", &secret, true)
        .override_global("port_first", &first, true)
        .override_global("port_last", &last, true)
        .override_global("port_local_first", &local_first, true)
        .override_global("port_local_last", &local_last, true)
        .override_global("unproven_max", &unproven, true)
        .map_max_entries("flows", entries)
        .map_max_entries("openings", unproven * 2);
    for &(name, size) in sizes {
        loader.map_max_entries(name, size);
        // An entry for each endpoint.
        if name == "loads" {
            loader.map_max_entries("egresses", size);
        }
    }
    for name in MAPS {
        loader.map_pin_path(name, folder.join(format!("map-{name}")));
    }
    loader.load(OBJECT).map_err(|e| Fault::new("create the maps of forwarding", chain(&e)))
}

/// Attaches the program to an interface, by a link that is pinned at `path`: in place of the present program.
fn attach_to(program: &mut SchedClassifier, name: &str, path: &Path) -> Result<(), Fault> {
    let fault = |e: &dyn std::fmt::Display| Fault::new(format!("attach the program of forwarding to {name}"), e);
    match PinnedLink::from_pin(path) {
        Ok(old) => {
            let link: SchedClassifierLink = FdLink::from(old).try_into().map_err(|e: LinkError| fault(&e))?;
            if let Ok(id) = program.attach_to_link(link) {
                // The pin keeps the link.
                drop(program.take_link(id).map_err(|e| fault(&e))?);
                return Ok(());
            }
            // Of an interface that is gone, whose number another interface has.
            fs::remove_file(path).map_err(|e| fault(&e))?;
        }
        Err(LinkError::SyscallError(e)) if e.io_error.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(fault(&e)),
    }
    let id = program
        .attach_with_options(name, TcAttachType::Ingress, TcAttachOptions::TcxOrder(LinkOrder::default()))
        .map_err(|e| fault(&e))?;
    let link: FdLink = program.take_link(id).map_err(|e| fault(&e))?.try_into().map_err(|e: LinkError| fault(&e))?;
    link.pin(path).map_err(|e| fault(&e))?;
    Ok(())
}

/// Pinned links, by the number of their interface.
fn links(folder: &Path) -> Result<Vec<(u32, PathBuf)>, Fault> {
    let fault = |e| Fault::new(format!("list {}", folder.display()), e);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name();
        let index = name.to_str().and_then(|name| name.strip_prefix(LINK)).and_then(|index| index.parse().ok());
        if let Some(index) = index {
            found.push((index, entry.path()));
        }
    }
    Ok(found)
}

/// Ports that the kernel gives to connections of this machine.
fn local_ports() -> (u32, u32) {
    let read = || {
        let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
        let mut ports = text.split_whitespace().map(str::parse);
        Some((ports.next()?.ok()?, ports.next()?.ok()?))
    };
    // The kernel's default.
    read().unwrap_or((32768, 60999))
}

/// Returns the address that this machine uses towards another address. Nothing is sent.
fn source_towards(addr: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match addr {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(addr).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Address as the maps have it: in network order, IPv4 as `::ffff:a.b.c.d`.
fn words(addr: IpAddr) -> [u32; 4] {
    let bytes = match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    };
    let (words, _) = bytes.as_chunks::<4>();
    [0, 1, 2, 3].map(|i| u32::from_ne_bytes(words[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_network_order() {
        let words = words(IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)));
        assert_eq!(words.map(u32::to_ne_bytes).concat(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 2, 3]);
    }

    #[test]
    fn the_own_address_towards_this_machine_is_that_of_loopback() {
        assert_eq!(source_towards("127.0.0.1:9".parse().unwrap()), Some("127.0.0.1".parse().unwrap()));
    }
}
