//! Rules on the client's address. HAProxy takes the first rule that holds, and `access` the longest network that contains
//! the address, so the lists are computed anew: no client that HAProxy refuses is let in.

use crate::haproxy::logic::Conj;
use crate::ledger::Line;
use crate::model::{Cond, Draft, Key, Test};
use evenkeel_config::plan::Access;
use evenkeel_config::plan::Cidr;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

/// Most kinds of clients that are tried for a route: each network with all combinations of the unknown lists.
const KINDS: usize = 4096;

/// Most lists of a route with unknown networks.
const UNKNOWN: usize = 6;

/// Rules that HAProxy tries in order. Each stage ends separately, and all stages have to let a client in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Connection,
    Session,
    Content,
    Request,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Network(Cidr),
    File(String),
    /// Text for the address of a host, or a variable of the environment.
    Word(String),
}

/// A list of addresses that a rule asks for, or excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    entries: Vec<Entry>,
    negated: bool,
}

/// A final rule with conditions on the client's address only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressRule {
    pub line: Line,
    pub stage: Stage,
    /// True for `allow` and `accept`.
    pub lets_in: bool,
    /// Status of a refusal, 400 to 599.
    pub status: u64,
    lists: Vec<List>,
}

/// Verdict on lists of `access` that decide as the rules do.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Open,
    /// The table of `access`. True if it may refuse clients in several lists that HAProxy lets in.
    Lists(Draft<Access>, bool),
    /// No lists are safe: it is not known which network is the longest.
    Unknown,
}

impl AddressRule {
    /// The rule of a condition; `None` if it asks for anything but the address.
    pub fn of(conj: &Conj, line: Line, stage: Stage, lets_in: bool, status: u64) -> Option<AddressRule> {
        if !conj.rates.is_empty() || !conj.auth.is_empty() {
            return None;
        }
        let mut lists = Vec::new();
        for cond in &conj.matching.conds {
            let Cond { key: Key::Client, test: Test::OneOf(words), negated } = cond else { return None };
            let mut all = Vec::with_capacity(words.len());
            all.extend(words.iter().flat_map(|word| entries(word)));
            lists.push(List { entries: all, negated: *negated });
        }
        let files = conj.client_files.iter();
        lists.extend(files.map(|(file, negated)| List { entries: vec![Entry::File(file.clone())], negated: *negated }));
        Some(AddressRule { line, stage, lets_in, status, lists })
    }

    /// True if the rule asks for nothing at all.
    pub fn is_unconditional(&self) -> bool {
        self.lists.is_empty()
    }

    /// True if it has a list with networks that are not known here.
    pub fn is_unknown(&self) -> bool {
        self.entries().any(|(entry, _)| !matches!(entry, Entry::Network(..)))
    }

    fn entries(&self) -> impl Iterator<Item = (&Entry, bool)> {
        // The clients of a list are let in if a refusal excludes it, or if an exception asks for it.
        self.lists.iter().flat_map(|list| list.entries.iter().map(|entry| (entry, list.negated != self.lets_in)))
    }

    fn holds(&self, is_in: &dyn Fn(&Entry) -> bool) -> bool {
        self.lists.iter().all(|list| list.entries.iter().any(is_in) != list.negated)
    }
}

/// The entry of a word. HAProxy compares IPv4 addresses with networks of IPv6 as well, in their mapped form.
fn entries(word: &str) -> Vec<Entry> {
    let Some(network) = network(word) else { return vec![Entry::Word(word.to_string())] };
    let mut entries = vec![Entry::Network(network)];
    if let IpAddr::V6(address) = network.network()
        && Cidr::around(MAPPED, network.prefix().min(95)) == Cidr::around(address.into(), network.prefix().min(95))
        && let Some(all) = Cidr::around(Ipv4Addr::UNSPECIFIED.into(), 0)
    {
        entries.push(Entry::Network(all));
    }
    entries
}

/// First IPv6 address that stands for an IPv4 address.
const MAPPED: IpAddr = IpAddr::V6(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());

