//! `zone` of a listener, written.

use super::{Lines, list, quote};
use crate::plan::{Record, RecordKind, Zone};
use std::time::Duration;

/// The keys of a zone.
pub(super) fn zone(zone: &Zone) -> Lines {
    let mut table = Lines::default();
    table.add(true, "name", quote(&zone.name));
    table.time(seconds(zone.ttl), seconds(5), "ttl");
    let mut records = Lines::default();
    for of in &zone.records {
        match &*of.name {
            "" => table.inline("apex", record(of)),
            name => records.inline(&quote(name), record(of)),
        }
    }
    table.inline("records", records);
    let servers = zone.name_servers.iter().map(|server| {
        let mut one = Lines::default();
        one.add(true, "name", quote(&server.name));
        let addresses = server.addresses.iter().map(|ip| quote(&ip.to_string()));
        one.add(!server.addresses.is_empty(), "addresses", list(addresses));
        one.braces()
    });
    table.add(!zone.name_servers.is_empty(), "ns", list(servers));
    table.maybe("contact", zone.contact.as_deref().map(quote));
    table.number(zone.serial, 1, "serial");
    table.add(!zone.fail_open, "fail_open", "false".to_string());
    table.add(zone.client_subnet, "client_subnet", "true".to_string());
    let localities = zone.localities.iter().map(|locality| {
        let mut one = Lines::default();
        one.add(true, "zone", quote(&locality.zone));
        one.networks("clients", &locality.clients);
        one.braces()
    });
    table.add(!zone.localities.is_empty(), "localities", list(localities));
    table.number(zone.responses_per_subnet, 1000, "responses_per_subnet");
    table.number(zone.query_log, 0.0, "query_log");
    table
}

fn record(record: &Record) -> Lines {
    let mut table = Lines::default();
    table.add(true, "pool", quote(&record.pool));
    table.number(record.answers, 4, "answers");
    table.maybe_time(record.ttl.map(seconds), None, "ttl");
    table.add(record.prefers_near, "policy", quote("locality"));
    table.add(record.kind == RecordKind::Service, "type", quote("srv"));
    table
}

fn seconds(n: u32) -> Duration {
    Duration::from_secs(n.into())
}
