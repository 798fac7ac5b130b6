//! Rules: a table with maps from virtual addresses to chains of services, and from conntrack marks to endpoints.
//!
//! The mark of a connection names its endpoint. It is set once, for the first packet; connection tracking translates
//! all others, so that rules may change under open connections.

use super::expressions::{Address, Numbers, Register, STATE_INVALID, STATE_NEW};
use super::family::{FAMILIES, Family};
use super::shares::Shares;
use super::transaction::{Element, Set, Transaction, Type, Value};
use crate::service::{Member, Policy, Service, Source, Transport};
use evenkeel_balance::endpoint::stable_hash;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Version of the layout, in the comment that marks the table as evenkeel's.
pub const COMMENT: &str = "evenkeel: forwards to pools, layout 1";

/// Map from marks to counters, and set of marks whose endpoints see an address of this machine.
const COUNTERS: &str = "counters";
const MASQUERADED: &str = "masqueraded";

/// Chain for packets that connection tracking takes for invalid, and the counter of those that it drops.
pub const INVALID: &str = "invalid";

/// Names and numbers that all rules share.
#[derive(Clone, Debug)]
pub struct Names {
    pub table: String,
    /// Marks without endpoint: the upper 12 bits.
    pub mark: u32,
}

/// Bits of a mark that say that it is evenkeel's.
pub const MARK_MASK: u32 = 0xfff0_0000;

/// Hooks of the kernel, `NF_INET_*`, and priorities there: translation of destinations and of sources.
const PRE_ROUTING: u32 = 0;
const LOCAL_OUT: u32 = 3;
const POST_ROUTING: u32 = 4;
const MANGLE: i32 = -150;
const DSTNAT: i32 = -100;
const SRCNAT: i32 = 100;

/// Seed of the hash of clients' addresses.
const SEED: u32 = 0x6b65_656c;

impl Names {
    /// Conntrack mark of an endpoint.
    pub fn mark_of(&self, id: u32) -> u32 {
        self.mark | (id & !MARK_MASK)
    }

    fn key_of(&self, id: u32) -> Vec<u8> {
        self.mark_of(id).to_ne_bytes().to_vec()
    }

    /// Empties the table, which is created if it does not exist, so that a definition of the whole can follow.
    pub fn renew(&self, to: &mut Transaction) {
        to.add_table(COMMENT);
        to.delete_table();
        to.add_table(COMMENT);
    }

    /// Defines the table without services.
    pub fn frame(&self, to: &mut Transaction) {
        to.add_set(COUNTERS, Set::Counters(Type::MARK));
        to.add_set(MASQUERADED, Set::Keys(Type::MARK));
        for family in FAMILIES {
            let (n, addr) = (family.digit(), address_type(family));
            let destination = addr.then(Type::INET_PROTO).then(Type::INET_SERVICE);
            to.add_set(&format!("endpoints{n}"), Set::Map(Type::MARK, addr.then(Type::INET_SERVICE)));
            to.add_set(&format!("services{n}"), Set::Map(destination, Type::VERDICT));
            to.add_set(&format!("empty{n}"), Set::Keys(destination));
            to.add_set(&format!("virtual{n}"), Set::Keys(destination));
            to.add_set(&format!("targets{n}"), Set::Keys(destination));
            let chain = format!("to{n}");
            to.add_chain(&chain);
            to.add_rule(&chain, |rule| _ = rule.mark().count(COUNTERS));
            for transport in [Transport::Tcp, Transport::Udp] {
                let map = format!("endpoints{n}");
                to.add_rule(&chain, |rule| _ = rule.is_transport(transport).mark().look_up(&map).translate(family));
            }
        }
        to.add_chain("refuse");
        to.add_rule("refuse", |rule| _ = rule.is_transport(Transport::Tcp).reset());
        to.add_rule("refuse", |rule| _ = rule.unreachable());
        self.frame_invalid(to);
        for (chain, hook) in [("refuse_arriving", PRE_ROUTING), ("refuse_leaving", LOCAL_OUT)] {
            to.add_hook(chain, "filter", hook, MANGLE);
            to.add_rule(chain, |rule| _ = rule.is_state(STATE_INVALID).goto(INVALID));
            for family in FAMILIES {
                let set = format!("empty{}", family.digit());
                to.add_rule(chain, |rule| {
                    rule.is_state(STATE_NEW).destination(family).is_in(&set).goto("refuse");
                });
            }
        }
        for (chain, hook) in [("arriving", PRE_ROUTING), ("leaving", LOCAL_OUT)] {
            to.add_hook(chain, "nat", hook, DSTNAT);
            for family in FAMILIES {
                let map = format!("services{}", family.digit());
                to.add_rule(chain, |rule| _ = rule.destination(family).verdict_of(&map));
            }
        }
        to.add_hook("source", "nat", POST_ROUTING, SRCNAT);
        to.add_rule("source", |rule| _ = rule.mark().is_in(MASQUERADED).masquerade());
    }

