//! The keys of `load_reports` of `[pool.NAME]` and of `report_load` of `[listener.NAME]`.

use super::{Absent, Key, Kind, MS, S, Table};
use crate::form::Form;

/// Where load is served, and asked for.
const PATH: &str = "\"/.well-known/evenkeel/load\"";

pub(super) static LOAD_REPORTS: Table = Table {
    path: "load_reports of [pool.NAME]",
    help: "What endpoints say of their load: requests in flight from all balancers, and what a request takes at that load. \
           See the guide to shared load.",
    inherits: false,
    keys: &[
        Key {
            name: "in_band",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Takes reports from the header fields and trailers `endpoint-load-metrics-bin` and \
                   `endpoint-load-metrics` of responses (ORCA: binary, text or JSON).",
            why: "They come with what comes anyway.",
        },
        Key {
            name: "probe",
            kind: Kind::Choice(&["off", "udp", "http"]),
            absent: Absent::Default("\"off\""),
            help: "How endpoints are asked when the algorithm wants to know: by a datagram to the endpoint's address and \
                   port, or by a request for `path`.",
            why: "An endpoint that does not know probes answers none.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MS, max: 10 * S, off: false },
            absent: Absent::Default("\"100ms\""),
            help: "Answers to probes that take longer are dropped.",
            why: "Older news says little about the load of now.",
        },
        Key {
            name: "rate_max",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("20_000"),
            help: "Most probes a second from each worker; what the algorithm wants beyond is not sent, and counted.",
            why: "A datagram and its answer take some 5 us of processor time: at most a tenth of a core.",
        },
        Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default(PATH),
            help: "Where probes over HTTP ask; the report is in the header fields of the answer.",
            why: "Where an evenkeel beside the application serves it.",
        },
        Key {
            name: "in_flight",
            kind: Kind::List(&Kind::Text(Form::Label)),
            absent: Absent::Default(r#"["in_flight", "rif"]"#),
            help: "Names, among `named_metrics`, of the number of requests in flight; the first that a report has counts.",
            why: "What evenkeel sends, and what Envoy's examples do.",
        },
        Key {
            name: "pass",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether responses go on with the reports that endpoints sent.",
            why: "How busy endpoints are is nobody else's business.",
        },
    ],
};

pub(super) static REPORT_LOAD: Table = Table {
    path: "report_load of [listener.NAME]",
    help: "How balancers in front are told how many requests are in flight through this listener, and what one takes at \
           that load.",
    inherits: false,
    keys: &[
        Key {
            name: "header",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds `endpoint-load-metrics` to each response, in the place of the application's own.",
            why: "It costs less than a probe.",
        },
        Key {
            name: "udp",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Answers probes by datagram, at the addresses and ports of `bind`.",
            why: "An answer is as long as its question, so nobody can use it to flood others.",
        },
        Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default(PATH),
            help: "The path at which the load is served; no route gets requests for it.",
            why: "No application serves it.",
        },
    ],
};
