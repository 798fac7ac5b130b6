//! Driver of IPVS, the kernel's own balancer of connections: [`Ipvs`].
//!
//! | policy | scheduler | kept |
//! |---|---|---|
//! | random of two draws | `twos` (Linux 5.12) | approximated: both draws may be the same endpoint; closing connections count 1/256 |
//! | random of a single draw, of three and more | | refused |
//! | fewest connections | `wlc` | approximated: closing connections count 1/256 |
//! | in turn | `wrr` | approximated: weights to a hundredth of the largest; heavier endpoints first, not interleaved |
//! | maglev | `mh` | approximated: the kernel's own hash and table of 4,093 slots |
//!
//! IPVS never changes the client's address. Endpoints that shall see an address of this machine do so by a rule of
//! nftables, in a table of evenkeel's own; others need a route to clients that leads through this machine.
//! A flow without packets ends after the timeouts of IPVS, which all services of the namespace share, not after the
//! service's own. Connections end with their service.
//!
//! The kernel keeps no names of services. Names of evenkeel's services are in a file of its runtime folder, with the
//! boot and the network namespace that they belong to; all others are never touched.

// Order: lacks, state, masquerade, steps, table, entry, weights
mod entry;
mod lacks;
mod masquerade;
mod state;
mod steps;
mod table;
mod weights;

use crate::driver::{Change, Driver, Fault, Lack, Reading};
use crate::service::{Service, Transport};
use entry::{Dest, Entry, Key};
use masquerade::Masquerade;
use rustix::io::Errno;
use state::{Owned, State};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use steps::{Entries, Step};
use table::Table;

/// Services of IPVS in the network namespace of the thread that uses it.
#[derive(Debug)]
pub struct Ipvs {
    state: State,
    masquerade: Masquerade,
    /// Opened when it is first needed.
    table: Option<Table>,
    /// Services as the kernel has them.
    held: Entries,
    /// True until the first change after a takeover.
    adopted: bool,
    /// Latest counts of connections, which the kernel sums up every two seconds, by service and destination; they begin
    /// anew if the kernel forgets a destination.
    latest: HashMap<(Key, SocketAddr), u64>,
    /// Connections so far by number of the endpoint.
    started: HashMap<u32, u64>,
}

impl Ipvs {
    /// Takes a folder for the file of owned services, and the name of this evenkeel, which names it and the table of
    /// nftables.
    pub fn new(folder: &Path, name: &str) -> Ipvs {
        Ipvs {
            state: State::new(folder, name),
            masquerade: Masquerade::new(name),
            table: None,
            held: Entries::new(),
            adopted: false,
            latest: HashMap::new(),
            started: HashMap::new(),
        }
    }

    /// Returns the services of the file.
    fn owned(&self) -> Result<BTreeMap<Key, Owned>, Fault> {
        self.state.read().map_err(|error| Fault::new("read which services of IPVS are evenkeel's", error))
    }

    fn inherit_rules(&mut self, owned: &BTreeMap<Key, Owned>) {
        if owned.values().any(|owned| owned.masqueraded) {
            self.masquerade.inherit();
        }
    }

    /// Returns the entries that change: all entries of services in `change`, and none for those that end.
    fn changes(&self, change: &Change<'_>) -> Result<BTreeMap<Key, Option<Entry>>, Fault> {
        let mut changes = BTreeMap::new();
        let touched: BTreeSet<&str> =
            change.set.iter().map(|service| &*service.name).chain(change.removed.iter().map(|name| &**name)).collect();
        // Entries that were taken over and are not wanted are in neither list.
        let ends = |entry: &Entry| self.adopted || touched.contains(&*entry.name);
        changes.extend(self.held.iter().filter(|(_, entry)| ends(entry)).map(|(key, _)| (*key, None)));
        for service in &change.set {
            let refused = |reason: &str| Fault::new(format!("give listener {:?} to IPVS", &*service.name), reason);
            for (key, entry) in entry::wanted(service).map_err(refused)? {
                changes.insert(key, Some(steps::with_left(self.held.get(&key), entry, &key)));
            }
        }
        Ok(changes)
    }

    /// Counts connections of a destination, and returns those so far of its endpoint.
    fn count(&mut self, key: &Key, found: &table::Found, id: u32) -> u64 {
        let latest = self.latest.entry((*key, found.addr)).or_insert(0);
        let more = if found.started >= *latest { found.started - *latest } else { found.started };
        *latest = found.started;
        let started = self.started.entry(id).or_insert(0);
        *started = started.wrapping_add(more);
        *started
    }

