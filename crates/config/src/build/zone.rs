//! `zone` of `[listener.NAME]`: what is answered to resolvers, and whether its pools can be told as addresses.

use super::contradiction;
use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::nearest::suggest;
use crate::plan::{ClientLocality, HashKey, Mode, NameServer, Pool, Record, RecordKind, Zone};
use crate::read::Section;
use crate::source::Place;
use evenkeel_balance::algorithms;
use std::sync::Arc;
use std::time::Duration;

/// The zone of a listener, if it has one.
pub(super) fn zone(listener: &Section, mode: Mode, findings: &mut Findings) -> Option<Zone> {
    let set = listener.set("zone");
    if mode == Mode::Dns && set.is_none() {
        findings
            .add(Code::Missing, listener.place, "a listener with mode = \"dns\" answers for a zone, but has none")
            .help("add zone = { name = \"gslb.example.com\", records = { www = { pool = \"web\" } } }");
    }
    let place = set?.place;
    if mode != Mode::Dns {
        let message = format!("a zone is answered by DNS, but the listener has mode = \"{}\"", mode.name());
        contradiction(listener, place, message, "mode", findings).help("set mode = \"dns\", or leave \"zone\" out");
        return None;
    }
    if let Some(pool) = listener.set("pool") {
        let message = "a listener with mode = \"dns\" has no pool of its own: each record names one";
        contradiction(listener, pool.place, message, "zone", findings).help("leave \"pool\" out");
    }
    let zone = listener.section("zone");
    let name: Arc<str> = zone.text("name").unwrap_or_default().into();
    let mut records = Vec::new();
    if zone.set("apex").is_some() {
        records.push(record("", RecordKind::Address, &zone.section("apex")));
    }
    for named in zone.named("records") {
        let kind = if named.section.word("type") == "srv" { RecordKind::Service } else { RecordKind::Address };
        let of = record(&named.name.to_ascii_lowercase(), kind, &named.section);
        if !crate::form::is_domain(&of.name) || of.name.len() + name.len() > 252 {
            findings
                .add(Code::BadName, named.place, format!("\"{}\" is no name in the zone", named.name))
                .help("labels are 1 to 63 letters, digits, - and _, parted by dots");
        }
        if records.iter().any(|r: &Record| r.name == of.name) {
            findings
                .add(Code::SameName, named.place, format!("two records are named \"{}\"", of.name))
                .help("give each a name of its own; case makes no difference");
        }
        records.push(of);
    }
    if records.is_empty() && !zone.is_broken() {
        findings
            .add(Code::NothingToDo, place, "the zone has no records: every answer would be negative")
            .help("add records = { www = { pool = \"web\" } }");
    }
    Some(Zone {
        ttl: seconds(&zone).unwrap_or_default(),
        records,
        name_servers: zone.sections("ns").iter().map(|ns| name_server(ns, &name, findings)).collect(),
        contact: zone.text("contact").map(Arc::from),
        serial: zone.number("serial"),
        fail_open: zone.flag("fail_open"),
        client_subnet: zone.flag("client_subnet"),
        localities: zone.sections("localities").iter().map(locality).collect(),
        responses_per_subnet: zone.number("responses_per_subnet"),
        query_log: zone.float("query_log"),
        name,
    })
}

fn record(name: &str, kind: RecordKind, section: &Section) -> Record {
    Record {
        name: name.into(),
        kind,
        pool: section.text("pool").unwrap_or_default().into(),
        answers: section.number("answers"),
        ttl: section.set("ttl").and(seconds(section)),
        prefers_near: section.word("policy") == "locality",
    }
}

/// Whole seconds, as DNS has them.
fn seconds(section: &Section) -> Option<u32> {
    section.duration("ttl").map(|ttl: Duration| ttl.as_secs() as u32)
}

fn name_server(section: &Section, zone: &str, findings: &mut Findings) -> NameServer {
    let name = section.text("name").unwrap_or_default();
    let ip = |(formed, _)| if let Formed::Ip(ip) = formed { Some(ip) } else { None };
    let addresses: Vec<_> = section.formed_list("addresses").into_iter().filter_map(ip).collect();
    let inside = name == zone || name.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.'));
    if inside && addresses.is_empty() && !section.is_broken() {
        findings
            .add(Code::Missing, section.place, format!("name server \"{name}\" is in its zone, but has no addresses"))
            .help("add addresses = [\"192.0.2.1\"]: nobody else could tell them");
    }
    NameServer { name: name.into(), addresses }
}

fn locality(section: &Section) -> ClientLocality {
    let network = |(formed, _)| if let Formed::Network(cidr) = formed { Some(cidr) } else { None };
    ClientLocality {
        zone: section.text("zone").unwrap_or_default().into(),
        clients: section.formed_list("clients").into_iter().filter_map(network).collect(),
    }
}

/// Whether every record's pool is there, and can be balanced by answers alone.
pub(super) fn check(root: &Section, pools: &[Pool], findings: &mut Findings) {
    for listener in root.named("listener").iter().filter(|l| l.section.word("mode") == Mode::Dns.name()) {
        let zone = listener.section.section("zone");
        let apex = zone.set("apex").map(|_| zone.section("apex"));
        for record in apex.into_iter().chain(zone.named("records").into_iter().map(|named| named.section)) {
            let Some(name) = record.text("pool") else { continue };
            let place = record.place_of("pool");
            match pools.iter().find(|p| *p.name == *name) {
                None => {
                    let names: Vec<&str> = pools.iter().map(|p| &*p.name).collect();
                    let help = if names.is_empty() { "add the pool".to_string() } else { suggest(&name, &names) };
                    findings.add(Code::UnknownPool, place, format!("there is no pool \"{name}\"")).help(help);
                }
                Some(pool) => check_pool(pool, place, findings),
            }
        }
    }
}

/// Says so if endpoints have limits that nothing counts for.
pub(super) fn check_limits(root: &Section, leads: &Leads<'_>, pools: &[Pool], findings: &mut Findings) {
    let only_told = |pool: &Pool| leads.routes(&pool.name).is_empty() && leads.is_answered(&pool.name);
    for (named, pool) in root.named("pool").iter().zip(pools).filter(|(_, pool)| only_told(pool)) {
        let limits = named.section.section("limits");
        for set in ["requests_per_endpoint", "concurrency"].into_iter().filter_map(|key| limits.set(key)) {
            let message = format!(
                "pool \"{}\" is only told to resolvers, and of what comes of an answer nothing is counted: no endpoint is \
                 ever at its limit",
                pool.name
            );
            findings.add(Code::AtOdds, set.place, message).help("leave it out, and let the endpoints have limits");
        }
    }
}

fn check_pool(pool: &Pool, place: Place, findings: &mut Findings) {
    let (name, algorithm) = (&pool.name, pool.balance.algorithm);
    if algorithm.needs.ends {
        let fit: Vec<_> = algorithms::ALL.iter().filter(|a| !a.needs.ends).map(|a| a.name).collect();
        let message = format!(
            "pool \"{name}\" is balanced by \"{}\", which needs to know when requests end; of what comes of an answer DNS \
             learns nothing",
            algorithm.name
        );
        findings
            .add(Code::PlaneLacks, place, message)
            .help(format!("set balance to one of {} there, or make a pool for DNS that does", fit.join(", ")));
    }
    if let Some(key) = pool.balance.key().filter(|key| **key != HashKey::ClientIp) {
        findings
            .add(
                Code::PlaneLacks,
                place,
                format!("pool \"{name}\" is balanced by \"{key}\", which a DNS query has not"),
            )
            .help("set its key to \"client-ip\": the network of the resolver, or of its client");
    }
}
