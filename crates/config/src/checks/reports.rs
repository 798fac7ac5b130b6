//! Checks of `load_reports`: whether reports can arrive at all.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::sections::listener::Mode;
use crate::sections::pool::Pool;
use crate::sections::route::Route;
use crate::table::Section;
use std::sync::Arc;

/// Reports pools that want load reports but get no HTTP requests: reports come with responses, and probes
/// accompany requests.
pub(super) fn check(root: &Section, leads: &Leads<'_>, pools: &[Arc<Pool>], findings: &mut Findings) {
    let is_http = |name: &str| leads.mode_of(name) == Some(Mode::Http);
    // A route that names no listener matches HTTP requests.
    let takes_requests = |r: &Route| r.listeners.is_empty() || r.listeners.iter().any(|l| is_http(l));
    for (named, pool) in root.named("pool").iter().zip(pools) {
        let Some(set) = named.section.set("load_reports") else { continue };
        let leading = leads.routes(&pool.name);
        let is_used = !leading.is_empty() || leads.is_answered(&pool.name);
        if pool.load_reports.is_none() || !is_used || leading.iter().any(|route| takes_requests(route)) {
            continue;
        }
        let message = format!(
            "pool \"{}\" gets no HTTP requests, and only those carry load reports and send probes: no report can arrive",
            pool.name
        );
        let algorithm = pool.balance.algorithm;
        let finding = findings.add(Code::AtOdds, set.span, message);
        if algorithm.needs.probes {
            finding.see("the algorithm is here", named.section.span_of("balance")).help(format!(
                "leave it out and use another algorithm: without answers, \"{}\" has only its own counts",
                algorithm.name
            ));
        } else {
            finding.help("leave it out");
        }
    }
}