    /// Defines the chain for packets that connection tracking takes for invalid, as a segment outside the window. They
    /// are not translated, so that their receiver knows no such connection and resets it.
    ///
    /// A client's packet to a virtual address can be nothing else and is dropped. An endpoint's packet may belong to a
    /// connection of others that takes two ways, and passes; of its receiver, this machine or a client, the reset is
    /// dropped. The reset of a connection that exists is valid, and passes.
    fn frame_invalid(&self, to: &mut Transaction) {
        to.add_counter(INVALID);
        to.add_chain(INVALID);
        for family in FAMILIES {
            let (addresses, targets) = (format!("virtual{}", family.digit()), format!("targets{}", family.digit()));
            to.add_rule(INVALID, |rule| _ = rule.destination(family).is_in(&addresses).count_by(INVALID).drop());
            to.add_rule(INVALID, |rule| {
                rule.is_reset().destination(family).is_in(&targets).count_by(INVALID).drop();
            });
        }
    }

    /// Adds endpoints, each with the source address that its services have it see.
    pub fn add_endpoints(&self, to: &mut Transaction, endpoints: &[(&Member, Source)]) {
        endpoints.iter().for_each(|(member, _)| to.add_counter(&counter(member.id)));
        let counted =
            |member: &Member| Element { key: self.key_of(member.id), value: Value::Counter(counter(member.id)) };
        to.add_elements(COUNTERS, endpoints.iter().map(|(member, _)| counted(member)));
        for family in FAMILIES {
            let of_family = endpoints.iter().filter(|(member, _)| Family::of(member.addr) == family);
            let placed =
                |member: &Member| Element { key: self.key_of(member.id), value: Value::Bytes(place(member.addr)) };
            let map = format!("endpoints{}", family.digit());
            to.add_elements(&map, of_family.clone().map(|(member, _)| placed(member)));
            let targets = of_family.map(|(member, _)| Element::key(key(member.addr, Transport::Tcp)));
            to.add_elements(&format!("targets{}", family.digit()), targets);
        }
        let own = endpoints.iter().filter(|(_, source)| *source == Source::Own);
        to.add_elements(MASQUERADED, own.map(|(member, _)| Element::key(self.key_of(member.id))));
    }

    /// Changes the source address that an endpoint sees from now on.
    pub fn set_source(&self, to: &mut Transaction, id: u32, source: Source) {
        let element = std::iter::once(Element::key(self.key_of(id)));
        match source {
            Source::Own => to.add_elements(MASQUERADED, element),
            Source::Client => to.delete_elements(MASQUERADED, element),
        }
    }

    /// Removes the address of endpoints, none of which is left.
    pub fn remove_target(&self, to: &mut Transaction, addr: SocketAddr) {
        let target = std::iter::once(Element::key(key(addr, Transport::Tcp)));
        to.delete_elements(&format!("targets{}", Family::of(addr).digit()), target);
    }

    /// Removes an endpoint that [`add_endpoints`](Self::add_endpoints) has added, except its address: others may have
    /// the same.
    pub fn remove_endpoint(&self, to: &mut Transaction, id: u32, addr: SocketAddr, source: Source) {
        let element = || std::iter::once(Element::key(self.key_of(id)));
        to.delete_elements(COUNTERS, element());
        to.delete_counter(&counter(id));
        to.delete_elements(&format!("endpoints{}", Family::of(addr).digit()), element());
        if source == Source::Own {
            to.delete_elements(MASQUERADED, element());
        }
    }

    /// Adds a service, or changes it: its chains have these rules from now on.
    pub fn set_service(&self, to: &mut Transaction, service: &Service, before: Option<&Service>) {
        if let Some(before) = before {
            self.unlist(to, before);
            if before.affinity != service.affinity || !families(before).eq(families(service)) {
                self.drop_chains(to, before);
            } else {
                self.flush_chains(to, before);
            }
        }
        for family in families(service) {
            let chain = chain(service, family);
            let shares = shares(service, family);
            // Named, as the kernel walks the whole transaction for each map without a name.
            let places = places_map(service, family);
            to.add_chain(&chain);
            to.add_set(&places, Set::Ranges(Type::MARK));
            if let Some(affinity) = Affinity::of(service, family) {
                affinity.define(to);
            }
            if shares.modulus > 0 {
                self.add_rules(to, service, family, &shares);
            }
            let (into, value) = match shares.modulus {
                0 => ("empty", Value::None),
                _ => ("services", Value::Goto(chain)),
            };
            let addrs = service.addrs.iter().filter(|addr| Family::of(**addr) == family);
            let element = |addr: &SocketAddr| Element { key: key(*addr, service.transport), value: value.clone() };
            to.add_elements(&format!("{into}{}", family.digit()), addrs.clone().map(element));
            let keys = addrs.map(|addr| Element::key(key(*addr, service.transport)));
            to.add_elements(&format!("virtual{}", family.digit()), keys);
        }
    }

