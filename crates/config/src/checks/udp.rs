//! Checks of pools that get datagrams.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::HashKey;
use crate::sections::listener::Mode;
use crate::sections::pool::{EndpointProtocol, Pool};
use crate::table::Section;
use std::sync::Arc;

/// Reports keys of such pools that need connections or HTTP requests.
pub(super) fn check(root: &Section, leads: &Leads<'_>, pools: &[Arc<Pool>], findings: &mut Findings) {
    let is_udp = |name: &str| leads.mode_of(name) == Some(Mode::Udp);
    let gets_datagrams = |pool: &Pool| leads.routes(&pool.name).iter().any(|r| r.listeners.iter().any(|l| is_udp(l)));
    for (named, pool) in root.named("pool").iter().zip(pools).filter(|(_, pool)| gets_datagrams(pool)) {
        let mut lacks = |key: &str, message: &str, help: &str| {
            let span = named.section.span_of(key);
            findings
                .add(Code::PlaneLacks, span, format!("pool \"{}\" gets datagrams: {message}", pool.name))
                .help(help);
        };
        if let Some(key) = pool.balance.key().filter(|key| **key != HashKey::ClientIp) {
            lacks("balance", &format!("datagrams have no \"{key}\""), "write key = \"client-ip\"");
        }
        if pool.proxy_protocol.is_some() {
            lacks("proxy_protocol", "datagrams carry no PROXY protocol header", "leave \"proxy_protocol\" out");
        }
        if pool.protocol != EndpointProtocol::Http1 {
            lacks("protocol", "datagrams are relayed unchanged", "leave \"protocol\" out");
        }
        if pool.sticky.is_some() {
            lacks("sticky", "datagrams carry no cookie", "use balance = { maglev = { key = \"client-ip\" } } instead");
        }
    }
}
