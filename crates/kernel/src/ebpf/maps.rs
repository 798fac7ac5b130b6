//! Maps that both parts share: services, records, places, slots, endpoints and loads. Written here, read by programs.

use super::layout::*;
use super::object::{Pins, Size};
use super::ranges::Ranges;
use super::sys::{Array, Hash, grace_period};
use super::tables;
use crate::driver::{Change, Fault};
use crate::service::{Member, Policy, Service, Source, State};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maps of `bpf/common.h`.
pub const MAPS: [&str; 9] =
    ["layout", "services", "records", "places", "slots", "endpoints", "loads", "affinities", "totals"];

/// Reasons in `totals`, in the order of `enum total`.
const REASONS: [&str; 16] = [
    "no-endpoint",
    "flows-full",
    "inconsistent",
    "ports-exhausted",
    "datagrams-full",
    "malformed",
    "stray",
    "expired",
    "unroutable",
    "oversized",
    "fragment-early",
    "unproven-full",
    "resumed",
    "syn-repeated",
    "reset-ignored",
    "port-in-use",
];

/// Sizes of maps for so many endpoints and flows. A change has the old and the new members of its services at once, and
/// an endpoint may be a member of several services.
pub fn sizes(endpoints_max: u32, flows_max: u32) -> Vec<Size> {
    let records = (endpoints_max / 2).max(1024);
    vec![
        ("services", records),
        ("records", records),
        ("places", endpoints_max.saturating_mul(4).max(16384)),
        ("slots", endpoints_max.max(8192)),
        ("endpoints", endpoints_max),
        ("loads", endpoints_max),
        ("affinities", flows_max.max(1024)),
    ]
}

/// Record with its ranges: first and number of places, first and number of values of slots.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    record: u32,
    places: (u32, u32),
    slots: (u32, u32),
}

/// Service that is in the kernel.
struct Running {
    /// Virtual addresses, and the record of each.
    keys: Vec<(Key, u32)>,
    held: Vec<Held>,
}

pub struct Maps {
    services: Hash<Key, u64>,
    records: Array<Record>,
    places: Array<Place>,
    slots: Array<Slots>,
    pub endpoints: Array<Endpoint>,
    pub loads: Array<Load>,
    free_records: Ranges,
    free_places: Ranges,
    free_slots: Ranges,
    running: HashMap<Arc<str>, Running>,
    /// Virtual addresses of an earlier process, which the first change replaces or removes.
    adopted: HashMap<Key, Held>,
    /// Ranges that programs may still read, since when.
    retired: Vec<(Held, Instant)>,
}

impl Maps {
    /// Opens maps that are pinned, with the services that they have.
    ///
    /// # Errors
    /// A map cannot be opened.
    pub fn open(pins: &Pins) -> Result<Maps, Fault> {
        let records: Array<Record> = Array::open(&pins.map("records"))?;
        let places: Array<Place> = Array::open(&pins.map("places"))?;
        let slots: Array<Slots> = Array::open(&pins.map("slots"))?;
        let mut maps = Maps {
            free_records: Ranges::new(records.len() as u32),
            free_places: Ranges::new(places.len() as u32),
            free_slots: Ranges::new(slots.len() as u32),
            services: Hash::open(&pins.map("services"))?,
            records,
            places,
            slots,
            endpoints: Array::open(&pins.map("endpoints"))?,
            loads: Array::open(&pins.map("loads"))?,
            running: HashMap::new(),
            adopted: HashMap::new(),
            retired: Vec::new(),
        };
        maps.find_services()?;
        Ok(maps)
    }

    fn find_services(&mut self) -> Result<(), Fault> {
        let mut found = Vec::new();
        self.services
            .for_each(|key, &word| found.push((*key, word as u32)))
            .map_err(|error| Fault::new("read the map of services", error))?;
        for (key, number) in found {
            let record = self.records.read(number);
            let held = Held {
                record: number,
                places: (record.base, record.n),
                slots: (record.slots_base / SLOTS, record.slots_n.div_ceil(SLOTS)),
            };
            self.free_records.take_at(number, 1);
            self.free_places.take_at(held.places.0, held.places.1);
            self.free_slots.take_at(held.slots.0, held.slots.1);
            self.adopted.insert(key, held);
        }
        Ok(())
    }

    /// Endpoints and their numbers.
    pub fn numbers(&self) -> Vec<(SocketAddr, u32)> {
        let used = (1..self.endpoints.len() as u32).map(|id| (self.endpoints.read(id), id));
        used.filter(|(endpoint, _)| endpoint.is_used()).map(|(endpoint, id)| (endpoint.addr(), id)).collect()
    }

