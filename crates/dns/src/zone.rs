//! Which names are there? The names of a zone, each with what it stands for, made once of the plan.
//!
//! Names of records have empty names above them (RFC 8020: what has a name below it exists). Endpoints that SRV records
//! name get names made of their addresses: `10-0-1-11` or `2001-db8-0-0-0-0-0-1` in the zone.

use evenkeel_config::plan;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The longest that a negative answer is kept, seconds: what is not there now may be there soon.
const NEGATIVE_MAX: u32 = 5;
/// Seconds between looks of a secondary, until it tries again, and until it gives up: nobody transfers the zone.
const SOA_TIMES: [u32; 3] = [3600, 600, 86_400];

/// A zone.
#[derive(Debug)]
pub struct Zone {
    /// What the configuration says.
    pub plan: plan::Zone,
    /// Its name in wire format, lower case.
    pub apex: Box<[u8]>,
    nodes: HashMap<Box<[u8]>, Node>,
    /// The data of its SOA record.
    pub soa: Box<[u8]>,
    /// Its name servers: name in wire format, and addresses.
    pub name_servers: Vec<(Box<[u8]>, Vec<IpAddr>)>,
}

/// A name that exists.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The index of its record in the plan.
    pub record: Option<usize>,
    /// Addresses that never change: those of a name server.
    pub fixed: Vec<IpAddr>,
}

impl Zone {
    /// The zone of a plan.
    pub fn new(plan: &plan::Zone) -> Zone {
        let apex = wire(&plan.name);
        let mut nodes: HashMap<Box<[u8]>, Node> = HashMap::new();
        nodes.insert(apex.clone(), Node::default());
        for (index, record) in plan.records.iter().enumerate() {
            let name = if record.name.is_empty() { apex.clone() } else { inside(&record.name, &plan.name) };
            node(&mut nodes, &name, &apex).record = Some(index);
        }
        let mut name_servers: Vec<_> =
            plan.name_servers.iter().map(|ns| (wire(&ns.name), ns.addresses.clone())).collect();
        if name_servers.is_empty() {
            name_servers.push((inside("ns1", &plan.name), Vec::new()));
        }
        for (name, addresses) in name_servers.iter().filter(|(name, _)| is_below(name, &apex)) {
            node(&mut nodes, name, &apex).fixed.extend(addresses);
        }
        let contact = plan.contact.as_ref().map_or_else(|| inside("hostmaster", &plan.name), |name| wire(name));
        let mut soa = [&*name_servers[0].0, &*contact].concat();
        soa.extend_from_slice(&plan.serial.to_be_bytes());
        SOA_TIMES.iter().for_each(|time| soa.extend_from_slice(&time.to_be_bytes()));
        soa.extend_from_slice(&plan.ttl.min(NEGATIVE_MAX).to_be_bytes());
        Zone { plan: plan.clone(), apex, nodes, soa: soa.into(), name_servers }
    }

    /// Seconds that a negative answer is kept.
    pub fn negative_ttl(&self) -> u32 {
        self.plan.ttl.min(NEGATIVE_MAX)
    }

    /// Whether a name, in lower case, is that of the zone or below it.
    pub fn has(&self, name: &[u8]) -> bool {
        is_below(name, &self.apex)
    }

    /// What a name, in lower case, stands for, if it exists.
    pub fn find(&self, name: &[u8]) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// The address that the name of an endpoint is made of, if it looks like one.
    pub fn address_in(&self, name: &[u8]) -> Option<IpAddr> {
        let label = name.strip_suffix(&*self.apex)?;
        let (&len, text) = label.split_first()?;
        if usize::from(len) != text.len() {
            return None;
        }
        let text_with = |dot: &str| Some(std::str::from_utf8(text).ok()?.replace('-', dot));
        // Most names are none of these, and cost no more than this.
        let ip = match text.iter().filter(|b| **b == b'-').count() {
            3 => IpAddr::from(text_with(".")?.parse::<Ipv4Addr>().ok()?),
            7 => IpAddr::from(text_with(":")?.parse::<Ipv6Addr>().ok()?),
            _ => return None,
        };
        // One spelling for each address.
        (label_of(ip).as_bytes() == text).then_some(ip)
    }

    /// Writes the name of an endpoint.
    pub fn write_endpoint(&self, ip: IpAddr, out: &mut Vec<u8>) {
        let label = label_of(ip);
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
        out.extend_from_slice(&self.apex);
    }

    /// The records that name pools, with their names; for whoever makes the balancers.
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

/// The node of a name in the zone, with all names above it.
fn node<'n>(nodes: &'n mut HashMap<Box<[u8]>, Node>, name: &[u8], apex: &[u8]) -> &'n mut Node {
    let mut above = name;
    while above.len() > apex.len() {
        above = &above[1 + usize::from(above[0])..];
        nodes.entry(above.into()).or_default();
    }
    nodes.entry(name.into()).or_default()
}

/// Whether the labels of `name` end with those of `apex`.
fn is_below(name: &[u8], apex: &[u8]) -> bool {
    let mut rest = name;
    while rest.len() > apex.len() {
        rest = &rest[1 + usize::from(rest[0])..];
    }
    rest == apex
}

fn inside(name: &str, zone: &str) -> Box<[u8]> {
    wire(&format!("{name}.{zone}"))
}

/// A name of the plan in wire format: the plan has checked its labels.
fn wire(name: &str) -> Box<[u8]> {
    let mut out = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.into()
}
