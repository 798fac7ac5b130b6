//! Driver for nftables: destination translation by connection tracking. Read the files in this order: [`shares`],
//! weights as ranges of numbers; [`ruleset`], the rules, by [`expressions`]; [`transaction`], which applies them;
//! [`listing`], the present rules; [`obstacles`], rules of others that break ours, by their [`conditions`].

// Order: obstacles, listing, conditions, ruleset, transaction, expressions, family, shares
mod conditions;
pub(crate) mod expressions;
mod family;
mod listing;
mod obstacles;
mod ruleset;
mod shares;
pub(crate) mod transaction;

use crate::conntrack::{Conntrack, Entry};
use crate::driver::{Change, Driver, Fault, Lack, Reading, endpoints};
use crate::service::{Member, Policy, Service, Source, Transport};
use evenkeel_config::plan;
use evenkeel_config::planes::algorithms::NFTABLES_HASH;
use family::Family;
use listing::Listed;
use ruleset::{COMMENT, INVALID, MARK_MASK, Names, chain, counter, families, placed, places_map};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transaction::Transaction;

/// Times that a reading may take between two of them; a larger table is read less often.
const READ_SHARE: u32 = 5;

/// Shortest and usual longest time between two readings.
const PAUSE: Range<Duration> = Duration::from_millis(500)..Duration::from_secs(10);

/// Entries of connection tracking to an endpoint from which its source ports run out: the kernel takes them from 1,024
/// to 65,535, and tries some at random.
const PORTS_LOW: u32 = 60_000;

/// Log line after others have removed the table.
const GONE: &str = "another program removed the nftables rules; restoring them";

pub struct Nftables {
    names: Names,
    /// Services that the kernel has, by name.
    services: BTreeMap<Arc<str>, Service>,
    /// Endpoints that the kernel has, by number.
    endpoints: HashMap<u32, Endpoint>,
    conntrack: Conntrack,
    /// True once the table is ours; before, the first change defines the whole.
    is_defined: bool,
    /// Time before which connections are not read again.
    read_after: Instant,
    /// Counts to return until the next reading is due.
    readings: Vec<Reading>,
    /// Packets dropped as invalid: in all, and as the counter of the kernel showed them, which starts anew with the
    /// rules.
    invalid: (u64, u64),
}

struct Endpoint {
    addr: SocketAddr,
    source: Source,
    /// Number of services that have it.
    services: u32,
    /// True while nearly all source ports to it are in use.
    is_short_of_ports: bool,
}

impl Nftables {
    /// Creates the driver, without touching the kernel.
    pub fn new(settings: &plan::Kernel) -> Nftables {
        Nftables {
            names: Names { table: settings.name.to_string(), mark: settings.mark << MARK_MASK.trailing_zeros() },
            services: BTreeMap::new(),
            endpoints: HashMap::new(),
            conntrack: Conntrack::default(),
            is_defined: false,
            read_after: Instant::now(),
            readings: Vec::new(),
            invalid: (0, 0),
        }
    }