    /// Changes services, all or nothing.
    ///
    /// # Errors
    /// The maps have no room, or the kernel refuses it; nothing has changed.
    pub fn apply(&mut self, change: &Change<'_>) -> Result<(), Fault> {
        for service in &change.set {
            self.check(service)?;
        }
        let mut built = Vec::with_capacity(change.set.len());
        for service in &change.set {
            match self.build(service) {
                Ok(running) => built.push(running),
                Err(fault) => {
                    built.into_iter().for_each(|running| self.give_back(running));
                    return Err(fault);
                }
            }
        }
        if let Err(error) = self.switch(&built) {
            built.into_iter().for_each(|running| self.give_back(running));
            return Err(Fault::new("write the map of services", error));
        }
        // From here on, nothing fails.
        let new: HashSet<Key> = built.iter().flat_map(|running| running.keys.iter().map(|&(key, _)| key)).collect();
        let mut old: Vec<Running> = change.removed.iter().filter_map(|name| self.running.remove(name)).collect();
        for (service, running) in change.set.iter().zip(built) {
            old.extend(self.running.insert(service.name.clone(), running));
        }
        let mut gone: Vec<Key> = old.iter().flat_map(|running| running.keys.iter().map(|&(key, _)| key)).collect();
        let now = Instant::now();
        let mut retired: Vec<Held> = old.into_iter().flat_map(|running| running.held).collect();
        let mut adopted: Vec<(Key, Held)> = self.adopted.drain().collect();
        // Addresses of a service share a record.
        adopted.sort_by_key(|&(_, held)| held.record);
        gone.extend(adopted.iter().map(|&(key, _)| key));
        adopted.dedup_by_key(|&mut (_, held)| held.record);
        retired.extend(adopted.into_iter().map(|(_, held)| held));
        self.retired.extend(retired.into_iter().map(|held| (held, now)));
        for key in gone.iter().filter(|key| !new.contains(key)) {
            if let Err(error) = self.services.remove(key) {
                tracing::warn!("eBPF: cannot remove the address {}: {error}", key.addr());
            }
        }
        self.mark(change);
        Ok(())
    }

    /// Refuses services that maps cannot hold.
    fn check(&self, service: &Service) -> Result<(), Fault> {
        let fault = |reason: String| Err(Fault::new(format!("balance the listener \"{}\"", service.name), reason));
        let most = self.endpoints.len() as u32;
        if let Some(member) = service.members.iter().find(|member| member.id == 0 || member.id >= most) {
            return fault(format!(
                "the endpoint {} has the number {}, and there is room for {most}",
                member.addr, member.id
            ));
        }
        if let Policy::Random { draws } = service.policy {
            let serving = service.serving().count();
            if draws > tables::DRAWS_MAX && (serving > tables::SCAN_MAX || (draws as usize) < serving) {
                return fault(format!("eBPF draws at most {} endpoints, not {draws}", tables::DRAWS_MAX));
            }
        }
        Ok(())
    }

    /// Writes a service to ranges that nothing refers to yet.
    fn build(&mut self, service: &Service) -> Result<Running, Fault> {
        let mut running = Running { keys: Vec::new(), held: Vec::new() };
        for v4 in [true, false] {
            let addrs: Vec<&SocketAddr> = service.addrs.iter().filter(|addr| addr.is_ipv4() == v4).collect();
            if addrs.is_empty() {
                continue;
            }
            let Some(held) = self.build_family(service, v4) else {
                self.give_back(running);
                let reason = "there is no room for more members or tables of services; use fewer endpoints";
                return Err(Fault::new(format!("balance the listener \"{}\"", service.name), reason));
            };
            let protocol = service.transport.number();
            running.keys.extend(addrs.into_iter().map(|&addr| (Key::new(addr, protocol), held.record)));
            running.held.push(held);
        }
        Ok(running)
    }

    fn build_family(&mut self, service: &Service, v4: bool) -> Option<Held> {
        let mut kept = Vec::new();
        let mut members: Vec<&Member> = Vec::new();
        for member in service.serving() {
            let own = member.addr.is_ipv4() == v4;
            kept.push(own.then_some(members.len() as u32));
            members.extend(own.then_some(member));
        }
        let order = tables::order(&service.policy, &members, &kept);
        let held = self.take(members.len() as u32, order.len() as u32)?;
        // Endpoints first: a number that is new has no flow, and a known number keeps its address.
        for member in &members {
            let before = self.endpoints.read(member.id);
            if !before.is_used() || before.addr() != member.addr {
                self.endpoints.write(member.id, Endpoint::new(member.addr, before.epoch.wrapping_add(1)));
                if let Some(load) = self.loads.at(member.id) {
                    Load::clear_penalty(load);
                }
            }
        }
        for (i, place) in (held.places.0..).zip(tables::places(&members)) {
            self.places.write(i, place);
        }
        for (i, chunk) in (held.slots.0..).zip(order.chunks(SLOTS as usize)) {
            let mut slots = Slots::default();
            slots.place[..chunk.len()].copy_from_slice(chunk);
            self.slots.write(i, slots);
        }
        self.records.write(held.record, self.record(service, v4, &members, &order, &held));
        Some(held)
    }

