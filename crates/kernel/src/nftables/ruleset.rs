//! Text of the ruleset: one table with maps from virtual addresses to chains of services, and from conntrack marks to
//! endpoints. `nft` applies each text as one transaction.
//!
//! The mark of a connection names its endpoint. It is set once, for the first packet; connection tracking translates
//! all others, so that rules may change under open connections.

use super::shares::Shares;
use crate::service::{Member, Policy, Service, Source, Transport};
use evenkeel_balance::endpoint::stable_hash;
use std::fmt::Write;
use std::net::SocketAddr;

/// Version of the layout, in the comment that marks the table as evenkeel's.
pub const COMMENT: &str = "evenkeel: forwards to pools, layout 1";

/// Families of addresses, each with its name in rules and the suffix of its maps.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn of(addr: SocketAddr) -> Family {
        if addr.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    fn ip(self) -> &'static str {
        match self {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        }
    }

    pub fn digit(self) -> u8 {
        match self {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }
}

/// Names and numbers that all rules share.
#[derive(Clone, Debug)]
pub struct Names {
    pub table: String,
    /// Marks without endpoint: the upper 12 bits.
    pub mark: u32,
}

/// Bits of a mark that say that it is evenkeel's.
pub const MARK_MASK: u32 = 0xfff0_0000;

impl Names {
    /// Conntrack mark of an endpoint.
    pub fn mark_of(&self, id: u32) -> u32 {
        self.mark | (id & !MARK_MASK)
    }

    /// Empties the table, which is created if it does not exist, so that a definition of the whole can follow.
    pub fn renew(&self, out: &mut String) {
        let table = &self.table;
        let _ = writeln!(out, "table inet {table}\ndelete table inet {table}");
    }

    /// Defines the table without services.
    pub fn frame(&self, out: &mut String) {
        let _ = writeln!(out, "table inet {} {{\ncomment \"{COMMENT}\"", self.table);
        let _ = writeln!(out, "map counters {{\ntype mark : counter\n}}\nset masqueraded {{\ntype mark\n}}");
        for family in FAMILIES {
            let (n, kind) = (family.digit(), family.kind());
            let _ = writeln!(
                out,
                "map endpoints{n} {{\ntype mark : {kind} . inet_service\n}}\n\
                 map services{n} {{\ntype {kind} . inet_proto . inet_service : verdict\n}}\n\
                 set empty{n} {{\ntype {kind} . inet_proto . inet_service\n}}\n\
                 chain to{n} {{\ncounter name ct mark map @counters\n\
                 meta l4proto {{ tcp, udp }} dnat {ip} addr . port to ct mark map @endpoints{n}\n}}",
                ip = family.ip()
            );
        }
        let looks_up = |out: &mut String, before: &str, verb: &str| {
            for family in FAMILIES {
                let (n, ip) = (family.digit(), family.ip());
                let verb = verb.replace('#', &n.to_string());
                let _ = writeln!(out, "{before}{ip} daddr . meta l4proto . th dport {verb}");
            }
        };
        out.push_str(
            "chain refuse {\nmeta l4proto tcp reject with tcp reset\nreject with icmpx type port-unreachable\n}\n",
        );
        for (chain, hook) in [("refuse_arriving", "prerouting"), ("refuse_leaving", "output")] {
            let _ = writeln!(out, "chain {chain} {{\ntype filter hook {hook} priority -150");
            looks_up(out, "ct state new ", "@empty# goto refuse");
            out.push_str("}\n");
        }
        for (chain, hook) in [("arriving", "prerouting"), ("leaving", "output")] {
            let _ = writeln!(out, "chain {chain} {{\ntype nat hook {hook} priority -100");
            looks_up(out, "", "vmap @services#");
            out.push_str("}\n");
        }
        out.push_str("chain source {\ntype nat hook postrouting priority 100\nct mark @masqueraded masquerade\n}\n}\n");
    }

    /// Adds endpoints, each with the source address that its services have it see.
    pub fn add_endpoints(&self, out: &mut String, endpoints: &[(&Member, Source)]) {
        let table = &self.table;
        for (member, _) in endpoints {
            let _ = writeln!(out, "add counter inet {table} e{}", member.id);
        }
        // One command for all elements of a map: nft takes several times as long for many.
        let add = |out: &mut String, to: &str, elements: Vec<String>| {
            if !elements.is_empty() {
                let _ = writeln!(out, "add element inet {table} {to} {{ {} }}", elements.join(", "));
            }
        };
        let mark = |member: &Member| self.mark_of(member.id);
        let counters = endpoints.iter().map(|(of, _)| format!("{:#x} : \"e{}\"", mark(of), of.id));
        add(out, "counters", counters.collect());
        for family in FAMILIES {
            let of_family = endpoints.iter().filter(|(of, _)| Family::of(of.addr) == family);
            let places = of_family.map(|(of, _)| format!("{:#x} : {}", mark(of), place(of.addr)));
            add(out, &format!("endpoints{}", family.digit()), places.collect());
        }
        let own = endpoints.iter().filter(|(_, source)| *source == Source::Own);
        add(out, "masqueraded", own.map(|(of, _)| format!("{:#x}", mark(of))).collect());
    }