    /// Definition of everything anew.
    fn whole<'s>(&self, services: impl Iterator<Item = &'s Service> + Clone) -> Transaction {
        let mut out = Transaction::inet(&self.names.table);
        self.names.renew(&mut out);
        self.names.frame(&mut out);
        let mut seen = HashSet::new();
        let members =
            services.clone().flat_map(|service| service.members.iter().map(|member| (member, service.source)));
        let endpoints: Vec<_> = members.filter(|(member, _)| seen.insert(member.id)).collect();
        self.names.add_endpoints(&mut out, &endpoints);
        for service in services {
            self.names.set_service(&mut out, service, None);
        }
        out
    }

    /// Number of the endpoint of a mark.
    fn id(&self, mark: &[u8]) -> Option<u32> {
        let mark = u32::from_ne_bytes(mark.try_into().ok()?);
        (mark & MARK_MASK == self.names.mark).then_some(mark & !MARK_MASK)
    }

    /// Rules of a change, and the numbers of endpoints that are in no service afterwards.
    fn changed(&self, change: &Change<'_>) -> (Transaction, HashSet<u32>) {
        let mut out = Transaction::inet(&self.names.table);
        let mut uses: HashMap<u32, i64> = HashMap::new();
        let replaced = change.set.iter().map(|service| &service.name).chain(&change.removed);
        for known in replaced.filter_map(|name| self.services.get(name)) {
            known.members.iter().for_each(|member| *uses.entry(member.id).or_default() -= 1);
        }
        members(change).for_each(|(member, _)| *uses.entry(member.id).or_default() += 1);
        let mut new = HashSet::new();
        let is_new = |member: &Member| !self.endpoints.contains_key(&member.id);
        let added: Vec<_> = members(change).filter(|(member, _)| is_new(member) && new.insert(member.id)).collect();
        self.names.add_endpoints(&mut out, &added);
        let mut moved = HashSet::new();
        for (member, source) in members(change) {
            let differs = self.endpoints.get(&member.id).is_some_and(|endpoint| endpoint.source != source);
            if differs && moved.insert(member.id) {
                self.names.set_source(&mut out, member.id, source);
            }
        }
        for service in &change.set {
            self.names.set_service(&mut out, service, self.services.get(&service.name));
        }
        for known in change.removed.iter().filter_map(|name| self.services.get(name)) {
            self.names.remove_service(&mut out, known);
        }
        let mut gone = HashSet::new();
        for (id, uses) in uses {
            let Some(endpoint) = self.endpoints.get(&id) else { continue };
            if i64::from(endpoint.services) + uses <= 0 {
                self.names.remove_endpoint(&mut out, id, endpoint.addr, endpoint.source);
                gone.insert(id);
            }
        }
        // An address stays while another endpoint has it.
        let mut addrs: HashSet<SocketAddr> =
            gone.iter().filter_map(|id| self.endpoints.get(id)).map(|endpoint| endpoint.addr).collect();
        if !addrs.is_empty() {
            let stays = self.endpoints.iter().filter(|(id, _)| !gone.contains(*id)).map(|(_, endpoint)| endpoint.addr);
            stays.chain(added.iter().map(|(member, _)| member.addr)).for_each(|addr| _ = addrs.remove(&addr));
        }
        addrs.iter().for_each(|addr| self.names.remove_target(&mut out, *addr));
        (out, gone)
    }

    /// Services that the kernel has after a change.
    fn after<'s>(&'s self, change: &'s Change<'_>) -> Vec<&'s Service> {
        let replaced: HashSet<&Arc<str>> =
            change.set.iter().map(|service| &service.name).chain(&change.removed).collect();
        let kept = self.services.values().filter(|it| !replaced.contains(&it.name));
        kept.chain(change.set.iter().copied()).collect()
    }

    /// Notes that the kernel has a change.
    fn note(&mut self, change: &Change<'_>) {
        let replaced: Vec<&Arc<str>> = change.set.iter().map(|service| &service.name).chain(&change.removed).collect();
        for name in replaced {
            let Some(known) = self.services.get(name) else { continue };
            for member in known.members.iter() {
                if let Some(endpoint) = self.endpoints.get_mut(&member.id) {
                    endpoint.services -= 1;
                }
            }
        }
        for (member, source) in members(change) {
            let new = Endpoint { addr: member.addr, source, services: 0, is_short_of_ports: false };
            let endpoint = self.endpoints.entry(member.id).or_insert(new);
            (endpoint.source, endpoint.services) = (source, endpoint.services + 1);
        }
        for service in &change.set {
            self.services.insert(service.name.clone(), (*service).clone());
        }
        change.removed.iter().for_each(|name| _ = self.services.remove(name));
        self.endpoints.retain(|_, endpoint| endpoint.services > 0);
    }

    /// Ends flows that would stay at endpoints that cannot answer. Of those in `ids` these are flows of datagrams, and
    /// connections that were never answered: the client's next SYN begins a new connection at another endpoint. The
    /// others were never translated since a service had no endpoint when they began.
    fn end_flows(&mut self, ids: &HashSet<u32>, filled: &[(SocketAddr, Transport)]) -> Result<(), Fault> {
        if !ids.is_empty() {
            let (mark, mask) = (self.names.mark, MARK_MASK);
            let moves = |entry: &Entry| entry.transport == Some(Transport::Udp) || entry.is_unanswered();
            let of_endpoint = |entry: &Entry| ids.contains(&(entry.mark & !MARK_MASK)) && moves(entry);
            self.conntrack.delete(Some((mark, mask)), of_endpoint)?;
        }
        if !filled.is_empty() {
            let was_refused = |entry: &Entry| {
                entry.transport == Some(Transport::Udp)
                    && !entry.is_translated()
                    && filled.contains(&(entry.to, Transport::Udp))
            };
            self.conntrack.delete(None, was_refused)?;
        }
        Ok(())
    }
}

