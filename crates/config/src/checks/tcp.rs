//! Checks of keys against the protocol: TCP sessions have no requests, and HTTP requests have no ClientHello.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Formed, HashKey, HostPattern};
use crate::sections::listener::{LIMITS_OF_REQUESTS, Listener, Mode, OF_REQUESTS};
use crate::sections::pool::{EndpointProtocol, Pool, SpeakAs};
use crate::sections::route::Route;
use crate::table::Section;
use std::collections::HashMap;
use std::sync::Arc;

/// Keys of a match that only requests have.
const MATCH_OF_REQUESTS: [&str; 14] = [
    "path",
    "prefix",
    "starts_with",
    "grpc",
    "ends_with",
    "regex",
    "method",
    "header",
    "query",
    "cookie",
    "client",
    "scheme",
    "not",
    "any",
];

/// Keys of a route that only requests have.
const ROUTE_OF_REQUESTS: [&str; 24] = [
    "use",
    "split",
    "redirect",
    "respond",
    "maintenance",
    "error_pages",
    "request_headers",
    "response_headers",
    "strip_prefix",
    "rewrite",
    "restore_prefix",
    "send_host",
    "cookies",
    "access",
    "limits",
    "jwt",
    "body_max",
    "bandwidth",
    "cache",
    "compress",
    "cors",
    "basic_auth",
    "forward_auth",
    "mirror",
];

/// Reports keys that have no effect with the modes of the listeners involved.
pub(super) fn check(
    root: &Section,
    listeners: &[Arc<Listener>],
    leads: &Leads<'_>,
    pools: &[Arc<Pool>],
    findings: &mut Findings,
) {
    let sections = root.named("listener");
    for (listener, named) in listeners.iter().zip(sections).filter(|(l, _)| l.mode == Mode::Tcp) {
        let limits = named.section.section("limits");
        let of_listener = OF_REQUESTS.iter().filter_map(|key| Some((*key, named.section.set(key)?.span)));
        let of_limits = LIMITS_OF_REQUESTS.iter().filter_map(|key| Some((*key, limits.set(key)?.span)));
        for (key, span) in of_listener.chain(of_limits) {
            let message =
                format!("\"{key}\" applies to HTTP requests, and listener \"{}\" relays sessions", listener.name);
            named.section.contradiction(span, message, "mode", findings).help("leave it out, or set mode = \"http\"");
        }
    }
    for section in root.sections("route") {
        let matches = section.section("match");
        let name = |(formed, _)| if let Formed::Text(name) = formed { leads.mode_of(&name) } else { None };
        let modes: Vec<Mode> = matches.formed_list("listener").into_iter().filter_map(name).collect();
        if let Some(alpn) = matches.set("alpn")
            && (matches.set("listener").is_none() || modes.iter().any(|mode| *mode != Mode::Tcp))
        {
            findings
                .add(
                    Code::Contradiction,
                    alpn.span,
                    "\"alpn\" applies to TCP sessions, and this route also takes others",
                )
                .help("list only listeners with mode = \"tcp\" in \"listener\"");
        }
        check_filters(section, &modes, findings);
        if !modes.contains(&Mode::Tcp) {
            continue;
        }
        let of_requests = MATCH_OF_REQUESTS.iter().filter_map(|key| Some((key, matches.set(key)?)));
        for (key, path) in of_requests {
            let message = format!("\"{key}\" applies to HTTP requests, and a TCP session has none");
            findings
                .add(Code::Contradiction, path.span, message)
                .help("leave it out, or list only listeners with mode = \"http\"");
        }
    }
    let sections = root.named("pool");
    for (pool, named) in pools.iter().zip(sections) {
        let here = |mode: Mode| {
            leads.routes(&pool.name).iter().any(|r| match r.listeners.is_empty() {
                true => mode == Mode::Http,
                false => r.listeners.iter().any(|l| leads.mode_of(l) == Some(mode)),
            })
        };
        if here(Mode::Tcp) {
            check_pool(pool, &named.section, findings);
        }
        // The kernel keeps the address of clients of both transports.
        let by_proxy = |mode: Mode| {
            let is =
                |name: &Arc<str>| listeners.iter().any(|l| l.name == *name && l.mode == mode && !l.plane.is_kernel());
            leads.routes(&pool.name).iter().any(|r| r.listeners.iter().any(is))
        };
        if pool.source == SpeakAs::Client && (here(Mode::Http) || by_proxy(Mode::Udp)) {
            let message = format!(
                "pool \"{}\" uses the client's address as its source, which works for TCP only, and serves other listeners too",
                pool.name
            );
            findings
                .add(Code::Contradiction, named.section.span_of("source"), message)
                .help("use a separate pool for the listeners with mode = \"tcp\"");
        }
    }
}