    /// Gives a service that another program has removed to the kernel again.
    fn restore(&mut self, key: &Key) -> Result<(), Fault> {
        tracing::warn!("another program removed {key} from IPVS; adding it again");
        let entry = self.held.get(key).cloned();
        let table = opened(&mut self.table)?;
        steps::run(table, &Entries::new(), &steps::between(&Entries::new(), &[(*key, entry)].into()))
    }

    /// Removes destinations whose endpoints left, and that no connection keeps any more.
    fn remove_left(&mut self, idle: &[(Key, SocketAddr)]) -> Result<(), Fault> {
        for (key, addr) in idle {
            let step = Step::DeleteDest(*key, *addr);
            match step.run(opened(&mut self.table)?) {
                Err(error) if !error.is(Errno::NOENT) => return Err(step.fault(&error)),
                _ => {}
            }
            self.latest.remove(&(*key, *addr));
            if let Some(entry) = self.held.get_mut(key) {
                entry.dests.remove(addr);
            }
        }
        if idle.is_empty() { Ok(()) } else { self.write_state() }
    }

    fn write_state(&mut self) -> Result<(), Fault> {
        self.state.write([&self.held].into_iter()).map_err(unwritten)
    }
}

/// Returns the open flows of a destination: the kernel calls flows of UDP inactive, too, like connections that close.
fn open_flows(key: &Key, found: &table::Found) -> u32 {
    match key.transport {
        Transport::Tcp => found.active,
        Transport::Udp => found.active.saturating_add(found.inactive),
    }
}

fn unwritten(error: std::io::Error) -> Fault {
    Fault::new("write which services of IPVS are evenkeel's", error)
}

/// Opens the table, if it is not open.
fn opened(table: &mut Option<Table>) -> Result<&mut Table, Fault> {
    if table.is_none() {
        let open = Table::open().map_err(|error| Fault::new("open IPVS", lacks::closed(&error).problem))?;
        *table = Some(open);
    }
    Ok(table.as_mut().expect("it was opened above"))
}

impl Driver for Ipvs {
    fn table_max(&self) -> u64 {
        // The kernel fills a separate table: the smallest costs least.
        251
    }

    fn lacks(&self, services: &[Service]) -> Vec<Lack> {
        let mut owned: BTreeSet<Key> = self.held.keys().copied().collect();
        owned.extend(self.owned().unwrap_or_default().into_keys());
        lacks::find(services, &owned, &self.masquerade)
    }

    fn adopt(&mut self) -> Result<Vec<(SocketAddr, u32)>, Fault> {
        let owned = self.owned()?;
        if owned.is_empty() {
            return Ok(Vec::new());
        }
        self.inherit_rules(&owned);
        let table = opened(&mut self.table)?;
        let failed = |error| Fault::new("read the services of IPVS", error);
        let present: BTreeMap<_, _> = table.services().map_err(failed)?.into_iter().collect();
        for (key, owned) in owned {
            let Some(options) = present.get(&key).cloned() else { continue };
            let found = table.dests(&key).map_err(failed)?;
            let dest = |found: &table::Found| {
                // Without a number, another program has added it.
                let id = owned.ids.get(&found.addr).copied().unwrap_or(0);
                (found.addr, Dest { id, weight: found.weight, left: id == 0 })
            };
            let dests = found.iter().map(dest).collect();
            self.held.insert(key, Entry { name: owned.name, options, masqueraded: owned.masqueraded, dests });
        }
        self.adopted = true;
        let dests = self.held.values().flat_map(|entry| &entry.dests);
        let ids: BTreeSet<_> = dests.filter(|(_, dest)| dest.id > 0).map(|(addr, dest)| (*addr, dest.id)).collect();
        Ok(ids.into_iter().collect())
    }