/// Families of services whose packets the kernel does not forward: clients of this machine alone can use them.
fn not_forwarding(services: &[Service]) -> Vec<Lack> {
    let all = [("IPv4", "ipv4/ip_forward", Family::V4), ("IPv6", "ipv6/conf/all/forwarding", Family::V6)];
    let is_lacking = |(_, switch, family): &(&str, &str, Family)| {
        let is_on = fs::read_to_string(Path::new("/proc/sys/net").join(switch)).is_ok_and(|value| value.trim() == "1");
        !is_on && services.iter().any(|service| families(service).any(|of| of == *family))
    };
    let lack = |(name, switch, _): (&str, &str, Family)| {
        let problem = format!(
            "the kernel does not forward packets of {name}: only clients on this machine reach endpoints elsewhere"
        );
        Lack::warning(problem, format!("enable it: sysctl -w net.{}=1", switch.replace('/', ".")))
    };
    all.into_iter().filter(is_lacking).map(lack).collect()
}

/// Members of the services that a change sets, each with the source address that endpoints see.
fn members<'c>(change: &'c Change<'_>) -> impl Iterator<Item = (&'c Member, Source)> {
    change.set.iter().flat_map(|service| service.members.iter().map(|member| (member, service.source)))
}

/// True if some member of the family of an address serves.
fn is_served(service: &Service, addr: SocketAddr) -> bool {
    service.serving().any(|member| Family::of(member.addr) == Family::of(addr))
}

impl Driver for Nftables {
    /// The kernel stops tracking connections with the last rule that needs it, and translated connections end.
    fn carries_flows(&self) -> bool {
        true
    }

    fn table_max(&self) -> u64 {
        NFTABLES_HASH
    }

    fn lacks(&self, services: &[Service]) -> Vec<Lack> {
        if let Ok(Some(comment)) = listing::comment(&self.names.table)
            && comment != COMMENT
        {
            let problem = format!("the nftables table \"{}\" exists, and is not evenkeel's", self.names.table);
            return vec![Lack::new(problem, "set another \"name\" in [kernel]")];
        }
        let mut lacks = not_forwarding(services);
        // A kernel that does not list rules cannot take any either, which is found below.
        lacks.extend(obstacles::obstacles(&self.names.table, services).unwrap_or_default());
        if let Err(fault) = self.whole(services.iter()).check() {
            let help = match rustix::process::geteuid().is_root() {
                true => {
                    "enable CONFIG_NF_TABLES_INET, CONFIG_NFT_CT, CONFIG_NFT_NAT, CONFIG_NFT_MASQ, CONFIG_NFT_NUMGEN and \
                    CONFIG_NFT_HASH in the kernel"
                }
                false => "run as root, or with the capability CAP_NET_ADMIN",
            };
            lacks.push(Lack::new(fault.to_string(), help));
        }
        lacks
    }

