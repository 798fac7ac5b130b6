//! What do endpoints say of their load, and to whom? [`LoadReports`] is the balancer's side, [`ReportLoad`] the endpoint's.

use std::sync::Arc;
use std::time::Duration;

/// `load_reports` of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReports {
    /// Whether reports are taken from responses.
    pub in_band: bool,
    /// How endpoints are asked.
    pub probe: Probe,
    /// An answer to a probe that takes longer is dropped.
    pub timeout: Duration,
    /// Most probes a second from one worker.
    pub rate_max: u32,
    /// Where probes over HTTP ask.
    pub path: String,
    /// Names under which endpoints report requests in flight; the first that a report has counts. At least one.
    pub in_flight: Arc<[String]>,
    /// Whether clients get the reports too.
    pub pass: bool,
}

/// How endpoints are asked for their load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Not at all.
    Off,
    /// By a datagram each.
    Udp,
    /// By a request each.
    Http,
}

impl Probe {
    /// As it is written in a file.
    pub fn as_str(self) -> &'static str {
        match self {
            Probe::Off => "off",
            Probe::Udp => "udp",
            Probe::Http => "http",
        }
    }
}

/// `report_load` of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportLoad {
    /// Whether each response has a report.
    pub header: bool,
    /// Whether probes by datagram are answered, at the listener's addresses and ports.
    pub udp: bool,
    /// The path at which the load is served; no route gets it.
    pub path: String,
}
