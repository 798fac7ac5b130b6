//! Does anything bring the load reports that a pool listens to?

use super::answered::is_answered;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::sections::listener::{Listener, Mode};
use crate::sections::pool::Pool;
use crate::sections::route::Route;
use crate::table::Section;

/// Reports where a pool is to hear of load that nobody asks for: reports come with responses, and probes are sent beside
/// requests.
pub(super) fn check(root: &Section, listeners: &[Listener], routes: &[Route], pools: &[Pool], findings: &mut Findings) {
    let is_http = |name: &str| listeners.iter().any(|l| *l.name == *name && l.mode == Mode::Http);
    // A route that names no listener is one of requests.
    let takes_requests = |r: &Route| r.listeners.is_empty() || r.listeners.iter().any(|l| is_http(l));
    for named in root.named("pool") {
        let (Some(set), Some(pool)) =
            (named.section.set("load_reports"), pools.iter().find(|p| *p.name == *named.name))
        else {
            continue;
        };
        let mut leading = routes.iter().filter(|r| r.pool == pool.name).peekable();
        let is_used = leading.peek().is_some() || is_answered(pool, listeners);
        if pool.load_reports.is_none() || !is_used || leading.any(takes_requests) {
            continue;
        }
        let message = format!(
            "pool \"{}\" gets no requests over HTTP, and only those bring reports and send probes: nothing is heard of load",
            pool.name
        );
        let algorithm = pool.balance.algorithm;
        let finding = findings.add(Code::AtOdds, set.place, message);
        if algorithm.needs.probes {
            finding.see("the algorithm is here", named.section.place_of("balance")).help(format!(
                "leave it out and balance by another algorithm: without answers \"{}\" has only what it counts itself",
                algorithm.name
            ));
        } else {
            finding.help("leave it out");
        }
    }
}
