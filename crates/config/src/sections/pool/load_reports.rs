//! What do endpoints report of their load? [`LoadReports`], `load_reports` of a pool: the balancer's side.

use crate::form::Form;
use crate::table::{Absent, Key, Kind, MS, S, Words, table, words};
use std::sync::Arc;
use std::time::Duration;

/// Where load is served, and asked for.
pub(crate) const LOAD_PATH: &str = "\"/.well-known/evenkeel/load\"";

table! {
    pub(crate) static LOAD_REPORTS = "load_reports of [pool.NAME]",
        "What endpoints report of their load: requests in flight from all balancers, and how long a request takes at \
         that load. \
        See the guide to shared load.";

    /// `load_reports` of a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LoadReports {
        /// Whether reports are taken from responses.
        in_band: bool = Key {
            name: "in_band",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Takes reports from the header fields and trailers `endpoint-load-metrics-bin` and \
                   `endpoint-load-metrics` of responses (ORCA: binary, text or JSON).",
            why: "They come with responses, and cost no further request.",
        };
        /// How endpoints are asked.
        probe: Probe = Key {
            name: "probe",
            kind: Kind::Choice(Probe::WORDS),
            absent: Absent::Default("\"off\""),
            help: "How endpoints are probed when the algorithm asks for it: by a datagram to the endpoint's address and \
                   port, or by a request for `path`.",
            why: "Most endpoints do not answer probes.",
        };
        /// An answer to a probe that takes longer is dropped.
        timeout: Duration = Key {
            name: "timeout",
            kind: Kind::Duration { min: MS, max: 10 * S, off: false },
            absent: Absent::Default("\"100ms\""),
            help: "Answers to probes that take longer are dropped.",
            why: "A later answer says little about the present load.",
        };
        /// Most probes a second from one worker.
        rate_max: u32 = Key {
            name: "rate_max",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("20_000"),
            help: "Most probes a second from each worker; probes beyond that are not sent, but counted.",
            why: "A datagram and its answer take some 5 us of processor time: at most a tenth of a core.",
        };
        /// Where probes over HTTP ask.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default(LOAD_PATH),
            help: "Where probes over HTTP ask; the report is in the header fields of the answer.",
            why: "Where an evenkeel beside the application serves it.",
        };
        /// Names under which endpoints report requests in flight; the first that a report has counts. At least one.
        in_flight: Arc<[String]> = Key {
            name: "in_flight",
            kind: Kind::List(&Kind::Text(Form::Label)),
            absent: Absent::Default(r#"["in_flight", "rif"]"#),
            help: "Names, among `named_metrics`, of the number of requests in flight; the first that a report has counts.",
            why: "What evenkeel sends, and what Envoy's examples do.",
        };
        /// Whether clients get the reports too.
        pass: bool = Key {
            name: "pass",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether responses go on with the reports that endpoints sent.",
            why: "Clients do not need to know the load of endpoints.",
        };
    }
}

words! {
    /// How endpoints are asked for their load.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Probe {
        /// Not at all.
        Off = "off",
        /// By a datagram each.
        Udp = "udp",
        /// By a request each.
        Http = "http",
    }
}

impl Probe {
    /// As it is written in a file.
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}