/// A network as HAProxy writes it: with the number of its bits, or with a mask.
fn network(word: &str) -> Option<Cidr> {
    let (address, bits) = word.split_once('/').map_or((word, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let bits = match bits.map(|bits| (bits.parse::<u8>(), bits.parse::<Ipv4Addr>())) {
        None if address.is_ipv4() => 32,
        None => 128,
        Some((Ok(bits), _)) => bits,
        Some((_, mask)) => {
            let mask = mask.ok().filter(|_| address.is_ipv4())?.to_bits();
            (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(mask.leading_ones() as u8)?
        }
    };
    Cidr::around(address, bits)
}

fn contains(outer: &Cidr, inner: &Cidr) -> bool {
    outer.prefix() <= inner.prefix() && outer.contains(inner.network())
}

/// Computes lists that let in the clients that all stages of all groups of rules let in. Each section is a group.
pub(crate) fn verdict(groups: &[&[AddressRule]]) -> Verdict {
    // So many that not even the kinds of clients are counted.
    if groups.iter().flat_map(|group| group.iter()).flat_map(AddressRule::entries).count() > KINDS {
        return refusals(groups).unwrap_or(Verdict::Unknown);
    }
    let world = World::of(groups);
    if world.unknown.len() > UNKNOWN || (world.networks.len() << world.unknown.len()) > KINDS {
        return refusals(groups).unwrap_or(Verdict::Unknown);
    }
    world.lists()
}

/// Lists of any length, for rules that only refuse, each with the clients of a list of known networks.
fn refusals(groups: &[&[AddressRule]]) -> Option<Verdict> {
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    let rules = || groups.iter().flat_map(|group| group.iter());
    for rule in rules() {
        let [List { entries, negated: false }] = rule.lists.as_slice() else { return None };
        for entry in entries {
            let Entry::Network(network) = entry else { return None };
            if seen.insert(*network) {
                all.push(network.to_string());
            }
        }
    }
    let first = rules().next().filter(|_| rules().all(|rule| !rule.lets_in))?;
    let mut table = Draft::one(key!("deny"), all);
    if first.status != 403 {
        table.put(key!("status"), first.status);
    }
    Some(Verdict::Lists(table, false))
}

/// Rules of a route, with all networks that they name and all entries that are not known.
struct World<'r> {
    /// Rules of each stage of each section, in their order.
    stages: Vec<Vec<&'r AddressRule>>,
    /// Each network once with its place in the file, the shortest first.
    networks: Vec<(Cidr, usize)>,
    /// Entries with unknown networks; true if their clients are let in.
    unknown: Vec<(&'r Entry, bool)>,
    /// True if an entry both lets in and refuses.
    is_torn: bool,
}

/// Lists as evenkeel reads them: decisions on networks, and on all others.
struct Decisions {
    others: bool,
    /// Place among the networks, and whether its clients are let in.
    networks: Vec<(usize, bool)>,
}

impl<'r> World<'r> {
    fn of(groups: &[&'r [AddressRule]]) -> World<'r> {
        let mut world = World { stages: Vec::new(), networks: Vec::new(), unknown: Vec::new(), is_torn: false };
        for group in groups {
            for stage in [Stage::Connection, Stage::Session, Stage::Content, Stage::Request] {
                let rules = group.iter().filter(|rule| rule.stage == stage);
                world.stages.push(rules.collect());
            }
        }
        for (entry, lets_in) in world.stages.iter().flatten().flat_map(|rule| rule.entries()) {
            match entry {
                Entry::Network(network) => world.networks.push((*network, world.networks.len())),
                unknown => match world.unknown.iter().find(|(known, _)| *known == unknown) {
                    Some((_, known)) => world.is_torn |= *known != lets_in,
                    None => world.unknown.push((unknown, lets_in)),
                },
            }
        }
        world.networks.sort_by_key(|(network, order)| (network.prefix(), *network, *order));
        world.networks.dedup_by_key(|(network, _)| *network);
        world
    }

    /// HAProxy's decision on a client whose longest network is `network`. Bits of `unknown`: the unknown entries that
    /// contain the client.
    fn decides(&self, network: Option<&Cidr>, unknown: usize) -> bool {
        let is_in = |entry: &Entry| match entry {
            Entry::Network(outer) => network.is_some_and(|inner| contains(outer, inner)),
            other => {
                self.unknown.iter().position(|(known, _)| *known == other).is_some_and(|at| unknown >> at & 1 == 1)
            }
        };
        self.stages.iter().all(|rules| rules.iter().find(|rule| rule.holds(&is_in)).is_none_or(|rule| rule.lets_in))
    }

    /// Place of the longest other network that contains this network.
    fn above(&self, at: usize) -> Option<usize> {
        let (inner, ..) = &self.networks[at];
        self.networks[..at].iter().rposition(|(outer, ..)| contains(outer, inner))
    }

    fn lists(mut self) -> Verdict {
        let places = || [None].into_iter().chain(self.networks.iter().map(|(network, ..)| Some(network)));
        // An entry that never changes a decision is in no list.
        let matters = |at: usize| {
            (0..1_usize << self.unknown.len()).any(|unknown| {
                places().any(|place| self.decides(place, unknown) != self.decides(place, unknown ^ (1 << at)))
            })
        };
        let used: Vec<bool> = (0..self.unknown.len()).map(matters).collect();
        if self.is_torn && used.contains(&true) {
            return Verdict::Unknown;
        }
        let mut used = used.into_iter();
        self.unknown.retain(|_| used.next().unwrap_or(true));
        let others = self.decides(None, 0);
        let each: Vec<bool> = self.networks.iter().map(|(network, ..)| self.decides(Some(network), 0)).collect();
        let differs = |at: &usize| self.above(*at).map_or(others, |above| each[above]) != each[*at];
        let networks = (0..each.len()).filter(differs).map(|at| (at, each[at])).collect();
        let decisions = Decisions { others, networks };
        match self.compare(&decisions) {
            None => Verdict::Unknown,
            Some(_) if others && decisions.networks.is_empty() && self.unknown.is_empty() => Verdict::Open,
            Some(differs) => Verdict::Lists(self.table(&decisions), differs),
        }
    }

    /// Tries the lists on every kind of client. `None` if they let in a client that HAProxy refuses; true if they
    /// refuse a client that HAProxy lets in.
    fn compare(&self, decisions: &Decisions) -> Option<bool> {
        let mut differs = false;
        let networks = self.networks.iter().map(|(network, ..)| Some(network));
        for place in [None].into_iter().chain(networks) {
            let longest = decisions
                .networks
                .iter()
                .rfind(|(at, _)| place.is_some_and(|inner| contains(&self.networks[*at].0, inner)));
            for unknown in 0..1_usize << self.unknown.len() {
                let theirs = self.decides(place, unknown);
                let mut ours: Vec<bool> = Vec::new();
                for (at, (_, lets_in)) in self.unknown.iter().enumerate() {
                    if unknown >> at & 1 == 1 {
                        ours.push(*lets_in);
                    }
                }
                // A network of all addresses is never longer than a network of an unknown entry.
                match longest {
                    Some((at, lets_in)) if ours.is_empty() || self.networks[*at].0.prefix() > 0 => ours.push(*lets_in),
                    None if ours.is_empty() => ours.push(decisions.others),
                    _ => {}
                }
                if !theirs && ours.contains(&true) {
                    return None;
                }
                differs |= theirs && ours.contains(&false);
            }
        }
        Some(differs)
    }

    fn table(&self, decisions: &Decisions) -> Draft<Access> {
        let mut table = Draft::default();
        let key = |lets_in: bool| if lets_in { key!("allow") } else { key!("deny") };
        let mut networks: Vec<&(usize, bool)> = decisions.networks.iter().collect();
        networks.sort_by_key(|(at, _)| self.networks[*at].1);
        for (at, lets_in) in networks {
            table.push(key(*lets_in), self.networks[*at].0.to_string());
        }
        for (entry, lets_in) in &self.unknown {
            match entry {
                Entry::File(file) if *lets_in => table.push(key!("allow_files"), file.as_str()),
                Entry::File(file) => table.push(key!("deny_files"), file.as_str()),
                Entry::Word(word) => table.push(key(*lets_in), word.as_str()),
                Entry::Network(..) => {}
            }
        }
        // A route with an `allow` list refuses all other clients. A route without `allow` lets them in.
        let refuses = table.has(key!("allow")) || table.has(key!("allow_files"));
        if refuses == decisions.others {
            let has = |all: &str| decisions.networks.iter().any(|(at, _)| self.networks[*at].0.to_string() == all);
            for all in ["0.0.0.0/0", "::/0"].into_iter().filter(|all| !has(all)) {
                table.push(key(decisions.others), all);
            }
        }
        if let Some(rule) = self.stages.iter().flatten().find(|rule| !rule.lets_in)
            && rule.status != 403
        {
            table.put(key!("status"), rule.status);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haproxy::acl::{Acls, condition};
    use crate::haproxy::lexer::words;
    use crate::haproxy::samples::Context;
    use crate::model::{Maps, Value};
    use evenkeel_config::NoFiles;
    use evenkeel_config::draft::KeyOf;

    /// Rules such as `deny if { src 10.0.0.0/8 }`.
    fn rules(lines: &[&str]) -> Vec<AddressRule> {
        let each = lines.iter().flat_map(|line| {
            let words = words(line);
            let maps = Maps::default();
            let context = Context { maps: &maps, files: &NoFiles, port: None };
            let conjs = condition(&words[1..], &Acls::new(), &context).alternatives(&maps).expect(line);
            let lets_in = words[0] == "allow";
            let stage = if words[0] == "reject" { Stage::Connection } else { Stage::Request };
            conjs.into_iter().map(move |conj| AddressRule::of(&conj, Line::none(), stage, lets_in, 403).expect("plain"))
        });
        each.collect()
    }

    fn access(lines: &[&str]) -> String {
        match verdict(&[&rules(lines)]) {
            Verdict::Lists(table, differs) => {
                let each = table.entries().iter().map(|(key, value)| match value {
                    Value::List(list) => format!("{key}{:?}", list.iter().filter_map(text).collect::<Vec<_>>()),
                    _ => key.to_string(),
                });
                let each: Vec<String> = each.collect();
                format!("{}{}", each.join(" "), if differs { " (refuses more)" } else { "" }).replace('"', "")
            }
            other => format!("{other:?}"),
        }
    }

    fn text(value: &Value) -> Option<&str> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }

    #[test]
    fn the_first_rule_that_holds_becomes_the_longest_network() {
        for (lines, lists) in [
            (&["deny if { src 10.0.0.0/8 }"][..], "deny[10.0.0.0/8]"),
            (&["deny unless { src 10.0.0.0/8 }"], "allow[10.0.0.0/8]"),
            // A list within a network that an earlier rule refuses has no effect.
            (&["deny if { src 10.0.0.0/8 }", "allow if { src 10.1.0.0/16 }"], "deny[10.0.0.0/8]"),
            (
                &["allow if { src 10.1.0.0/16 }", "deny if { src 10.0.0.0/8 }"],
                "allow[10.1.0.0/16, 0.0.0.0/0, ::/0] deny[10.0.0.0/8]",
            ),
            (&["deny if { src 10.0.0.0/8 }", "deny unless { src 10.1.0.0/16 }"], "deny[0.0.0.0/0, ::/0]"),
            (&["deny if { src 10.1.0.0/16 }", "deny unless { src 10.0.0.0/8 }"], "deny[10.1.0.0/16] allow[10.0.0.0/8]"),
            (&["deny unless { src 10.0.0.0/8 }", "deny unless { src 10.1.0.0/16 }"], "allow[10.1.0.0/16]"),
            (&["deny unless { src 10.0.0.0/8 }", "deny unless { src 192.0.2.0/24 }"], "deny[0.0.0.0/0, ::/0]"),
            (&["allow if { src 10.0.0.0/8 }", "deny"], "allow[10.0.0.0/8]"),
            (&["allow", "deny if { src 10.0.0.0/8 }"], "Open"),
            // An `allow` of requests does not exempt from rules for connections.
            (&["allow if { src 10.0.0.0/8 }", "reject if { src 10.1.0.0/16 }"], "deny[10.1.0.0/16]"),
            (
                &["deny if { src 10.0.0.0/8 } !{ src 10.1.0.0/16 }"],
                "deny[10.0.0.0/8] allow[10.1.0.0/16, 0.0.0.0/0, ::/0]",
            ),
            (&["deny if { src 10.9.9.9/255.0.0.0 2001:db8::1/32 }"], "deny[10.0.0.0/8, 2001:db8::/32]"),
            (&["deny if { src ::/0 }"], "deny[::/0, 0.0.0.0/0]"),
        ] {
            assert_eq!(access(lines), lists, "{lines:?}");
        }
    }

    #[test]
    fn lists_that_are_not_known_are_carried_over_where_their_networks_do_not_matter() {
        for (lines, lists) in [
            (&["deny if { src -f f }", "deny if { src 10.0.0.0/8 }"][..], "deny[10.0.0.0/8] deny_files[f]"),
            (&["allow if { src -f f }", "deny unless { src -f g }"], "allow_files[f, g]"),
            (&["deny unless { src -f f } or { src -f g }"], "allow_files[f, g]"),
            (&["allow if { src -f f }", "deny"], "allow_files[f]"),
            (&["deny", "allow if { src -f f }"], "deny[0.0.0.0/0, ::/0]"),
            (&["deny if { src -f f }", "deny unless { src 10.0.0.0/8 }"], "Unknown"),
            (&["deny if { src -f f }", "allow if { src 10.1.0.0/16 }", "deny if { src 10.0.0.0/8 }"], "Unknown"),
            (&["deny unless { src -f f }", "deny unless { src -f g }"], "Unknown"),
            (&["deny if { src -f f }", "deny unless { src -f f }"], "deny[0.0.0.0/0, ::/0]"),
            (&["deny if { src -f f } { src 10.0.0.0/8 }", "deny unless { src -f f }"], "Unknown"),
            (&["allow if { src 10.0.0.0/8 }", "deny if { src -f f }"], "deny_files[f] (refuses more)"),
            (&["deny unless { src office.test }"], "allow[office.test]"),
        ] {
            assert_eq!(access(lines), lists, "{lines:?}");
        }
    }

    #[test]
    fn any_rules_decide_alike_in_both_ways() {
        const NETWORKS: [&str; 5] = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "0.0.0.0/0", "192.0.2.0/24"];
        let clients = ["10.1.2.3", "10.1.9.9", "10.9.9.9", "192.0.2.1", "198.51.100.1", "2001:db8::1"];
        let (kinds, count) = (["deny if", "deny unless", "allow if", "allow unless"], 4 * NETWORKS.len());
        let line = |n: usize| format!("{} {{ src {} }}", kinds[n % 4], NETWORKS[n / 4]);
        for number in 0..count * count * count {
            let lines = [line(number % count), line(number / count % count), line(number / count / count)];
            let rules = rules(&[&lines[0], &lines[1], &lines[2]]);
            let verdict = verdict(&[&rules[..2], &rules[2..]]);
            for client in clients {
                let client = network(client).expect("an address");
                let is_in = |entry: &Entry| matches!(entry, Entry::Network(outer) if contains(outer, &client));
                let passes =
                    |rules: &[AddressRule]| rules.iter().find(|rule| rule.holds(&is_in)).is_none_or(|r| r.lets_in);
                let ours = match &verdict {
                    Verdict::Open => true,
                    Verdict::Lists(table, false) => longest(table, &client),
                    other => panic!("{lines:?}: {other:?}"),
                };
                assert_eq!(ours, passes(&rules[..2]) && passes(&rules[2..]), "{lines:?} {client} {verdict:?}");
            }
        }
    }

    /// Decision of a table of `access`.
    fn longest(table: &Draft<Access>, client: &Cidr) -> bool {
        let list = |key: KeyOf<Access>| match table.get(key) {
            Some(Value::List(list)) => list.iter().filter_map(text).filter_map(network).collect(),
            _ => Vec::new(),
        };
        let longest = |list: &[Cidr]| list.iter().filter(|n| contains(n, client)).map(|n| n.prefix() as i32).max();
        let (allow, deny): (Vec<Cidr>, Vec<Cidr>) = (list(key!("allow")), list(key!("deny")));
        assert!(!allow.iter().any(|network| deny.contains(network)), "{table:?}");
        match (longest(&allow), longest(&deny)) {
            (None, None) => allow.is_empty(),
            (allow, deny) => allow > deny,
        }
    }
}