    fn add_rules(&self, to: &mut Transaction, service: &Service, family: Family, shares: &Shares) {
        let (chain, places) = (chain(service, family), places_map(service, family));
        let mark = |id: u32| Value::Bytes(self.key_of(id));
        let bounds = shares.ranges.iter().flat_map(|(first, last, id)| {
            let at = |number: u64, value: Value| Element { key: (number as u32).to_be_bytes().to_vec(), value };
            [at(*first, mark(*id)), at(last + 1, Value::End)]
        });
        to.add_elements(&places, bounds);
        let affinity = Affinity::of(service, family);
        if let Some(affinity) = &affinity {
            let mut ids: Vec<u32> = shares.ranges.iter().map(|(.., id)| *id).collect();
            ids.sort_unstable();
            ids.dedup();
            to.add_elements(&affinity.marks, ids.into_iter().map(|id| Element::key(self.key_of(id))));
            affinity.begin(to);
        }
        let numbers = match &service.policy {
            Policy::Random { .. } | Policy::LeastConn => Numbers::Random,
            Policy::RoundRobin => Numbers::Turns,
            Policy::Maglev { .. } => Numbers::Hash { seed: SEED },
        };
        to.add_rule(&chain, |rule| match &shares.ranges[..] {
            [(.., id)] => _ = rule.value(self.mark_of(*id)).set_mark(),
            _ => _ = rule.number(numbers, shares.modulus as u32, family).look_up(&places).set_mark(),
        });
        if let Some(affinity) = &affinity {
            affinity.end(to);
        }
        to.add_rule(&chain, |rule| _ = rule.goto(&format!("to{}", family.digit())));
    }

    /// Removes the addresses, chains and maps of a service.
    pub fn remove_service(&self, to: &mut Transaction, service: &Service) {
        self.unlist(to, service);
        self.drop_chains(to, service);
    }

    /// Removes the addresses of a service from the maps.
    fn unlist(&self, to: &mut Transaction, service: &Service) {
        for family in families(service) {
            let from = match shares(service, family).modulus {
                0 => "empty",
                _ => "services",
            };
            let addrs = service.addrs.iter().filter(|addr| Family::of(**addr) == family);
            let keys = addrs.map(|addr| Element::key(key(*addr, service.transport)));
            to.delete_elements(&format!("{from}{}", family.digit()), keys.clone());
            to.delete_elements(&format!("virtual{}", family.digit()), keys);
        }
    }

    /// Removes the rules of a service, and their maps.
    fn flush_chains(&self, to: &mut Transaction, service: &Service) {
        for family in families(service) {
            to.flush_chain(&chain(service, family));
            to.flush_set(&places_map(service, family));
            if let Some(affinity) = Affinity::of(service, family) {
                to.flush_chain(&affinity.known);
                to.flush_set(&affinity.marks);
            }
        }
    }

    fn drop_chains(&self, to: &mut Transaction, service: &Service) {
        for family in families(service) {
            let chain = chain(service, family);
            to.flush_chain(&chain);
            if let Some(affinity) = Affinity::of(service, family) {
                affinity.remove(to);
            }
            to.delete_chain(&chain);
            to.delete_set(&places_map(service, family));
        }
    }
}

/// Rules by which the clients of a service keep their endpoint for a time.
struct Affinity {
    family: Family,
    time: Duration,
    chain: String,
    /// Map from clients' addresses to marks.
    clients: String,
    /// Set of the marks of endpoints that get new connections.
    marks: String,
    /// Chain for clients that have an endpoint.
    known: String,
}

impl Affinity {
    fn of(service: &Service, family: Family) -> Option<Affinity> {
        let time = service.affinity?.max(Duration::from_secs(1));
        let (chain, clients) = (chain(service, family), affinity_map(service, family));
        let (marks, known) = (format!("{chain}m"), format!("{chain}k"));
        Some(Affinity { family, time, chain, clients, marks, known })
    }