    fn record(&self, service: &Service, v4: bool, members: &[&Member], order: &[u32], held: &Held) -> Record {
        let (policy, draws) = match service.policy {
            // As many draws as members are all of them.
            Policy::Random { draws }
                if draws > 1 && draws as usize >= members.len() && members.len() <= tables::SCAN_MAX =>
            {
                (POLICY_LEAST, 0)
            }
            Policy::Random { draws } => (POLICY_RANDOM, draws.min(tables::DRAWS_MAX) as u8),
            Policy::LeastConn => (POLICY_LEAST, 0),
            Policy::RoundRobin => (POLICY_TURN, 0),
            Policy::Maglev { .. } => (POLICY_MAGLEV, 0),
        };
        let mut flags = 0;
        if members.windows(2).all(|pair| pair[0].weight == pair[1].weight) {
            flags |= RECORD_EQUAL;
        }
        if service.source == Source::Client {
            flags |= RECORD_CLIENT;
        }
        if service.affinity.is_some() {
            flags |= RECORD_AFFINITY;
        }
        let turn = self.record_of(service, v4).map_or(0, |number| self.records.read(number).turn);
        Record {
            service: hash(&service.name),
            idle_ns: nanoseconds(service.idle),
            affinity_ns: service.affinity.map_or(0, nanoseconds),
            turn,
            base: held.places.0,
            n: held.places.1,
            slots_base: held.slots.0 * SLOTS,
            slots_n: order.len() as u32,
            policy,
            draws,
            flags,
            protocol: service.transport.number(),
            ..Record::default()
        }
    }

    /// Number of the record that a service has now for a family.
    fn record_of(&self, service: &Service, v4: bool) -> Option<u32> {
        let addr = service.addrs.iter().find(|addr| addr.is_ipv4() == v4)?;
        let key = Key::new(*addr, service.transport.number());
        let running =
            self.running.get(&service.name).and_then(|running| running.keys.iter().find(|(its, _)| *its == key));
        running.map(|&(_, record)| record).or_else(|| self.adopted.get(&key).map(|held| held.record))
    }

    fn take(&mut self, places: u32, slots: u32) -> Option<Held> {
        let slots = slots.div_ceil(SLOTS);
        self.take_free(places, slots).or_else(|| {
            self.reclaim(true);
            self.take_free(places, slots)
        })
    }

    fn take_free(&mut self, places: u32, slots: u32) -> Option<Held> {
        let record = self.free_records.take(1)?;
        let Some(first) = self.free_places.take(places) else {
            self.free_records.give(record, 1);
            return None;
        };
        let Some(slot) = self.free_slots.take(slots) else {
            self.free_records.give(record, 1);
            self.free_places.give(first, places);
            return None;
        };
        Some(Held { record, places: (first, places), slots: (slot, slots) })
    }

    /// Takes ranges back that no program has seen.
    fn give_back(&mut self, running: Running) {
        running.held.into_iter().for_each(|held| self.free(held));
    }

    fn free(&mut self, held: Held) {
        self.free_records.give(held.record, 1);
        self.free_places.give(held.places.0, held.places.1);
        self.free_slots.give(held.slots.0, held.slots.1);
    }

    /// Takes ranges back that no program reads any more. Without `now`, only if there are some for a second.
    pub fn reclaim(&mut self, now: bool) {
        let old = |&(_, since): &(Held, Instant)| since.elapsed() >= Duration::from_secs(1);
        if self.retired.is_empty() || !(now || self.retired.iter().any(old)) {
            return;
        }
        let grace = grace_period();
        // Where the kernel cannot wait, time does: a program runs for microseconds.
        let (ended, rest) = std::mem::take(&mut self.retired).into_iter().partition(|held| grace || old(held));
        self.retired = rest;
        let ended: Vec<(Held, Instant)> = ended;
        ended.into_iter().for_each(|(held, _)| self.free(held));
    }

    /// Directs addresses to their new records; on an error, all go back to the old records.
    fn switch(&mut self, built: &[Running]) -> std::io::Result<()> {
        let pairs: Vec<(Key, u32)> = built.iter().flat_map(|running| running.keys.iter().copied()).collect();
        let keys: Vec<Key> = pairs.iter().map(|&(key, _)| key).collect();
        let words: Vec<u64> = pairs.iter().map(|&(key, record)| word(&key, record)).collect();
        let Err(error) = self.services.set_all(&keys, &words) else { return Ok(()) };
        let mut before: HashMap<Key, u32> = self.adopted.iter().map(|(&key, held)| (key, held.record)).collect();
        before.extend(self.running.values().flat_map(|running| running.keys.iter().copied()));
        for key in &keys {
            let undone = match before.get(key) {
                Some(&record) => self.services.set(key, &word(key, record)),
                None => self.services.remove(key),
            };
            if let Err(error) = undone {
                tracing::error!("eBPF: cannot restore the address {} after a failed change: {error}", key.addr());
            }
        }
        Err(error)
    }