/// Reports filters of a route that also takes sessions or flows, which would pass unchecked.
fn check_filters(route: &Section, modes: &[Mode], findings: &mut Findings) {
    let Some(mode) = modes.iter().find(|mode| **mode != Mode::Http) else { return };
    for (key, set) in ROUTE_OF_REQUESTS.iter().filter_map(|key| Some((key, route.set(key)?))) {
        let message =
            format!("\"{key}\" applies to HTTP requests, and a listener with mode = \"{}\" has none", mode.name());
        findings
            .add(Code::Contradiction, set.span, message)
            .help("leave it out, or list only listeners with mode = \"http\"");
    }
}

/// Reports keys of a pool that do not apply to TCP sessions.
fn check_pool(pool: &Pool, section: &Section, findings: &mut Findings) {
    if let Some(sticky) = section.set("sticky") {
        findings
            .add(Code::Contradiction, sticky.span, format!("a TCP session has no cookie for pool \"{}\"", pool.name))
            .help("leave \"sticky\" out; maglev with key = \"client-ip\" keeps clients at their endpoint");
    }
    if let Some(set) = section.set("protocol").filter(|_| pool.protocol != EndpointProtocol::Http1) {
        let message = format!("pool \"{}\" gets TCP sessions, which are relayed unchanged", pool.name);
        findings
            .add(Code::Contradiction, set.span, message)
            .help("leave \"protocol\" out, or use a separate pool for the listeners with mode = \"http\"");
    }
    if let Some(key) = pool.balance.key().filter(|key| **key != HashKey::ClientIp) {
        let message =
            format!("\"{}\" is keyed by \"{key}\", which a TCP session does not have", pool.balance.algorithm.name);
        findings.add(Code::PlaneLacks, section.span_of("balance"), message).help("use key = \"client-ip\"");
    }
}

/// Reports routes of a listener that match the same sessions.
pub(super) fn check_routes(listener: &Listener, routes: &[(&Route, &Section)], findings: &mut Findings) {
    // A route takes each pair of its hosts (`None` = any) and protocols (`None` = any).
    let mut taken: HashMap<(Option<&HostPattern>, Option<&str>), usize> = HashMap::new();
    for (index, (second, section)) in routes.iter().enumerate() {
        let any_host = second.matching.hosts.is_empty().then_some(None);
        let any_alpn = second.alpn.is_empty().then_some(None);
        let mut earlier: Option<usize> = None;
        for host in second.matching.hosts.iter().map(Some).chain(any_host) {
            for alpn in second.alpn.iter().map(|p| Some(&**p)).chain(any_alpn) {
                let first = *taken.entry((host, alpn)).or_insert(index);
                if first < index {
                    earlier = Some(earlier.map_or(first, |e| e.min(first)));
                }
            }
        }
        if let Some((first, earlier)) = earlier.map(|at| routes[at]) {
            let message = format!("routes \"{}\" and \"{}\" match the same sessions", first.name, second.name);
            findings
                .add(Code::SameMatch, section.section("match").span, message)
                .see("the first one is here", earlier.section("match").span)
                .help("their order does not matter: make one of them more specific, or remove it");
        }
        if listener.pool.is_some() && second.matching.hosts.is_empty() && second.alpn.is_empty() {
            let message = format!("route \"{}\" matches every session, as does the listener's own pool", second.name);
            findings
                .add(Code::SameMatch, section.section("match").span, message)
                .help(format!("remove it, or \"pool\" of [listener.{}]", listener.name));
        }
    }
}