    /// Changes the source address that an endpoint sees from now on.
    pub fn set_source(&self, out: &mut String, id: u32, source: Source) {
        let verb = if source == Source::Own { "add" } else { "delete" };
        let _ = writeln!(out, "{verb} element inet {} masqueraded {{ {:#x} }}", self.table, self.mark_of(id));
    }

    /// Removes an endpoint that [`add_endpoints`](Self::add_endpoints) has added.
    pub fn remove_endpoint(&self, out: &mut String, id: u32, addr: SocketAddr, source: Source) {
        let (table, mark, n) = (&self.table, self.mark_of(id), Family::of(addr).digit());
        let _ = writeln!(
            out,
            "delete element inet {table} counters {{ {mark:#x} }}\ndelete counter inet {table} e{id}\n\
             delete element inet {table} endpoints{n} {{ {mark:#x} }}"
        );
        if source == Source::Own {
            let _ = writeln!(out, "delete element inet {table} masqueraded {{ {mark:#x} }}");
        }
    }

    /// Adds a service, or changes it: its chains have these rules from now on. `weighted`: its members, with the
    /// weights to use.
    pub fn set_service(&self, out: &mut String, service: &Service, before: Option<&Service>, weighted: &[Member]) {
        let table = &self.table;
        if let Some(before) = before {
            self.unlist(out, before);
            if before.affinity != service.affinity {
                self.drop_chains(out, before);
            }
        }
        for family in families(service) {
            let chain = chain(service, family);
            let shares = shares(service, family, weighted);
            // Named, as the kernel walks the whole transaction for each map without a name.
            let places = places_map(service, family);
            let _ = writeln!(
                out,
                "add chain inet {table} {chain}\nflush chain inet {table} {chain}\n\
                 add map inet {table} {places} {{ typeof numgen inc mod 2 : ct mark; flags interval; }}\n\
                 flush map inet {table} {places}"
            );
            if let Some(affinity) = service.affinity {
                let (map, seconds) = (affinity_map(service, family), affinity.as_secs().max(1));
                let _ = writeln!(
                    out,
                    "add map inet {table} {map} {{ type {kind} : mark; size {AFFINITY_MAX}; flags dynamic,timeout; \
                     timeout {seconds}s; }}\nadd set inet {table} {chain}m {{ type mark; }}\n\
                     flush set inet {table} {chain}m\nadd chain inet {table} {chain}k\nflush chain inet {table} {chain}k\n\
                     add rule inet {table} {chain}k update @{map} {{ {ip} saddr timeout {seconds}s : ct mark }}\n\
                     add rule inet {table} {chain}k goto to{n}",
                    kind = family.kind(),
                    ip = family.ip(),
                    n = family.digit()
                );
            }
            if shares.modulus > 0 {
                self.add_rules(out, service, family, &shares);
            }
            let (into, goto) = match shares.modulus {
                0 => ("empty", String::new()),
                _ => ("services", format!(" : goto {chain}")),
            };
            for addr in service.addrs.iter().filter(|addr| Family::of(**addr) == family) {
                let (n, key) = (family.digit(), key(*addr, service.transport));
                let _ = writeln!(out, "add element inet {table} {into}{n} {{ {key}{goto} }}");
            }
        }
    }

