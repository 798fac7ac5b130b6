//! Checks of listeners that the kernel forwards for, and of their pools: whatever the plane cannot keep is an error.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Address;
use crate::form::Formed;
use crate::machine::{Machine, NoPlane};
use crate::plan::Plan;
use crate::planes::policies::{self, Row};
use crate::planes::{Fidelity, Forwarding};
use crate::sections::listener::{Listener, Mode, Plane};
use crate::sections::pool::{Endpoint, Pool};
use crate::table::Section;
use std::collections::HashMap;
use std::sync::Arc;

/// Reports missing features of the kernel's planes.
pub(super) fn check(
    root: &Section,
    listeners: &[Arc<Listener>],
    leads: &Leads<'_>,
    pools: &[Arc<Pool>],
    findings: &mut Findings,
) {
    let sections = root.named("listener");
    let mut any = false;
    for (listener, named) in listeners.iter().zip(sections) {
        any |= listener.plane.is_kernel();
        check_listener(listener, &named.section, findings);
    }
    if !any {
        if let Some(set) = root.set("kernel") {
            let message = "no listener has a plane of the kernel, so \"kernel\" has no effect";
            findings
                .add(Code::AtOdds, set.span, message)
                .help("leave it out, or set plane = \"nftables\" or another one on a listener");
        }
        return;
    }
    let planes: HashMap<&str, &Arc<Listener>> =
        listeners.iter().filter(|l| l.plane.is_kernel()).map(|l| (&*l.name, l)).collect();
    for section in root.sections("route") {
        check_route(section, &planes, findings);
    }
    for (named, pool) in root.named("pool").iter().zip(pools) {
        let of_pool = leads.routes(&pool.name).iter().flat_map(|route| &route.listeners);
        let mut by_plane: Vec<&Arc<Listener>> = of_pool.filter_map(|name| planes.get(&**name).copied()).collect();
        by_plane.sort_by_key(|listener| listener.plane);
        by_plane.dedup_by_key(|listener| listener.plane);
        for listener in by_plane {
            check_pool(pool, &named.section, listener, findings);
        }
    }
}

/// Reports planes that the machine does not provide, each at its first listener. The kernel is asked about valid plans
/// only.
pub(crate) fn check_machine(root: &Section, plan: &Plan, machine: &Machine, findings: &mut Findings) {
    if findings.has_errors() || !plan.listeners.iter().any(|listener| listener.plane.is_kernel()) {
        return;
    }
    for NoPlane { plane, is_error, problem, help } in (machine.planes)(plan) {
        let Some(at) = root.named("listener").iter().find(|named| named.section.word("plane") == plane.name()) else {
            continue;
        };
        let code = if is_error { Code::NoPlane } else { Code::NotAsked };
        findings.add(code, at.section.span_of("plane"), problem).help(help);
    }
}

/// Keys of a section that rows refuse for a listener, each with the reason.
fn refused<'r>(
    kind: Forwarding,
    keys: impl Fn(&'r Row) -> &'r [&'static str] + 'r,
) -> impl Iterator<Item = (&'static str, &'static str)> + 'r {
    policies::ROWS.iter().flat_map(move |row| {
        let why = if let Fidelity::Refused(why) = row.keeps[kind as usize] { Some(why) } else { None };
        keys(row).iter().filter_map(move |key| Some((*key, why?)))
    })
}

fn check_route(section: &Section, planes: &HashMap<&str, &Arc<Listener>>, findings: &mut Findings) {
    let matches = section.section("match");
    let name = |(formed, _)| if let Formed::Text(name) = formed { planes.get(&*name).copied() } else { None };
    let Some(listener) = matches.formed_list("listener").into_iter().find_map(name) else { return };
    if let Some(set) = ["host", "alpn"].into_iter().find_map(|key| matches.set(key)) {
        let message = format!(
            "the kernel forwards for listener \"{}\", and does not read the name that TLS asks for",
            listener.name
        );
        findings
            .add(Code::PlaneLacks, set.span, message)
            .help("leave it out, or set plane = \"proxy\" on the listener");
    }
    for (key, why) in refused(Forwarding::of(listener.mode, listener.plane), |row| row.of_route) {
        let Some(set) = section.set(key) else { continue };
        findings
            .add(Code::PlaneLacks, set.span, cannot_keep(listener, key, why))
            .help("leave it out, or use a separate route for listeners with plane = \"proxy\"");
    }
}

fn cannot_keep(listener: &Listener, key: &str, why: &str) -> String {
    format!("plane = \"{}\" of listener \"{}\" cannot keep \"{key}\": {why}", listener.plane.name(), listener.name)
}

fn check_listener(listener: &Listener, section: &Section, findings: &mut Findings) {
    if !listener.plane.is_kernel() {
        if let Some(set) = section.set("kernel") {
            let message = format!(
                "\"kernel\" is for listeners that the kernel forwards for, and listener \"{}\" has plane = \"proxy\"",
                listener.name
            );
            section
                .contradiction(set.span, message, "plane", findings)
                .help("leave it out, or set plane = \"nftables\", \"ebpf\" or \"ipvs\"");
        }
        return;
    }
    let plane = listener.plane.name();
    if !matches!(listener.mode, Mode::Tcp | Mode::Udp) {
        let message = format!(
            "plane = \"{plane}\" forwards connections and datagrams, and listener \"{}\" has mode = \"{}\"",
            listener.name,
            listener.mode.name()
        );
        section
            .contradiction(section.span_of("plane"), message, "mode", findings)
            .help("set mode = \"tcp\" or \"udp\", or plane = \"proxy\"");
        return;
    }
    for (key, why) in refused(Forwarding::of(listener.mode, listener.plane), |row| row.of_listener) {
        let Some(set) = section.set(key) else { continue };
        section
            .contradiction(set.span, cannot_keep(listener, key, why), "plane", findings)
            .help("leave it out, or set plane = \"proxy\"");
    }
    for (formed, span) in section.formed_list("bind") {
        if let Formed::Bind(addr) = formed
            && addr.ip().is_unspecified()
        {
            let message = format!(
                "plane = \"{plane}\" needs the address that clients use, and \"{addr}\" stands for all addresses"
            );
            let example = if addr.is_ipv4() { "192.0.2.10" } else { "[2001:db8::10]" };
            let help = format!("write each address, as \"{example}:{}\"", addr.port());
            findings.add(Code::PlaneLacks, span, message).help(help);
        }
    }
    check_flows(listener, section, findings);
}

