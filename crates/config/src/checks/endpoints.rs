//! Checks of endpoints by the users of their pool: Unix sockets, and separate hosts, paths and names in TLS.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Address, Formed, SendHost};
use crate::sections::listener::Mode;
use crate::sections::pool::{Check, Pool, Probe, SpeakAs};
use crate::sections::route::Route;
use crate::source::Span;
use crate::table::Section;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Reports endpoints that their pool cannot use.
pub(super) fn check(root: &Section, leads: &Leads<'_>, pools: &[Arc<Pool>], findings: &mut Findings) {
    for (named, pool) in root.named("pool").iter().zip(pools) {
        let sections = named.section.sections("endpoints");
        let socket = sections.iter().find(|e| matches!(e.formed("addr"), Some(Formed::Address(Address::Unix(_)))));
        if let Some(socket) = socket {
            check_socket(&named.section, pool, socket.span_of("addr"), leads, findings);
        }
        check_quic_ids(pool, &sections, leads, findings);
        for endpoint in sections {
            check_own(pool, endpoint, leads, findings);
        }
    }
}

/// Other protocol that leads to a pool than requests and TCP sessions.
fn other(pool: &Pool, leads: &Leads<'_>) -> Option<&'static str> {
    let is_udp = |route: &&Route| route.listeners.iter().any(|name| leads.mode_of(name) == Some(Mode::Udp));
    match leads.routes(&pool.name).iter().any(is_udp) {
        true => Some("gets datagrams"),
        false => leads.is_answered(&pool.name).then_some("is named in DNS answers"),
    }
}

/// Reports keys of a pool that a Unix socket at `span` cannot have.
fn check_socket(section: &Section, pool: &Pool, span: Span, leads: &Leads<'_>, findings: &mut Findings) {
    let name = &pool.name;
    if let Some(what) = other(pool, leads) {
        let message = format!("pool \"{name}\" {what}, and a Unix socket has no IP address");
        findings.add(Code::PlaneLacks, span, message).help("write the IP address and port of the endpoint");
    }
    let mut excludes = |key: &str, message: &str, help: &str| {
        let at = section.span_of(key);
        findings
            .add(Code::Contradiction, at, format!("{message}, and pool \"{name}\" has a Unix socket"))
            .see("the socket is here", span)
            .help(help);
    };
    if pool.source == SpeakAs::Client {
        excludes(
            "source",
            "a source address is for TCP",
            "leave it out, and use proxy_protocol = \"v2\" for the client's address",
        );
    }
    if pool.load_reports.as_ref().is_some_and(|reports| reports.probe == Probe::Udp) {
        excludes("load_reports", "probe = \"udp\" needs IP addresses", "write probe = \"http\"");
    }
    if let Some(health) = &pool.health {
        if matches!(health.check, Check::Udp { .. }) {
            excludes(
                "health",
                "a check over UDP needs IP addresses",
                "check over the socket: http = \"/healthz\", or tcp = {}",
            );
        } else if health.port.is_some() {
            excludes("health", "\"port\" of a check is for IP addresses", "leave \"port\" out");
        }
    }
}

/// True if routes to the pool, or its checks or probes, send the hosts of endpoints.
fn sends_host(pool: &Pool, routes: &[&Route]) -> bool {
    let is_checked = pool
        .health
        .as_ref()
        .is_some_and(|health| matches!(health.check, Check::Http { host: None, .. } | Check::Grpc { host: None, .. }));
    let is_probed = pool.load_reports.as_ref().is_some_and(|reports| reports.probe == Probe::Http);
    is_checked || is_probed || routes.iter().any(|route| route.filters.send_host == SendHost::Endpoint)
}

/// Lengths of server ids in connection ids of QUIC: these have 20 bytes at most, of which one is in front and four are a nonce.
const QUIC_IDS: RangeInclusive<usize> = 1..=15;

/// Reports server ids of QUIC that lead to no endpoint, or to more than one.
fn check_quic_ids(pool: &Pool, endpoints: &[&Section], leads: &Leads<'_>, findings: &mut Findings) {
    let id_of = |endpoint: &&Section| match endpoint.formed("quic_id") {
        Some(Formed::Payload(id)) => Some((id, endpoint.span_of("quic_id"))),
        _ => None,
    };
    let ids: Vec<(Vec<u8>, Span)> = endpoints.iter().filter_map(id_of).collect();
    let Some((_, first)) = ids.first() else { return };
    let routes = leads.routes(&pool.name);
    let is_udp = |route: &&Route| route.listeners.iter().any(|name| leads.mode_of(name) == Some(Mode::Udp));
    if !routes.is_empty() && !routes.iter().any(is_udp) {
        let message = format!(
            "\"quic_id\" is for datagrams, and no listener with mode = \"udp\" leads to pool \"{}\"",
            pool.name
        );
        findings
            .add(Code::Contradiction, *first, message)
            .help("leave it out, or send a listener with mode = \"udp\" to this pool");
    }
    for (at, (id, span)) in ids.iter().enumerate() {
        if !QUIC_IDS.contains(&id.len()) {
            let message = format!("\"quic_id\" has {} bytes, and has to have 1 to 15", id.len());
            findings.add(Code::OutOfRange, *span, message).help("write the server id of the endpoint, as \"hex:0a01\"");
            continue;
        }
        let begins = |(other, _): &&(Vec<u8>, Span)| other.starts_with(id) || id.starts_with(other);
        let Some((other, earlier)) = ids[..at].iter().filter(|(id, _)| !id.is_empty()).find(begins) else { continue };
        let message = match other == id {
            true => format!("two endpoints of pool \"{}\" have this \"quic_id\"", pool.name),
            false => format!(
                "one \"quic_id\" of pool \"{}\" begins with another, so a connection id may name both",
                pool.name
            ),
        };
        findings
            .add(Code::Contradiction, *span, message)
            .see("the other is here", *earlier)
            .help("give each server an id of its own, all of the same length");
    }
}

/// Reports keys of an endpoint without an effect.
fn check_own(pool: &Pool, endpoint: &Section, leads: &Leads<'_>, findings: &mut Findings) {
    let Some(Formed::Address(addr)) = endpoint.formed("addr") else { return };
    let routes = leads.routes(&pool.name);
    let is_tcp = |route: &&Route| route.listeners.iter().any(|name| leads.mode_of(name) == Some(Mode::Tcp));
    let other = other(pool, leads).or_else(|| routes.iter().any(is_tcp).then_some("gets TCP sessions"));
    for key in ["host", "path_prefix"] {
        if let (Some(set), Some(what)) = (endpoint.set(key), other) {
            let message = format!("\"{key}\" applies to HTTP requests, and pool \"{}\" {what}", pool.name);
            findings
                .add(Code::Contradiction, set.span, message)
                .help("leave it out, or use a separate pool for the listeners with mode = \"http\"");
        }
    }
    if let Some(set) = endpoint.set("host")
        && other.is_none()
        && !sends_host(pool, routes)
    {
        let message = format!("no route, check or probe of pool \"{}\" sends the host of endpoints", pool.name);
        findings.add(Code::AtOdds, set.span, message).help("write send_host = \"endpoint\" in its [[route]]");
    }
    match (&pool.tls, endpoint.set("tls_name")) {
        (None, Some(set)) => {
            let message = format!("\"tls_name\" needs TLS, and pool \"{}\" has none", pool.name);
            findings.add(Code::Contradiction, set.span, message).help("add tls = true to the pool");
        }
        (Some(tls), None) if matches!(addr, Address::Unix(_)) && tls.server_name.is_none() && !endpoint.has("name") => {
            let message = format!("a Unix socket has no name for TLS, and pool \"{}\" sets none", pool.name);
            findings
                .add(Code::Missing, endpoint.span_of("addr"), message)
                .help("add tls_name = \"app.internal\", or server_name to the pool's tls");
        }
        _ => {}
    }
}
