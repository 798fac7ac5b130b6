//! `load_reports` of `[pool.NAME]` and `report_load` of `[listener.NAME]`.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::plan::{LoadReports, Mode, Pool, Probe, ReportLoad, Route};
use crate::read::Section;

pub(super) fn load_reports(pool: &Section) -> Option<LoadReports> {
    let reports = pool.switched("load_reports")?;
    let name = |(formed, _)| if let Formed::Text(name) = formed { Some(name) } else { None };
    let in_flight = reports.formed_list("in_flight").into_iter().filter_map(name).collect();
    Some(LoadReports {
        in_band: reports.flag("in_band"),
        probe: match reports.word("probe") {
            "udp" => Probe::Udp,
            "http" => Probe::Http,
            _ => Probe::Off,
        },
        timeout: reports.duration("timeout").unwrap_or_default(),
        rate_max: reports.number("rate_max"),
        path: reports.text("path").unwrap_or_default(),
        in_flight,
        pass: reports.flag("pass"),
    })
}

pub(super) fn report_load(listener: &Section) -> Option<ReportLoad> {
    let report = listener.switched("report_load")?;
    Some(ReportLoad {
        header: report.flag("header"),
        udp: report.flag("udp"),
        path: report.text("path").unwrap_or_default(),
    })
}

/// Says so if a pool is to hear of load that nobody asks for: reports come with responses, and probes are sent beside
/// requests.
pub(super) fn check(root: &Section, leads: &Leads<'_>, pools: &[Pool], findings: &mut Findings) {
    let is_http = |name: &str| leads.mode_of(name) == Some(Mode::Http);
    // A route that names no listener is one of requests.
    let takes_requests = |r: &Route| r.listeners.is_empty() || r.listeners.iter().any(|l| is_http(l));
    for (named, pool) in root.named("pool").iter().zip(pools) {
        let Some(set) = named.section.set("load_reports") else { continue };
        let leading = leads.routes(&pool.name);
        let is_used = !leading.is_empty() || leads.is_answered(&pool.name);
        if pool.load_reports.is_none() || !is_used || leading.iter().any(|route| takes_requests(route)) {
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
