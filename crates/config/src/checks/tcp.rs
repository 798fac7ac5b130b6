//! Checks of keys against the protocol: TCP sessions and datagrams have no requests, and HTTP requests have no
//! ClientHello.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Formed, HashKey, HostPattern, map_in_braces};
use crate::sections::action::Split;
use crate::sections::listener::{LIMITS_OF_REQUESTS, Listener, Mode, OF_REQUESTS};
use crate::sections::pool::{EndpointProtocol, Pool, SpeakAs};
use crate::sections::route::Route;
use crate::table::{Declared, Section};
use std::collections::HashMap;
use std::sync::Arc;

/// Keys of a match that sessions have, too.
const MATCH_OF_SESSIONS: [&str; 3] = ["listener", "host", "alpn"];

/// Keys of a route that sessions and datagrams have, too. All others, filters among them, would be passed unchecked.
const ROUTE_OF_SESSIONS: [&str; 7] = ["name", "match", "order", "pool", "split", "timeouts", "retry"];

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
        check_split(section, &modes, findings);
        check_choice(section, &modes, findings);
        check_match(&matches, &modes, findings);
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
    for (key, set) in route.set_beside(&ROUTE_OF_SESSIONS) {
        let message =
            format!("\"{key}\" applies to HTTP requests, and a listener with mode = \"{}\" has none", mode.name());
        findings
            .add(Code::Contradiction, set.span, message)
            .help("leave it out, or list only listeners with mode = \"http\"");
    }
}

/// Reports criteria that sessions or datagrams do not have, so that the route would never take any.
fn check_match(matches: &Section, modes: &[Mode], findings: &mut Findings) {
    let what = match (modes.contains(&Mode::Tcp), modes.contains(&Mode::Udp)) {
        (true, _) => "a TCP session",
        (_, true) => "a datagram",
        _ => return,
    };
    for (key, set) in matches.set_beside(&MATCH_OF_SESSIONS) {
        let message = format!("\"{key}\" applies to HTTP requests, and {what} has none");
        findings
            .add(Code::Contradiction, set.span, message)
            .help("leave it out, or list only listeners with mode = \"http\"");
    }
    if let Some(host) = matches.set("host").filter(|_| modes.contains(&Mode::Udp)) {
        findings
            .add(
                Code::Contradiction,
                host.span,
                "\"host\" applies to HTTP requests and TLS, and a datagram has neither",
            )
            .help("leave it out, or list only listeners with mode = \"http\" or \"tcp\"");
    }
}

/// Reports the choice of a pool by a map at a listener without requests, which maps look at.
fn check_choice(route: &Section, modes: &[Mode], findings: &mut Findings) {
    let is_choice = route.text("pool").is_some_and(|pool| map_in_braces(&pool).is_some());
    if let Some(mode) = modes.iter().find(|mode| is_choice && **mode != Mode::Http) {
        let message =
            format!("a map chooses the pool by the request, and a listener with mode = \"{}\" has none", mode.name());
        findings
            .add(Code::PlaneLacks, route.span_of("pool"), message)
            .help("name a pool, or list only listeners with mode = \"http\"");
    }
}

/// Reports a split that a listener of the route cannot keep: by parts of requests, or of answers. Planes of the kernel
/// are checked in `kernel`.
fn check_split(route: &Section, modes: &[Mode], findings: &mut Findings) {
    let Some(set) = route.set("split") else { return };
    if modes.contains(&Mode::Dns) {
        let message = "a listener with mode = \"dns\" cannot keep \"split\": a record names one pool";
        findings
            .add(Code::PlaneLacks, set.span, message)
            .help("leave the listener out, and name the pool in a record of its \"zone\"");
    }
    let what = match modes.iter().find(|mode| matches!(mode, Mode::Tcp | Mode::Udp)) {
        Some(Mode::Tcp) => "a TCP session",
        Some(_) => "a datagram",
        None => return,
    };
    let split = route.section("split");
    if let Some(key) = Split::of(&split).key.filter(|key| *key != HashKey::ClientIp) {
        let message = format!("\"split\" is keyed by \"{key}\", which {what} does not have");
        findings
            .add(Code::PlaneLacks, split.span_of("key"), message)
            .help("write key = \"client-ip\", or leave it out: each session or flow is drawn");
    }
}

/// Reports keys of a pool that do not apply to TCP sessions.
fn check_pool(pool: &Pool, section: &Section, findings: &mut Findings) {
    if let Some(sticky) = section.set("sticky") {
        findings
            .add(Code::Contradiction, sticky.span, format!("a TCP session has no cookie for pool \"{}\"", pool.name))
            .help("leave \"sticky\" out; maglev with key = \"client-ip\" keeps clients at their endpoint");
    }
    for (key, set) in ["request_headers", "response_headers"].iter().filter_map(|key| Some((key, section.set(key)?))) {
        let message = format!("\"{key}\" applies to HTTP requests, and pool \"{}\" gets TCP sessions", pool.name);
        findings
            .add(Code::Contradiction, set.span, message)
            .help("leave it out, or use a separate pool for the listeners with mode = \"http\"");
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

/// Reports routes of a listener that match the same sessions or datagrams.
pub(super) fn check_routes(listener: &Listener, routes: &[(&Route, &Section)], findings: &mut Findings) {
    // A route takes each pair of its hosts (`None` = any) and protocols (`None` = any), at its place of the order.
    let mut taken: HashMap<(Option<&HostPattern>, Option<&str>, u32), usize> = HashMap::new();
    let (one, several) = if listener.mode == Mode::Udp { ("datagram", "datagrams") } else { ("session", "sessions") };
    for (index, (second, section)) in routes.iter().enumerate() {
        let any_host = second.matching.hosts.is_empty().then_some(None);
        let any_alpn = second.alpn.is_empty().then_some(None);
        let mut earlier: Option<usize> = None;
        for host in second.matching.hosts.iter().map(Some).chain(any_host) {
            for alpn in second.alpn.iter().map(|p| Some(&**p)).chain(any_alpn) {
                let first = *taken.entry((host, alpn, second.order)).or_insert(index);
                if first < index {
                    earlier = Some(earlier.map_or(first, |e| e.min(first)));
                }
            }
        }
        if let Some((first, earlier)) = earlier.map(|at| routes[at]) {
            let message = format!("routes \"{}\" and \"{}\" match the same {several}", first.name, second.name);
            findings
                .add(Code::SameMatch, section.section("match").span, message)
                .see("the first one is here", earlier.section("match").span)
                .help("make one of them more specific, remove it, or set \"order\": the lower number wins");
        }
        if listener.pool.is_some() && second.matching.hosts.is_empty() && second.alpn.is_empty() {
            let message = format!("route \"{}\" matches every {one}, as does the listener's own pool", second.name);
            findings
                .add(Code::SameMatch, section.section("match").span, message)
                .help(format!("remove it, or \"pool\" of [listener.{}]", listener.name));
        }
    }
}
