//! `load_reports` of `[pool.NAME]` and `report_load` of `[listener.NAME]`.

use crate::form::Formed;
use crate::plan::{LoadReports, Probe, ReportLoad};
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