    fn define(&self, to: &mut Transaction) {
        let Affinity { family, time, .. } = *self;
        let (key, value) = (address_type(family), Type::MARK);
        to.add_set(&self.clients, Set::Entries { key, value, max: AFFINITY_MAX, time });
        to.add_set(&self.marks, Set::Keys(Type::MARK));
        to.add_chain(&self.known);
        to.add_rule(&self.known, |rule| _ = rule.remember(&self.clients, family, time));
        to.add_rule(&self.known, |rule| _ = rule.goto(&format!("to{}", family.digit())));
    }

    /// Begins the chain of the service.
    fn begin(&self, to: &mut Transaction) {
        to.add_rule(&self.chain, |rule| {
            rule.address(self.family, Address::Source, Register::FIRST).look_up(&self.clients).set_mark();
        });
        // An endpoint that gets no new connections is not in the set, and its clients get another endpoint.
        to.add_rule(&self.chain, |rule| _ = rule.mark().is_in(&self.marks).goto(&self.known));
    }

    /// Notes the endpoint that the chain has chosen.
    fn end(&self, to: &mut Transaction) {
        // An update changes the time of an entry and not its endpoint.
        to.add_rule(&self.chain, |rule| _ = rule.forget(&self.clients, self.family));
        to.add_rule(&self.chain, |rule| _ = rule.remember(&self.clients, self.family, self.time));
    }

    fn remove(&self, to: &mut Transaction) {
        to.flush_chain(&self.known);
        to.delete_chain(&self.known);
        to.delete_set(&self.clients);
        to.delete_set(&self.marks);
    }
}

/// Type of an address as a key.
fn address_type(family: Family) -> Type {
    match family {
        Family::V4 => Type::IPV4_ADDR,
        Family::V6 => Type::IPV6_ADDR,
    }
}

/// Families of the addresses of a service.
pub fn families(service: &Service) -> impl Iterator<Item = Family> + '_ {
    FAMILIES.into_iter().filter(|family| service.addrs.iter().any(|addr| Family::of(*addr) == *family))
}

/// Most clients with an affinity to an endpoint of a service.
const AFFINITY_MAX: u32 = 262_144;

/// Name of the chain of a service.
pub fn chain(service: &Service, family: Family) -> String {
    format!("s{:016x}_{}", stable_hash(service.name.as_bytes()), family.digit())
}

/// Name of the map from numbers to endpoints of a service.
pub fn places_map(service: &Service, family: Family) -> String {
    format!("n{:016x}_{}", stable_hash(service.name.as_bytes()), family.digit())
}

fn affinity_map(service: &Service, family: Family) -> String {
    format!("a{:016x}_{}", stable_hash(service.name.as_bytes()), family.digit())
}

/// Shares of the members of a family; without any if none serves.
fn shares(service: &Service, family: Family) -> Shares {
    let members = &service.members;
    let is_of_family = |member: &Member| Family::of(member.addr) == family;
    let of_family = || members.iter().filter(|member| is_of_family(member)).cloned().collect::<Vec<_>>();
    match &service.policy {
        Policy::RoundRobin => Shares::round(&of_family()),
        Policy::Maglev { table } => Shares::table(members, table, is_of_family),
        Policy::Random { .. } | Policy::LeastConn => Shares::random(&of_family()),
    }
}

/// Name of the counter that counts flows to an endpoint.
pub fn counter(id: u32) -> String {
    format!("e{id}")
}

/// Address and port of an endpoint as data of a map.
fn place(addr: SocketAddr) -> Vec<u8> {
    padded(addr, &[])
}

/// Virtual address as a key.
fn key(addr: SocketAddr, transport: Transport) -> Vec<u8> {
    padded(addr, &[transport.number(), 0, 0, 0])
}

/// Parts of a key: the address, others, and the port, each padded to four bytes.
fn padded(addr: SocketAddr, between: &[u8]) -> Vec<u8> {
    let port = [&addr.port().to_be_bytes()[..], &[0, 0]].concat();
    match addr.ip() {
        IpAddr::V4(ip) => [&ip.octets()[..], between, &port].concat(),
        IpAddr::V6(ip) => [&ip.octets()[..], between, &port].concat(),
    }
}

/// Endpoint of [`place`].
pub fn placed(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port): (IpAddr, &[u8; 4]) = match bytes.len() {
        8 => (<[u8; 4]>::try_from(bytes.get(..4)?).ok()?.into(), bytes.last_chunk()?),
        20 => (<[u8; 16]>::try_from(bytes.get(..16)?).ok()?.into(), bytes.last_chunk()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes([port[0], port[1]])))
}