    fn adopt(&mut self) -> Result<Vec<(SocketAddr, u32)>, Fault> {
        let mut known = Vec::new();
        for map in ["endpoints4", "endpoints6"] {
            let elements = listing::elements(&self.names.table, map)?;
            known.extend(elements.iter().filter_map(|element| Some((placed(&element.value)?, self.id(&element.key)?))));
        }
        Ok(known)
    }

    fn apply(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        let (rules, gone) = if self.is_defined {
            self.changed(change)
        } else {
            (self.whole(change.set.iter().copied()), HashSet::new())
        };
        let mut filled = Vec::new();
        for service in change.set.iter().filter(|service| service.transport == Transport::Udp) {
            let before = self.services.get(&service.name);
            let was = |addr| before.is_some_and(|known| is_served(known, addr));
            let addrs = service.addrs.iter().filter(|addr| is_served(service, **addr) && !was(**addr));
            filled.extend(addrs.map(|addr| (*addr, service.transport)));
        }
        if let Err(fault) = rules.apply() {
            // Without the table, no change of it succeeds.
            if !self.is_defined || listing::comment(&self.names.table)?.is_some() {
                return Err(fault);
            }
            tracing::warn!(table = self.names.table, "{GONE}");
            self.whole(self.after(change).into_iter()).apply()?;
        }
        self.note(change);
        self.is_defined = true;
        self.read_after = Instant::now();
        let down = change.set.iter().flat_map(|service| service.members.iter()).filter(|member| member.is_down());
        let ids: HashSet<u32> = down.map(|member| member.id).chain(change.left.iter().copied()).chain(gone).collect();
        // The rules are in place: a failure here is no reason to apply them again.
        if let Err(fault) = self.end_flows(&ids, &filled) {
            tracing::warn!(%fault, "cannot end flows to endpoints that are down");
        }
        Ok(())
    }

    fn read(&mut self, readings: &mut dyn FnMut(Reading)) -> Result<(), Fault> {
        let now = Instant::now();
        if now >= self.read_after {
            self.read_all()?;
            let took = now.elapsed();
            let pause = (took * READ_SHARE).clamp(PAUSE.start, PAUSE.end.max(took));
            self.read_after = Instant::now() + pause;
        }
        self.readings.iter().for_each(|reading| readings(*reading));
        Ok(())
    }

    fn totals(&self) -> Result<Vec<(&'static str, u64)>, Fault> {
        Ok(vec![("invalid", self.invalid.0)])
    }

    fn found(&mut self) -> Result<Option<String>, Fault> {
        if listing::comment(&self.names.table)?.as_deref() != Some(COMMENT) {
            return Ok(None);
        }
        let known = endpoints(self.adopt()?.len());
        Ok(Some(format!("table inet {} with {known}", self.names.table)))
    }

    fn remove(&mut self) -> Result<(), Fault> {
        if listing::comment(&self.names.table)?.as_deref() == Some(COMMENT) {
            let mut rules = Transaction::inet(&self.names.table);
            rules.delete_table();
            rules.apply()?;
            // Without rules no end of a connection is seen, and its entry would count for days.
            self.conntrack.delete(Some((self.names.mark, MARK_MASK)), |_| true)?;
        }
        (self.services, self.endpoints, self.is_defined) = (BTreeMap::new(), HashMap::new(), false);
        Ok(())
    }