/// Reports lifetimes of flows that a plane does not have.
fn check_flows(listener: &Listener, section: &Section, findings: &mut Findings) {
    let plane = listener.plane.name();
    let kernel = section.section("kernel");
    if let Some(set) = kernel.set("idle") {
        let wrong = match (listener.mode, listener.plane) {
            (Mode::Udp, _) => {
                Some(("a flow of datagrams ends by \"udp.idle\"".to_owned(), "write udp = { idle = \"30s\" }"))
            }
            (_, Plane::Ebpf) => None,
            (_, Plane::Ipvs) => Some((
                "plane = \"ipvs\" ends connections by timeouts that all its services share".to_owned(),
                "leave it out; \"ipvsadm --set\" changes them",
            )),
            _ => Some((
                format!("plane = \"{plane}\" ends connections by the timeouts of connection tracking"),
                "leave it out; net.netfilter.nf_conntrack_tcp_timeout_established of sysctl is that of idle ones",
            )),
        };
        if let Some((message, help)) = wrong {
            section.contradiction(set.span, message, "plane", findings).help(help);
        }
    }
    if listener.mode != Mode::Udp {
        return;
    }
    let udp = section.section("udp");
    if let Some(set) = udp.set("answers").filter(|_| listener.udp.answers > 0) {
        let why = "the kernel does not count the answers of a flow";
        section
            .contradiction(set.span, cannot_keep(listener, "udp.answers", why), "plane", findings)
            .help("leave it out, or set plane = \"proxy\"");
    }
    if let Some(set) = udp.set("idle").filter(|_| listener.plane != Plane::Ebpf) {
        let (why, help) = match listener.plane {
            Plane::Ipvs => ("it ends flows by timeouts that all its services share", "\"ipvsadm --set\" changes them"),
            _ => (
                "it ends flows by the timeouts of connection tracking",
                "net.netfilter.nf_conntrack_udp_timeout and _timeout_stream of sysctl change them",
            ),
        };
        section
            .contradiction(set.span, cannot_keep(listener, "udp.idle", why), "plane", findings)
            .help(format!("leave it out; {help}"));
    }
}

fn check_pool(pool: &Pool, section: &Section, listener: &Listener, findings: &mut Findings) {
    let kind = Forwarding::of(listener.mode, listener.plane);
    let plane = listener.plane.name();
    if let Fidelity::Refused(why) = kind.keeps(&pool.balance) {
        let message = format!(
            "pool \"{}\" is balanced by \"{}\", which plane = \"{plane}\" of listener \"{}\" cannot keep: {why}",
            pool.name, pool.balance, listener.name
        );
        let keep: Vec<&str> = Forwarding::that_keep(&pool.balance).map(Forwarding::setting).collect();
        let other = match (listener.plane, pool.balance.algorithm.name) {
            (Plane::Nftables, "random") => ", or balance = { random = { draws = 1 } }",
            (Plane::Ipvs, "random") => ", or balance = \"random\"",
            (Plane::Nftables, _) => ", or balance = \"round_robin\"",
            _ => ", or balance = \"leastconn\"",
        };
        findings
            .add(Code::PlaneLacks, section.span_of("balance"), message)
            .help(format!("set {}{other}", keep.join(" or ")));
    }
    for (key, why) in refused(kind, |row| row.of_pool) {
        let Some(set) = section.set(key) else { continue };
        findings
            .add(Code::PlaneLacks, set.span, cannot_keep(listener, key, why))
            .help("leave it out, or use a separate pool for listeners with plane = \"proxy\"");
    }
    for (endpoint, of) in pool.endpoints.iter().zip(section.sections("endpoints")) {
        if let Some((problem, help)) = misfit(endpoint, listener) {
            let message = format!("plane = \"{plane}\" of listener \"{}\" cannot reach {problem}", listener.name);
            findings.add(Code::PlaneLacks, of.span_of("addr"), message).help(help);
        }
    }
}

/// Reason why the kernel cannot forward to an endpoint, and a fix.
fn misfit(endpoint: &Endpoint, listener: &Listener) -> Option<(String, &'static str)> {
    let (v4, v6) = (listener.bind.iter().any(|a| a.is_ipv4()), listener.bind.iter().any(|a| a.is_ipv6()));
    match &endpoint.addr {
        Address::Unix(path) => Some((
            format!("the Unix socket {path}"),
            "let the application listen on an IP address, or set plane = \"proxy\"",
        )),
        Address::Ip(addr) if (addr.is_ipv4() && !v4) || (addr.is_ipv6() && !v6) => Some((
            format!("{addr}: none of its own addresses is of that family"),
            "use an endpoint of the same family, add such an address to \"bind\", or set plane = \"proxy\"",
        )),
        Address::Ip(_) | Address::Name { .. } => None,
    }
}
