//! Do pools that get datagrams want what only connections or requests have?

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::HashKey;
use crate::sections::listener::{Listener, Mode};
use crate::sections::pool::Pool;
use crate::sections::route::Route;
use crate::table::Section;

/// Reports where a pool that gets datagrams wants what only connections or requests have.
pub(super) fn check(root: &Section, listeners: &[Listener], routes: &[Route], pools: &[Pool], findings: &mut Findings) {
    let is_udp = |name: &str| listeners.iter().any(|l| *l.name == *name && l.mode == Mode::Udp);
    let gets_datagrams =
        |pool: &Pool| routes.iter().any(|r| r.pool == pool.name && r.listeners.iter().any(|l| is_udp(l)));
    for named in root.named("pool") {
        let Some(pool) = pools.iter().find(|p| *p.name == *named.name && gets_datagrams(p)) else { continue };
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
