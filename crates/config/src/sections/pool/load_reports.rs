//! `load_reports` of a pool, the balancer's side of shared load: how endpoints report theirs. See
//! [`LoadReports`].

use crate::form::Form;
use crate::table::{Absent, Key, Kind, MS, S, Words, table, words};
use std::sync::Arc;
use std::time::Duration;

/// Default path for serving and probing load over HTTP, as TOML.
pub(crate) const LOAD_PATH: &str = "\"/.well-known/evenkeel/load\"";

table! {
    pub(crate) static LOAD_REPORTS = "load_reports of [pool.NAME]",
        "Load that endpoints report: their requests in flight from all balancers, and the latency at that load. See \
        the guide to shared load.";

    /// `load_reports` of a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LoadReports {
        /// True if reports in responses are used.
        in_band: bool = Key {
            name: "in_band",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Uses reports in the header fields and trailers `endpoint-load-metrics-bin` and \
                `endpoint-load-metrics` of responses (ORCA: binary, text or JSON).",
            why: "Reports arrive with responses and cost no extra request.",
        };
        /// Transport of load probes.
        probe: Probe = Key {
            name: "probe",
            kind: Kind::Choice(Probe::WORDS),
            absent: Absent::Default("\"off\""),
            help: "Transport of the probes that some algorithms need. `udp`: sends a datagram to the endpoint's \
                address and port. `http`: sends a request for `path`.",
            why: "Most endpoints do not answer probes.",
        };
        /// Longest wait for the answer to a probe; later answers are dropped.
        timeout: Duration = Key {
            name: "timeout",
            kind: Kind::Duration { min: MS, max: 10 * S, off: false },
            absent: Absent::Default("\"100ms\""),
            help: "Longest wait for the answer to a probe. Later answers are dropped.",
            why: "A later answer no longer reflects the current load.",
        };
        /// Maximum probes per second from a worker.
        rate_max: u32 = Key {
            name: "rate_max",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("20_000"),
            help: "Maximum probes per second from each worker. Probes over the limit are counted but not sent.",
            why: "A datagram and its answer take about 5 us of CPU time: at most a tenth of a core.",
        };
        /// Path of probes over HTTP.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default(LOAD_PATH),
            help: "Path of probes over HTTP. The report is in the header fields of the response.",
            why: "The path that an evenkeel next to the application serves.",
        };
        /// Names in `named_metrics` for the requests in flight; the first present name counts. Not empty.
        in_flight: Arc<[String]> = Key {
            name: "in_flight",
            kind: Kind::List(&Kind::Text(Form::Label)),
            absent: Absent::Default(r#"["in_flight", "rif"]"#),
            help: "Names in `named_metrics` for the number of requests in flight. The first name present in a report \
                counts.",
            why: "The names that evenkeel and the examples of Envoy send.",
        };
        /// True if reports of endpoints are forwarded to clients.
        pass: bool = Key {
            name: "pass",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Keeps the endpoints' reports in responses to clients.",
            why: "Clients do not need to know the load of endpoints.",
        };
    }
}

words! {
    /// Transport of load probes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Probe {
        Off = "off",
        /// A datagram to the endpoint's own port.
        Udp = "udp",
        /// A request for [`LoadReports::path`].
        Http = "http",
    }
}

impl Probe {
    /// Name in the configuration.
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}