    fn explain(&mut self, service: &Service) -> Result<Vec<String>, Fault> {
        let table = &self.names.table;
        let started: HashMap<String, u64> = listing::counters(table)?.into_iter().collect();
        let mut lines = Vec::new();
        for family in families(service) {
            let mut elements = listing::elements(table, &places_map(service, family))?;
            elements.sort_by(|a, b| a.key.cmp(&b.key).then(b.is_end.cmp(&a.is_end)));
            let number = |listed: &Listed| Some(u32::from_be_bytes(listed.key[..].try_into().ok()?));
            let modulus = elements.last().and_then(number).unwrap_or_default();
            if modulus == 0 {
                lines.push(format!("chain {}: no endpoint serves, and clients are refused", chain(service, family)));
                continue;
            }
            let source = match &service.policy {
                Policy::Random { .. } | Policy::LeastConn => "a random number",
                Policy::RoundRobin => "a turn",
                Policy::Maglev { .. } => "the hash of the client's address",
            };
            lines.push(format!("chain {}: {source} below {modulus} chooses", chain(service, family)));
            let mut places: BTreeMap<u32, u32> = BTreeMap::new();
            for bounds in elements.windows(2) {
                let [first, end] = bounds else { continue };
                if let Some(((id, first), end)) = self.id(&first.value).zip(number(first)).zip(number(end)) {
                    *places.entry(id).or_default() += end.saturating_sub(first);
                }
            }
            for member in service.members.iter().filter(|member| Family::of(member.addr) == family) {
                if !places.contains_key(&member.id) {
                    let started = started.get(&counter(member.id)).copied().unwrap_or_default();
                    lines.push(format!("  {}: serves no new flows, {started} flows so far", member.addr));
                }
            }
            for (id, places) in places {
                let name =
                    self.endpoints.get(&id).map_or_else(|| format!("number {id}"), |known| known.addr.to_string());
                let started = started.get(&counter(id)).copied().unwrap_or_default();
                lines.push(format!("  {name}: {places} of {modulus}, {started} flows so far"));
            }
        }
        Ok(lines)
    }
}

impl Nftables {
    /// Reads the counts of all endpoints, and restores rules that are gone.
    fn read_all(&mut self) -> Result<(), Fault> {
        let counters = listing::counters(&self.names.table)?;
        if counters.is_empty() && self.is_defined {
            // A reload of the machine's own rules begins with a flush of all of them.
            tracing::warn!(table = self.names.table, "{GONE}");
            return self.whole(self.services.values()).apply();
        }
        let invalid = counters.iter().find(|(name, _)| name == INVALID).map_or(0, |(_, packets)| *packets);
        let (sum, before) = self.invalid;
        self.invalid = (sum + invalid.checked_sub(before).unwrap_or(invalid), invalid);
        let id = |name: &str| name.strip_prefix('e')?.parse::<u32>().ok();
        let started: HashMap<u32, u64> =
            counters.iter().filter_map(|(name, packets)| Some((id(name)?, *packets))).collect();
        let (mut active, mut known): (HashMap<u32, u32>, HashMap<u32, u32>) = Default::default();
        self.conntrack.each(Some((self.names.mark, MARK_MASK)), |entry| {
            let id = entry.mark & !MARK_MASK;
            *known.entry(id).or_default() += 1;
            *active.entry(id).or_default() += u32::from(entry.is_open());
        })?;
        self.warn_of_ports(&known);
        let ids: HashSet<u32> = self.endpoints.keys().chain(active.keys()).copied().collect();
        let reading = |id: u32| Reading {
            id,
            active: active.get(&id).copied().unwrap_or_default(),
            started: started.get(&id).copied().unwrap_or_default(),
            failed: 0,
        };
        self.readings = ids.into_iter().map(reading).collect();
        Ok(())
    }

    /// Logs endpoints to which nearly all source ports are in use, once each time.
    fn warn_of_ports(&mut self, known: &HashMap<u32, u32>) {
        for (id, endpoint) in &mut self.endpoints {
            let is_short = endpoint.source == Source::Own && known.get(id).is_some_and(|entries| *entries >= PORTS_LOW);
            if is_short && !endpoint.is_short_of_ports {
                let text = "nearly all source ports to the endpoint are in use: new connections will fail; add endpoints \
                    or addresses of this machine, or set source = \"client\" on the pool";
                tracing::warn!(endpoint = %endpoint.addr, entries = known.get(id), "{text}");
            }
            endpoint.is_short_of_ports = is_short;
        }
    }
}
