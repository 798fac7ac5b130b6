//! `[listener.NAME]`.

use super::{always, reports, udp, zone};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::plan::{Admin, Cidr, Listener, ListenerLimits, ListenerTimeouts, Mode};
use crate::read::{Named, Section};
use crate::source::Place;
use std::net::SocketAddr;
use std::sync::Arc;

pub(super) fn listeners(
    root: &Section,
    defaults: &Section,
    admin: Option<&Admin>,
    findings: &mut Findings,
) -> Vec<Listener> {
    let named = root.named("listener");
    if named.is_empty() && root.set("listener").is_none_or(|l| !l.is_broken()) {
        findings
            .add(Code::NothingToDo, root.place, "there is no listener: no request could come in")
            .help("add [listener.web] with bind = [\"127.0.0.1:8080\"]");
    }
    let mut bound: Vec<(SocketAddr, Mode, Place)> = Vec::new();
    if let Some(bind) = admin.and_then(|admin| admin.bind) {
        bound.push((bind, Mode::Http, root.section("admin").section("http").place_of("bind")));
    }
    named.iter().map(|listener| one(listener, defaults, &mut bound, findings)).collect()
}

fn one(
    Named { name, section, .. }: &Named,
    defaults: &Section,
    bound: &mut Vec<(SocketAddr, Mode, Place)>,
    findings: &mut Findings,
) -> Listener {
    let mode = mode(section);
    let shares = |other: Mode| (mode.is_on_tcp() && other.is_on_tcp()) || (mode.is_on_udp() && other.is_on_udp());
    let mut bind = Vec::new();
    for (formed, place) in section.formed_list("bind") {
        let Formed::Bind(addr) = formed else { continue };
        if let Some((.., first)) = bound.iter().find(|(b, other, _)| *b == addr && shares(*other)) {
            findings
                .add(Code::SameAddress, place, format!("{addr} is bound twice"))
                .see("it is bound here first", *first)
                .help("give each listener its own address or port");
        }
        bound.push((addr, mode, place));
        bind.push(addr);
    }
    let limits = section.section("limits");
    let rate = limits.float("requests_per_address");
    let burst = match limits.set("burst_per_address") {
        Some(_) => limits.number("burst_per_address"),
        None => ListenerLimits::usual_burst(rate),
    };
    let timeouts = section.section("timeouts");
    let from_defaults = defaults.section("timeouts");
    let chain = [&timeouts, &from_defaults];
    Listener {
        name: name.as_str().into(),
        mode,
        bind,
        pool: section.text("pool").map(Arc::from),
        zone: zone::zone(section, mode, findings),
        accept_proxy_protocol: networks(section, "accept_proxy_protocol", findings),
        trusted_proxies: networks(section, "trusted_proxies", findings),
        limits: ListenerLimits {
            connections: limits.number("connections"),
            connections_per_address: limits.number("connections_per_address"),
            requests_per_address: rate,
            burst_per_address: burst,
            headers: limits.number("headers"),
            header_count: limits.number("header_count"),
            requests_per_connection: limits.int("requests_per_connection"),
        },
        timeouts: ListenerTimeouts {
            client_header: always(&chain, "client_header"),
            client_idle: always(&chain, "client_idle"),
            client_body: always(&chain, "client_body"),
        },
        report_load: reports::report_load(section),
        udp: udp::flows(section, mode, findings),
    }
}

/// What a listener speaks.
fn mode(section: &Section) -> Mode {
    let modes = [Mode::Http, Mode::Tcp, Mode::Udp, Mode::Dns];
    modes.into_iter().find(|mode| mode.name() == section.word("mode")).unwrap_or_default()
}

impl ListenerLimits {
    /// The burst of listeners that set none: what the rate allows in a second.
    pub(crate) fn usual_burst(rate: f64) -> u32 {
        // A cast of what is below 2^32, which the row of the rate is far from.
        rate.ceil() as u32
    }
}

/// Whose word is taken for who the client is.
fn networks(section: &Section, key: &str, findings: &mut Findings) -> Vec<Cidr> {
    let network = |(formed, place)| if let Formed::Network(cidr) = formed { Some((cidr, place)) } else { None };
    let networks: Vec<(Cidr, Place)> = section.formed_list(key).into_iter().filter_map(network).collect();
    for (cidr, place) in networks.iter().filter(|(cidr, _)| cidr.prefix() == 0) {
        findings
            .add(Code::TrustsAll, *place, format!("\"{key}\" has every address: any client can say that it is another"))
            .help(format!("name the networks of your proxies instead of \"{cidr}\""));
    }
    networks.into_iter().map(|(cidr, _)| cidr).collect()
}