    fn add_rules(&self, out: &mut String, service: &Service, family: Family, shares: &Shares) {
        let (table, ip, chain) = (&self.table, family.ip(), chain(service, family));
        let places = places_map(service, family);
        let range = |(first, last, id): &(u64, u64, u32)| {
            let mark = self.mark_of(*id);
            if first == last { format!("{first} : {mark:#x}") } else { format!("{first}-{last} : {mark:#x}") }
        };
        let ranges: Vec<String> = shares.ranges.iter().map(range).collect();
        let _ = writeln!(out, "add element inet {table} {places} {{ {} }}", ranges.join(", "));
        let affinity = service.affinity.map(|affinity| (affinity_map(service, family), affinity.as_secs().max(1)));
        if affinity.is_some() {
            let mut marks: Vec<u32> = shares.ranges.iter().map(|(.., id)| self.mark_of(*id)).collect();
            marks.sort_unstable();
            marks.dedup();
            let marks: Vec<String> = marks.iter().map(|mark| format!("{mark:#x}")).collect();
            let _ = writeln!(out, "add element inet {table} {chain}m {{ {} }}", marks.join(", "));
        }
        let mut rule = |rule: String| {
            let _ = writeln!(out, "add rule inet {table} {chain} {rule}");
        };
        if let Some((map, _)) = &affinity {
            rule(format!("ct mark set {ip} saddr map @{map}"));
            // An endpoint that gets no new connections is not in the set, and its clients get another one.
            rule(format!("ct mark @{chain}m goto {chain}k"));
        }
        let number = match &service.policy {
            Policy::Random { .. } | Policy::LeastConn => format!("numgen random mod {}", shares.modulus),
            Policy::RoundRobin => format!("numgen inc mod {}", shares.modulus),
            Policy::Maglev { .. } => format!("jhash {ip} saddr mod {} seed 0x6b65656c", shares.modulus),
        };
        rule(match &shares.ranges[..] {
            [(.., id)] => format!("ct mark set {:#x}", self.mark_of(*id)),
            _ => format!("ct mark set {number} map @{places}"),
        });
        if let Some((map, seconds)) = &affinity {
            // An update changes the time of an entry and not its endpoint.
            rule(format!("delete @{map} {{ {ip} saddr : ct mark }}"));
            rule(format!("update @{map} {{ {ip} saddr timeout {seconds}s : ct mark }}"));
        }
        rule(format!("goto to{}", family.digit()));
    }

    /// Removes the addresses, chains and maps of a service.
    pub fn remove_service(&self, out: &mut String, service: &Service) {
        self.unlist(out, service);
        self.drop_chains(out, service);
    }

    /// Removes the addresses of a service from the maps.
    fn unlist(&self, out: &mut String, service: &Service) {
        let table = &self.table;
        for addr in &service.addrs {
            let family = Family::of(*addr);
            let from = match shares(service, family, &service.members).modulus {
                0 => "empty",
                _ => "services",
            };
            let (n, key) = (family.digit(), key(*addr, service.transport));
            let _ = writeln!(out, "delete element inet {table} {from}{n} {{ {key} }}");
        }
    }

    fn drop_chains(&self, out: &mut String, service: &Service) {
        let table = &self.table;
        for family in families(service) {
            let chain = chain(service, family);
            let _ = writeln!(out, "flush chain inet {table} {chain}");
            if service.affinity.is_some() {
                let map = affinity_map(service, family);
                let _ = writeln!(
                    out,
                    "flush chain inet {table} {chain}k\ndelete chain inet {table} {chain}k\n\
                     delete map inet {table} {map}\ndelete set inet {table} {chain}m"
                );
            }
            let places = places_map(service, family);
            let _ = writeln!(out, "delete chain inet {table} {chain}\ndelete map inet {table} {places}");
        }
    }
}

/// Families of the addresses of a service.
pub fn families(service: &Service) -> impl Iterator<Item = Family> + '_ {
    FAMILIES.into_iter().filter(|family| service.addrs.iter().any(|addr| Family::of(*addr) == *family))
}

/// Most clients with an affinity to an endpoint of one service.
const AFFINITY_MAX: u32 = 262_144;

/// Name of the chain of a service.
pub fn chain(service: &Service, family: Family) -> String {
    format!("s{:016x}_{}", stable_hash(service.name.as_bytes()), family.digit())
}

/// Name of the map from numbers to endpoints of a service.
fn places_map(service: &Service, family: Family) -> String {
    format!("n{:016x}_{}", stable_hash(service.name.as_bytes()), family.digit())
}

fn affinity_map(service: &Service, family: Family) -> String {
    format!("a{:016x}_{}", stable_hash(service.name.as_bytes()), family.digit())
}

/// Shares of the members of a family; without any if none serves.
fn shares(service: &Service, family: Family, members: &[Member]) -> Shares {
    let is_of_family = |member: &Member| Family::of(member.addr) == family;
    let of_family = || members.iter().filter(|member| is_of_family(member)).cloned().collect::<Vec<_>>();
    match &service.policy {
        Policy::RoundRobin => Shares::round(&of_family()),
        Policy::Maglev { table } => Shares::table(members, table, is_of_family),
        Policy::Random { .. } | Policy::LeastConn => Shares::random(&of_family()),
    }
}

/// Address and port of an endpoint as data of a map.
fn place(addr: SocketAddr) -> String {
    format!("{} . {}", addr.ip(), addr.port())
}

/// Virtual address as a key.
fn key(addr: SocketAddr, transport: Transport) -> String {
    format!("{} . {} . {}", addr.ip(), transport.name(), addr.port())
}
