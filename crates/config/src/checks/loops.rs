//! Detection of request loops. An endpoint may be a listener of the same evenkeel, which forwards requests
//! again, but the chain must not lead back to the pool that it started from.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Address, Formed};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::sections::listener::Mode;
use crate::source::Span;
use crate::table::Section;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A bound address of a listener.
struct Bound {
    listener: usize,
    ip: IpAddr,
    mode: Mode,
    span: Span,
}

/// An endpoint that is a listener of this evenkeel.
struct Link {
    pool: usize,
    endpoint: usize,
    listener: usize,
    span: Span,
}

/// Reports endpoints through which requests come back. `machine` knows its own addresses; without it,
/// loopback addresses and bound ones are assumed to be its own.
pub(crate) fn check(root: &Section, plan: &Plan, machine: Option<&Machine>, findings: &mut Findings) {
    let mut bound: HashMap<u16, Vec<Bound>> = HashMap::new();
    for (listener, named) in root.named("listener").iter().enumerate() {
        let Some(Mode::Http | Mode::Tcp | Mode::Udp) = plan.listeners.get(listener).map(|l| l.mode) else { continue };
        for (formed, span) in named.section.formed_list("bind") {
            let Formed::Bind(addr) = formed else { continue };
            let (ip, mode) = (addr.ip().to_canonical(), plan.listeners[listener].mode);
            bound.entry(addr.port()).or_default().push(Bound { listener, ip, mode, span });
        }
    }
    let modes = plan.modes();
    let mut links = Vec::new();
    for (pool, modes) in modes.iter().enumerate() {
        for (endpoint, e) in plan.pools[pool].endpoints.iter().enumerate() {
            let here = e.addr.port().and_then(|port| bound.get(&port)).map_or(&[][..], Vec::as_slice);
            let same = |b: &&Bound| modes.iter().any(|mode| speaks(*mode, b.mode)) && is_at(&e.addr, b.ip, machine);
            let link = |b: &Bound| Link { pool, endpoint, listener: b.listener, span: b.span };
            links.extend(here.iter().find(same).map(link));
        }
    }
    if links.is_empty() {
        return;
    }
    report(root, plan, &links, findings);
}

fn report(root: &Section, plan: &Plan, links: &[Link], findings: &mut Findings) {
    let mut of_pool: HashMap<usize, HashSet<usize>> = HashMap::new();
    for link in links {
        of_pool.entry(link.pool).or_default().insert(link.listener);
    }
    let (named, common) = (plan.pools_named_on(), plan.pools_of_all());
    // Only pools with such endpoints forward to a listener again.
    let pools = |listener: usize| {
        let common = if plan.listeners[listener].mode == Mode::Http { &common[..] } else { &[] };
        named[listener].iter().chain(common).filter(|pool| of_pool.contains_key(pool))
    };
    let sections = root.named("pool");
    for link in links {
        // All listeners that a request can reach from here.
        let (mut seen, mut next, mut back) = (HashSet::from([link.listener]), vec![link.listener], None);
        while let (Some(listener), None) = (next.pop(), back) {
            back = pools(listener).any(|pool| *pool == link.pool).then_some(listener);
            next.extend(pools(listener).flat_map(|pool| &of_pool[pool]).filter(|l| seen.insert(**l)));
        }
        let Some(back) = back else { continue };
        let endpoint =
            sections.get(link.pool).and_then(|p| p.section.sections("endpoints").into_iter().nth(link.endpoint));
        let Some(span) = endpoint.map(|e| e.span_of("addr")) else { continue };
        let (pool, name) = (&plan.pools[link.pool], &plan.listeners[link.listener].name);
        let addr = &pool.endpoints[link.endpoint].addr;
        let message = match back == link.listener {
            true => format!("endpoint {addr} is listener \"{name}\" itself: every request would loop"),
            false => format!(
                "endpoint {addr} is listener \"{name}\", which forwards requests back to listener \"{}\": they would loop",
                plan.listeners[back].name
            ),
        };
        findings
            .add(Code::Loop, span, message)
            .see("it listens here", link.span)
            .help("set the address of the application, or let evenkeel listen on another port");
    }
}

/// True if a listener of mode `listener` accepts the traffic of a pool used in mode `pool`.
fn speaks(pool: Mode, listener: Mode) -> bool {
    pool != Mode::Dns && (pool == Mode::Udp) == (listener == Mode::Udp)
}

/// True if connecting to an endpoint reaches the socket bound to `bound`, given equal ports.
fn is_at(endpoint: &Address, bound: IpAddr, machine: Option<&Machine>) -> bool {
    let at = |ip: IpAddr| {
        let ip = ip.to_canonical();
        let takes = match bound {
            IpAddr::V4(bound) => bound.is_unspecified() && ip.is_ipv4(),
            // `[::]` accepts IPv4 too.
            IpAddr::V6(bound) => bound.is_unspecified(),
        };
        ip == bound || (takes && (ip.is_loopback() || machine.is_some_and(|machine| (machine.is_own)(ip))))
    };
    match endpoint {
        Address::Ip(addr) => at(SocketAddr::ip(addr)),
        // RFC 6761, section 6.3.
        Address::Name { host, .. } => {
            (host == "localhost" || host.ends_with(".localhost"))
                && (at(Ipv4Addr::LOCALHOST.into()) || at(Ipv6Addr::LOCALHOST.into()))
        }
        // No listener is bound to it.
        Address::Unix(_) => false,
    }
}
