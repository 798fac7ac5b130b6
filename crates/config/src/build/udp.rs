//! `mode = "udp"`: when flows end, and what there is no place for in datagrams.

use super::contradiction;
use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::plan::{HashKey, Mode, Pool, UdpFlows};
use crate::read::Section;
use std::time::Duration;

/// Keys of a listener that are about connections or HTTP.
const NOT_OF_DATAGRAMS: [&str; 3] = ["accept_proxy_protocol", "trusted_proxies", "report_load"];

pub(super) fn flows(listener: &Section, mode: Mode, findings: &mut Findings) -> UdpFlows {
    let mut alien = |key: &str, message: String, help: &str| {
        if let Some(set) = listener.set(key) {
            contradiction(listener, set.place, message, "mode", findings).help(help);
        }
    };
    if mode == Mode::Udp {
        for key in NOT_OF_DATAGRAMS {
            alien(key, format!("\"{key}\" has no meaning with mode = \"udp\""), "leave it out");
        }
    } else {
        let message = format!("\"udp\" has no meaning with mode = \"{}\"", mode.name());
        alien("udp", message, "leave it out, or set mode = \"udp\"");
    }
    let udp = listener.section("udp");
    UdpFlows { idle: udp.duration("idle").unwrap_or(Duration::MAX), answers: udp.int("answers") }
}

/// Says so if a pool that gets datagrams wants what only connections or requests have.
pub(super) fn check(root: &Section, leads: &Leads<'_>, pools: &[Pool], findings: &mut Findings) {
    let is_udp = |name: &str| leads.mode_of(name) == Some(Mode::Udp);
    let gets_datagrams = |pool: &Pool| leads.routes(&pool.name).iter().any(|r| r.listeners.iter().any(|l| is_udp(l)));
    for (named, pool) in root.named("pool").iter().zip(pools).filter(|(_, pool)| gets_datagrams(pool)) {
        let mut lacks = |key: &str, message: &str, help: &str| {
            let place = named.section.place_of(key);
            findings
                .add(Code::PlaneLacks, place, format!("pool \"{}\" gets datagrams: {message}", pool.name))
                .help(help);
        };
        if let Some(key) = pool.balance.key().filter(|key| **key != HashKey::ClientIp) {
            lacks("balance", &format!("they have no \"{key}\""), "write key = \"client-ip\"");
        }
        if pool.proxy_protocol.is_some() {
            lacks("proxy_protocol", "they carry no PROXY protocol header", "leave \"proxy_protocol\" out");
        }
        if pool.sticky.is_some() {
            lacks("sticky", "they carry no cookie", "use balance = { maglev = { key = \"client-ip\" } } instead");
        }
    }
}