    /// Marks endpoints by their state.
    fn mark(&self, change: &Change<'_>) {
        for member in change.set.iter().flat_map(|service| service.members.iter()) {
            let mut endpoint = self.endpoints.read(member.id);
            if endpoint.addr() != member.addr {
                // It has never served.
                endpoint = Endpoint::new(member.addr, endpoint.epoch.wrapping_add(1));
            }
            endpoint.flags = match member.state {
                State::Serving if member.weight > 0 => ENDPOINT_USED | ENDPOINT_SERVING,
                State::Serving | State::Draining => ENDPOINT_USED,
                State::Down => ENDPOINT_USED | ENDPOINT_DOWN,
            };
            self.endpoints.write(member.id, endpoint);
        }
        for &id in &change.left {
            let mut endpoint = self.endpoints.read(id);
            endpoint.flags = ENDPOINT_USED | ENDPOINT_DOWN;
            self.endpoints.write(id, endpoint);
        }
    }

    /// Describes the entries of a service.
    pub fn explain(&self, service: &Service) -> Vec<String> {
        let mut lines = Vec::new();
        for &addr in &service.addrs {
            let Some(number) = self.key_record(&Key::new(addr, service.transport.number())) else {
                lines.push(format!("{addr}: not in the kernel"));
                continue;
            };
            let record = self.records.read(number);
            let policy = match record.policy {
                POLICY_LEAST if record.n as usize > tables::SCAN_MAX => {
                    format!("least of {} in a row", tables::SCAN_MAX)
                }
                POLICY_LEAST => "least of all".to_string(),
                POLICY_TURN => format!("in turn, {} slots, turn {}", record.slots_n, record.turn),
                POLICY_MAGLEV => format!("maglev, {} slots", record.slots_n),
                _ if record.draws < 2 => "random".to_string(),
                _ => format!("least of {} drawn", record.draws),
            };
            lines.push(format!("{addr}: record {number}, {policy}, {} serving", record.n));
            for i in 0..record.n {
                lines.push(self.explain_place(&record, i));
            }
        }
        lines
    }

    fn key_record(&self, key: &Key) -> Option<u32> {
        let word: Option<u64> = self.services.get(key).ok().flatten();
        word.map(|word| word as u32)
    }

    fn explain_place(&self, record: &Record, i: u32) -> String {
        let place = self.places.read(record.base + i);
        let share = match record.policy {
            POLICY_TURN | POLICY_MAGLEV => {
                let own = (0..record.slots_n).filter(|slot| self.slot(record.slots_base + slot) == i).count();
                own as f64 / f64::from(record.slots_n.max(1))
            }
            _ => {
                let total: f64 = (0..record.n).map(|i| f64::from(self.places.read(record.base + i).weight)).sum();
                f64::from(place.weight) / total.max(1.0)
            }
        };
        let load = self.loads.read(place.endpoint);
        format!(
            "  endpoint {} {}: weight {}, share {:.2} %, {} open, {} started, {} failed, penalty {}",
            place.endpoint,
            self.endpoints.read(place.endpoint).addr(),
            place.weight,
            share * 100.0,
            load.open(),
            load.started,
            load.failed,
            load.penalty as u32,
        )
    }

    fn slot(&self, slot: u32) -> u32 {
        self.slots.read(slot / SLOTS).place[(slot % SLOTS) as usize]
    }
}

/// Value of a virtual address.
fn word(key: &Key, record: u32) -> u64 {
    u64::from(key.check()) << 32 | u64::from(record)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2).min(u64::MAX / 2)
}

/// Hash of a name by FNV-1a, which stays the same with every version.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Reads counters by reason: the sums over all CPUs.
///
/// # Errors
/// The kernel refuses it.
pub fn totals(pins: &Pins) -> Result<Vec<(&'static str, u64)>, Fault> {
    use aya::maps::{Map, MapData, PerCpuArray};
    let fault = |error: &dyn std::error::Error| Fault::new("read totals", super::object::chain(error));
    let map = MapData::from_pin(pins.map("totals")).map_err(|error| fault(&error))?;
    let array = PerCpuArray::<_, u64>::try_from(Map::PerCpuArray(map)).map_err(|error| fault(&error))?;
    let mut totals = Vec::new();
    for (i, reason) in (0u32..).zip(REASONS) {
        let counts = array.get(&i, 0).map_err(|error| fault(&error))?;
        totals.push((reason, counts.iter().sum()));
    }
    Ok(totals)
}
