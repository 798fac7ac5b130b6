//! Names of a zone and their records, built once from the plan.
//!
//! Names of records have empty names above them (RFC 8020: the parent of an existing name exists). Endpoints
//! in SRV records get names made of their addresses: `10-0-1-11` or `2001-db8-0-0-0-0-0-1` in the zone.

use evenkeel_balance::endpoint::stable_hash;
use evenkeel_config::plan;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Longest caching of a negative answer, in seconds: a missing name may exist soon.
const NEGATIVE_MAX: u32 = 5;
/// SOA refresh, retry and expire, in seconds. Without effect, as no secondary transfers the zone.
const SOA_TIMES: [u32; 3] = [3600, 600, 86_400];

/// A zone, ready for answers.
#[derive(Debug)]
pub struct Zone {
    /// Settings from the configuration.
    pub plan: plan::Zone,
    /// Name in wire format, lower case.
    pub apex: Box<[u8]>,
    nodes: Nodes,
    /// Data of the SOA record in wire format.
    pub soa: Box<[u8]>,
    /// Name servers: name in wire format, and addresses.
    pub name_servers: Vec<(Box<[u8]>, Vec<IpAddr>)>,
}

/// Nodes by the labels before the zone's name. All keys come from the configuration, so clients cannot cause
/// collisions, and the fastest hash is good enough.
type Nodes = HashMap<Box<[u8]>, Node, BuildHasherDefault<LabelHasher>>;

#[derive(Default)]
struct LabelHasher(u64);

impl Hasher for LabelHasher {
    fn write(&mut self, labels: &[u8]) {
        self.0 = stable_hash(labels);
    }

    /// The length, which the labels imply.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A name that exists in the zone.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Index of its record in the plan.
    pub record: Option<usize>,
    /// Fixed addresses, of a name server.
    pub fixed: Vec<IpAddr>,
}

impl Zone {
    /// Builds the zone of a plan.
    pub fn new(plan: &plan::Zone) -> Zone {
        let apex = wire(&plan.name);
        let mut nodes = Nodes::default();
        nodes.insert([].into(), Node::default());
        for (index, record) in plan.records.iter().enumerate() {
            let labels = if record.name.is_empty() { Vec::new() } else { labels(&record.name) };
            node(&mut nodes, &labels).record = Some(index);
        }
        let mut name_servers: Vec<_> =
            plan.name_servers.iter().map(|ns| (wire(&ns.name), ns.addresses.clone())).collect();
        if name_servers.is_empty() {
            name_servers.push((inside("ns1", &plan.name), Vec::new()));
        }
        for (name, addresses) in &name_servers {
            if let Some(labels) = labels_before(name, &apex) {
                node(&mut nodes, labels).fixed.extend(addresses);
            }
        }
        let contact = plan.contact.as_ref().map_or_else(|| inside("hostmaster", &plan.name), |name| wire(name));
        let mut soa = [&*name_servers[0].0, &*contact].concat();
        soa.extend_from_slice(&plan.serial.to_be_bytes());
        SOA_TIMES.iter().for_each(|time| soa.extend_from_slice(&time.to_be_bytes()));
        soa.extend_from_slice(&plan.ttl.min(NEGATIVE_MAX).to_be_bytes());
        Zone { plan: plan.clone(), apex, nodes, soa: soa.into(), name_servers }
    }

    /// TTL of negative answers, in seconds.
    pub fn negative_ttl(&self) -> u32 {
        self.plan.ttl.min(NEGATIVE_MAX)
    }

    /// Labels of a lower-case name before the zone's name; `None` if it is not within the zone.
    pub fn labels_of<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        labels_before(name, &self.apex)
    }

    /// Node with these labels before the zone's name; `None` if there is no such name.
    pub fn find(&self, labels: &[u8]) -> Option<&Node> {
        self.nodes.get(labels)
    }

    /// Address encoded in the name of an endpoint; `None` if these labels are not an address.
    pub fn address_in(&self, labels: &[u8]) -> Option<IpAddr> {
        let (&len, text) = labels.split_first()?;
        if usize::from(len) != text.len() {
            return None;
        }
        let text_with = |dot: &str| Some(std::str::from_utf8(text).ok()?.replace('-', dot));
        // Most names fail here, at little cost.
        let ip = match text.iter().filter(|b| **b == b'-').count() {
            3 => IpAddr::from(text_with(".")?.parse::<Ipv4Addr>().ok()?),
            7 => IpAddr::from(text_with(":")?.parse::<Ipv6Addr>().ok()?),
            _ => return None,
        };
        // Accepts only the canonical spelling.
        (label_of(ip).as_bytes() == text).then_some(ip)
    }

    /// Writes the name of an endpoint.
    pub fn write_endpoint(&self, ip: IpAddr, out: &mut Vec<u8>) {
        let label = label_of(ip);
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
        out.extend_from_slice(&self.apex);
    }

    /// Names of the pools that records refer to, sorted, without duplicates.
    pub fn pools(&self) -> Vec<Arc<str>> {
        let mut pools: Vec<Arc<str>> = self.plan.records.iter().map(|r| r.pool.clone()).collect();
        pools.sort();
        pools.dedup();
        pools
    }
}

fn label_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.octets().map(|n| n.to_string()).join("-"),
        IpAddr::V6(ip) => ip.segments().map(|n| format!("{n:x}")).join("-"),
    }
}

/// Node with these labels, created with all of its parents.
fn node<'n>(nodes: &'n mut Nodes, labels: &[u8]) -> &'n mut Node {
    let mut above = labels;
    while let Some((&len, rest)) = above.split_first() {
        above = &rest[usize::from(len)..];
        nodes.entry(above.into()).or_default();
    }
    nodes.entry(labels.into()).or_default()
}

/// Labels of `name` before the labels of `apex`, if it ends with them.
fn labels_before<'n>(name: &'n [u8], apex: &[u8]) -> Option<&'n [u8]> {
    let labels = name.strip_suffix(apex)?;
    let mut at = 0;
    while at < labels.len() {
        at += 1 + usize::from(labels[at]);
    }
    // Otherwise the suffix starts within a label.
    (at == labels.len()).then_some(labels)
}

fn inside(name: &str, zone: &str) -> Box<[u8]> {
    wire(&format!("{name}.{zone}"))
}

/// Name of the plan in wire format. The plan has validated its labels.
fn wire(name: &str) -> Box<[u8]> {
    let mut out = labels(name);
    out.push(0);
    out.into()
}

fn labels(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out
}