    fn apply(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        let changes = self.changes(change)?;
        let steps = steps::between(&self.held, &changes);
        let table = opened(&mut self.table)?;
        // Owned before they exist, as long as they exist.
        let added: Entries = changes.iter().filter_map(|(key, entry)| Some((*key, entry.clone()?))).collect();
        self.state.write([&added, &self.held].into_iter()).map_err(unwritten)?;
        // Rules come before their service and go after it.
        let before = Masquerade::of(&self.held);
        let mut wanted = Masquerade::of(&added);
        wanted.extend(before.iter().filter(|key| !changes.contains_key(key)));
        self.masquerade.set(&before | &wanted)?;
        let result = steps::run(table, &self.held, &steps);
        let rules = self.masquerade.set(if result.is_ok() { wanted } else { before });
        if result.is_ok() {
            for (key, entry) in changes {
                match entry {
                    Some(entry) => {
                        self.held.insert(key, entry);
                    }
                    None => {
                        self.held.remove(&key);
                        self.latest.retain(|(of, _), _| *of != key);
                    }
                }
            }
            self.adopted = false;
        }
        // The change stands even if a rule or the file still names ended entries.
        for fault in [rules, self.write_state()].into_iter().filter_map(Result::err) {
            tracing::warn!("{fault}");
        }
        result
    }

    fn read(&mut self, readings: &mut dyn FnMut(Reading)) -> Result<(), Fault> {
        let mut counts: BTreeMap<u32, Reading> = BTreeMap::new();
        let mut idle = Vec::new();
        let keys: Vec<Key> = self.held.keys().copied().collect();
        for key in keys {
            let failed = |error| Fault::new(format!("read {key} of IPVS"), error);
            let found = opened(&mut self.table)?.dests(&key).map_err(failed)?;
            let had = self.held[&key].dests.clone();
            if found.is_empty() && !had.is_empty() {
                self.restore(&key)?;
            }
            for found in found {
                let Some(dest) = had.get(&found.addr) else { continue };
                if dest.left && found.active == 0 && found.inactive == 0 {
                    idle.push((key, found.addr));
                }
                if dest.id == 0 {
                    continue;
                }
                let started = self.count(&key, &found, dest.id);
                let reading = counts.entry(dest.id).or_insert(Reading { id: dest.id, ..Reading::default() });
                reading.active = reading.active.saturating_add(open_flows(&key, &found));
                reading.started = started;
            }
        }
        let held: BTreeSet<u32> =
            self.held.values().flat_map(|entry| entry.dests.values()).map(|dest| dest.id).collect();
        self.started.retain(|id, _| held.contains(id));
        counts.into_values().for_each(readings);
        self.remove_left(&idle)
    }

    fn remove(&mut self) -> Result<(), Fault> {
        let owned = self.owned()?;
        self.inherit_rules(&owned);
        let keys: BTreeSet<Key> = self.held.keys().copied().chain(owned.into_keys()).collect();
        for key in keys {
            let step = Step::Delete(key);
            match step.run(opened(&mut self.table)?) {
                Err(error) if !error.is(Errno::SRCH) => return Err(step.fault(&error)),
                _ => self.held.remove(&key),
            };
        }
        self.masquerade.remove()?;
        self.latest.clear();
        self.started.clear();
        self.state.remove().map_err(|error| Fault::new("remove the file of owned services of IPVS", error))
    }

    fn explain(&mut self, service: &Service) -> Result<Vec<String>, Fault> {
        let table = opened(&mut self.table)?;
        let failed = |error| Fault::new("read the services of IPVS", error);
        let present: BTreeMap<_, _> = table.services().map_err(failed)?.into_iter().collect();
        let mut lines = Vec::new();
        for addr in &service.addrs {
            let key = Key { transport: service.transport, addr: *addr };
            let Some(options) = present.get(&key) else {
                lines.push(format!("{key}: not in IPVS"));
                continue;
            };
            let persistent = options.persistent_s.map(|seconds| format!(" persistent {seconds}")).unwrap_or_default();
            let fallback = if options.scheduler_flags & entry::MH_FALLBACK != 0 { " fallback" } else { "" };
            let foreign = if self.held.contains_key(&key) { "" } else { ", not evenkeel's" };
            let source = if self.held.get(&key).is_some_and(|entry| entry.masqueraded) { " masqueraded" } else { "" };
            lines.push(format!("{key} {}{fallback}{persistent}{source}{foreign}", options.scheduler));
            for found in table.dests(&key).map_err(failed)? {
                lines.push(format!(
                    "  -> {} {} weight {} active {} inactive {} connections {}",
                    found.addr,
                    found.method(),
                    found.weight,
                    found.active,
                    found.inactive,
                    found.started
                ));
            }
        }
        if let Some((tcp_s, udp_s)) = table.timeouts().map_err(failed)? {
            lines.push(format!("timeouts of all services: tcp {tcp_s} s, udp {udp_s} s"));
        }
        Ok(lines)
    }
}
