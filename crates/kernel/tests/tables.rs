//! Maps that the tests write and read, as `bpf/common.h` lays them out.

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Address in network order.
pub fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

pub struct Tables {
    folder: PathBuf,
    records: u32,
    places: u32,
}

/// Flag of a record: endpoints see the client's address.
pub const CLIENT: u8 = 2;

/// Reasons of `enum total`.
pub const NO_ENDPOINT: u32 = 0;
pub const PORTS_EXHAUSTED: u32 = 3;
pub const STRAY: u32 = 6;
pub const EXPIRED: u32 = 7;
pub const OVERSIZED: u32 = 9;
pub const FRAGMENT_EARLY: u32 = 10;
pub const UNPROVEN_FULL: u32 = 11;
pub const RESUMED: u32 = 12;
pub const SYN_REPEATED: u32 = 13;
pub const RESET_IGNORED: u32 = 14;
pub const PORT_IN_USE: u32 = 15;

/// Word of a flow: when it ended.
pub const ENDED: usize = 96;

fn open(path: &Path) -> MapData {
    MapData::from_pin(path).expect("a pinned map")
}

impl Tables {
    pub fn new(folder: &Path) -> Tables {
        Tables { folder: folder.to_owned(), records: 0, places: 0 }
    }

    fn array<const N: usize>(&self, name: &str) -> Array<MapData, [u8; N]> {
        Array::try_from(Map::Array(open(&self.folder.join(format!("map-{name}"))))).expect("an array")
    }

    /// Writes a service that draws a member at random by weight: endpoint, number and weight of each.
    pub fn service(
        &mut self,
        addr: SocketAddr,
        protocol: u8,
        idle_ns: u64,
        flags: u8,
        members: &[(u32, SocketAddr, u32)],
    ) {
        let (record, base) = (self.records, self.places);
        self.records += 1;
        self.places += members.len() as u32;
        let weights: Vec<u32> = members.iter().map(|member| member.2).collect();
        let mut places = self.array::<16>("places");
        let mut endpoints = self.array::<32>("endpoints");
        for (i, ((id, endpoint, weight), (threshold, alias))) in members.iter().zip(vose(&weights)).enumerate() {
            let mut place = [0; 16];
            for (at, word) in [(0, *id), (4, *weight), (8, threshold), (12, alias)] {
                place[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            }
            places.set(base + i as u32, place, 0).expect("a place");
            let mut value = [0; 32];
            value[..16].copy_from_slice(&octets(endpoint.ip()));
            value[16..18].copy_from_slice(&endpoint.port().to_be_bytes());
            value[18] = 3;
            endpoints.set(*id, value, 0).expect("an endpoint");
        }
        let mut value = [0; 64];
        value[..8].copy_from_slice(&u64::from(record + 1).to_ne_bytes());
        value[8..16].copy_from_slice(&idle_ns.to_ne_bytes());
        value[32..36].copy_from_slice(&base.to_ne_bytes());
        value[36..40].copy_from_slice(&(members.len() as u32).to_ne_bytes());
        value[49] = 1;
        value[50] = flags;
        value[51] = protocol;
        self.array::<64>("records").set(record, value, 0).expect("a record");

        let mut key = [0; 20];
        key[..16].copy_from_slice(&octets(addr.ip()));
        key[16..18].copy_from_slice(&addr.port().to_be_bytes());
        key[18] = protocol;
        let mut check = 0_u32;
        for word in key[..16].as_chunks::<4>().0 {
            check = check.rotate_left(7) ^ u32::from_ne_bytes(*word);
        }
        let port = u32::from(u16::from_ne_bytes([key[16], key[17]]));
        check = check.rotate_left(7) ^ (port << 16 | u32::from(protocol));
        let word = u64::from(check) << 32 | u64::from(record);
        let map = Map::HashMap(open(&self.folder.join("map-services")));
        let mut services: HashMap<_, [u8; 20], u64> = HashMap::try_from(map).expect("a hash");
        services.insert(key, word, 0).expect("a service");
    }

    /// Open flows, flows so far, and failed ones.
    pub fn load(&self, id: u32) -> (i64, u64, u64) {
        let value = self.array::<64>("loads").get(&id, 0).expect("a load");
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| value[at + i]));
        (word(0) as i64, word(8), word(16))
    }

    pub fn total(&self, reason: u32) -> u64 {
        let map = Map::PerCpuArray(open(&self.folder.join("map-totals")));
        let totals: PerCpuArray<_, u64> = PerCpuArray::try_from(map).expect("counters");
        totals.get(&reason, 0).expect("a counter").iter().sum()
    }

    /// Entries of flows that are proven.
    fn proven(&self) -> HashMap<MapData, [u8; 40], [u8; 128]> {
        HashMap::try_from(Map::LruHashMap(open(&self.folder.join("map-flows")))).expect("a hash")
    }

    /// Entries of flows that are not proven: a flow, and the SYN of its client.
    fn openings(&self) -> HashMap<MapData, [u8; 40], [u8; 176]> {
        HashMap::try_from(Map::LruHashMap(open(&self.folder.join("map-openings")))).expect("a hash")
    }

    /// Entries of flows that are proven.
    pub fn proven_flows(&self) -> usize {
        self.proven().iter().filter_map(Result::ok).count()
    }

    /// Keys and values of all flows, proven and opening.
    pub fn flows(&self) -> Vec<([u8; 40], [u8; 128])> {
        let openings = self.openings();
        let flow = |(key, value): ([u8; 40], [u8; 176])| (key, *value.first_chunk().expect("a flow"));
        self.proven().iter().filter_map(Result::ok).chain(openings.iter().filter_map(Result::ok).map(flow)).collect()
    }

    /// Moves a time of every entry of a flow to the past. The machine must have been up for longer.
    pub fn age_flows(&self, at: usize, by: u64) {
        self.change_flows(at, |time| time.checked_sub(by).expect("a time after the start of the machine"));
    }

    /// Changes a word of 64 bits of every entry of a flow.
    pub fn change_flows(&self, at: usize, change: impl Fn(u64) -> u64) {
        fn changed<const N: usize>(
            mut map: HashMap<MapData, [u8; 40], [u8; N]>,
            at: usize,
            change: &impl Fn(u64) -> u64,
        ) {
            for (key, mut value) in map.iter().filter_map(Result::ok).collect::<Vec<_>>() {
                let old = u64::from_ne_bytes(std::array::from_fn(|i| value[at + i]));
                value[at..at + 8].copy_from_slice(&change(old).to_ne_bytes());
                let _ = map.insert(key, value, 2);
            }
        }
        changed(self.proven(), at, &change);
        changed(self.openings(), at, &change);
    }
}

/// Thresholds and aliases of Vose's method.
fn vose(weights: &[u32]) -> Vec<(u32, u32)> {
    let (n, sum) = (weights.len() as f64, weights.iter().sum::<u32>() as f64);
    let mut shares: Vec<f64> = weights.iter().map(|&weight| f64::from(weight) * n / sum).collect();
    let mut places = vec![(u32::MAX, 0_u32); weights.len()];
    for (i, place) in places.iter_mut().enumerate() {
        place.1 = i as u32;
    }
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|&i| shares[i] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        places[low] = ((shares[low] * 4_294_967_295.0) as u32, high as u32);
        shares[high] -= 1.0 - shares[low];
        if shares[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    places
}
