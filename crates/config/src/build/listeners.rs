//! `[listener.NAME]`.

use super::always;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::plan::{Admin, Listener, ListenerLimits, ListenerTimeouts};
use crate::read::{Named, Section};
use crate::source::Place;
use std::net::SocketAddr;

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
    let mut bound: Vec<(SocketAddr, Place)> = Vec::new();
    if let Some(admin) = admin {
        bound.push((admin.bind, root.section("admin").section("http").place_of("bind")));
    }
    named.iter().map(|listener| one(listener, defaults, &mut bound, findings)).collect()
}

fn one(
    Named { name, section, .. }: &Named,
    defaults: &Section,
    bound: &mut Vec<(SocketAddr, Place)>,
    findings: &mut Findings,
) -> Listener {
    let mut bind = Vec::new();
    for (formed, place) in section.formed_list("bind") {
        let Formed::Bind(addr) = formed else { continue };
        if let Some((_, first)) = bound.iter().find(|(b, _)| *b == addr) {
            findings
                .add(Code::SameAddress, place, format!("{addr} is bound twice"))
                .see("it is bound here first", *first)
                .help("give each listener its own address or port");
        }
        bound.push((addr, place));
        bind.push(addr);
    }
    let limits = section.section("limits");
    let timeouts = section.section("timeouts");
    let chain = [&timeouts, defaults];
    Listener {
        name: name.as_str().into(),
        bind,
        limits: ListenerLimits {
            connections: limits.number("connections"),
            headers: limits.number("headers"),
            header_count: limits.number("header_count"),
            requests_per_connection: limits.int("requests_per_connection"),
        },
        timeouts: ListenerTimeouts {
            client_header: always(&chain, "client_header"),
            client_idle: always(&chain, "client_idle"),
            client_body: always(&chain, "client_body"),
        },
    }
}
