//! `[telemetry]`: metrics, access log, journal, explanations and traces. See [`Telemetry`].

use super::access_log::{self, ACCESS_LOG, AccessLog};
use super::pool::Pool;
use super::runtime::{Runtime, Workers};
use super::traces::{self, TRACES, Traces};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed};
use crate::nearest::Names;
use crate::table::{Absent, Field, Key, Kind, Section, Value, quote, table};
use std::path::PathBuf;
use std::sync::Arc;

table! {
    pub(crate) static TELEMETRY = "[telemetry]",
        "Metrics, access log, traces and explanations of requests.";

    /// `[telemetry]`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Telemetry {
        /// Prometheus metrics, served on [`Admin::bind`](crate::plan::Admin::bind).
        metrics: Metrics = Key {
            name: "metrics",
            kind: Kind::Table(&METRICS),
            absent: Absent::Means("its defaults"),
            help: "Prometheus metrics on the admin listener.",
            why: "",
        };
        /// Access log, a line per request; `None` = off.
        access_log: Option<AccessLog> = Key {
            name: "access_log",
            kind: Kind::Table(&ACCESS_LOG),
            absent: Absent::Means("off"),
            help: "Access log, one line per request.",
            why: "",
        };
        /// Recording of a pool's picks; `None` = off. Only with a single worker.
        journal: Option<Journal> = Key {
            name: "journal",
            kind: Kind::Table(&JOURNAL),
            absent: Absent::Means("off"),
            help: "Recording of one pool's picks, for `evenkeel replay`.",
            why: "",
        };
        /// Sampling of picks to explain.
        explain: Explain = Key {
            name: "explain",
            kind: Kind::Table(&EXPLAIN),
            absent: Absent::Means("its defaults"),
            help: "Explanations of picks, for `evenkeel explain`.",
            why: "",
        };
        /// Export of traces; `None` = off.
        traces: Option<Traces> = Key {
            name: "traces",
            kind: Kind::Table(&TRACES),
            absent: Absent::Means("off"),
            help: "Export of spans to an OpenTelemetry collector.",
            why: "",
        };
    }
}

table! {
    static EXPLAIN = "explain of [telemetry]",
        "Requests to explain. For each pick, evenkeel keeps the compared endpoints, the rule, and the excluded \
        endpoints. `evenkeel explain` shows them.";

    /// `telemetry.explain`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Explain {
        /// Share of requests to explain, 0 to 1.
        sample: f64 = Key {
            name: "sample",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0"),
            help: "Share of requests to explain, drawn at random: 0.01 is one in a hundred.",
            why: "An explanation costs some microseconds. `evenkeel explain --next POOL` works without sampling.",
        };
        /// Most explanations kept, over all workers.
        keep: usize = Key {
            name: "keep",
            kind: Kind::Int { min: 1, max: 100_000 },
            absent: Absent::Default("1000"),
            help: "Number of latest explanations to keep, over all workers; at most 1 MiB per worker.",
            why: "One minute of a 1 % sample at 1,600 requests per second.",
        };
        /// File of the secret with which a request asks to be explained.
        token_file: Option<PathBuf> = Key {
            name: "token_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("requests cannot request explanations"),
            help: "File of a secret of at least 16 bytes. A request that carries it in the field `evenkeel-explain` \
                is explained; the field is not forwarded.",
            why: "",
        };
    }
}

table! {
    static METRICS = "metrics of [telemetry]",
        "Prometheus metrics on the admin listener.";

    /// `telemetry.metrics`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Metrics {
        /// Path on the admin listener.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default("\"/metrics\""),
            help: "Path of the metrics.",
            why: "Prometheus scrapes this path by default.",
        };
        /// True if upstream series have a label for the endpoint.
        per_endpoint: bool = Key {
            name: "per_endpoint",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds a label for the endpoint to upstream series.",
            why: "Uneven load is visible only per endpoint. Turn it off for pools of thousands of endpoints.",
        };
        /// True if pools, endpoints and routes have series before their first request.
        unused: bool = Key {
            name: "unused",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Also exports the counters and histograms of pools, endpoints and routes without any request yet, at \
                zero. Weights and states of endpoints are always exported. For an endpoint that has never changed its \
                state, only `up` and the current state are exported.",
            why: "500 idle pools have 130,000 series at zero, or 11 MB. Turn it on if a rate must include the very \
                first request.",
        };
        /// True if endpoints have a native histogram each.
        endpoint_histograms: bool = Key {
            name: "endpoint_histograms",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds a native histogram of latencies for each endpoint with requests, if Prometheus requests native \
                histograms.",
            why: "It costs one series per endpoint. Turn it off for pools of thousands of endpoints.",
        };
        /// Upper bounds of the duration histograms, in seconds: positive, ascending, finite.
        buckets: Vec<f64> = Key {
            name: "buckets",
            kind: Kind::List(&Kind::Number { min: 1e-6, max: 3600.0 }),
            absent: Absent::Default("[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]"),
            help: "Upper bounds of the duration histograms, in seconds, ascending.",
            why: "About three per power of ten from 1 ms up: on a local network many requests end within 5 ms.",
        };
    }
}

table! {
    static JOURNAL = "journal of [telemetry]",
        "Records all inputs of the picks of one pool, in order, so that `evenkeel replay` can repeat them. Needs \
        `runtime.workers = 1`, since the picks of several workers depend on each other. Writes two lines per try.";

    /// `telemetry.journal`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Journal {
        /// Destination of the lines.
        to: LogTarget = Key {
            name: "path",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/var/log/evenkeel/web.journal""#),
            help: "File to append to; `\"-\"` or `\"stdout\"` is standard output.",
            why: "",
        };
        /// Name of the pool to record.
        pool: String = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required(r#""web""#),
            help: "Name of the pool to record.",
            why: "",
        };
    }
}

/// Destination of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output (`"-"` or `"stdout"`).
    Stdout,
    /// File to append to; created if missing.
    File(PathBuf),
}

impl Field for LogTarget {
    fn read(value: Value) -> LogTarget {
        match value {
            Value::Formed(Formed::Text(path)) if path != "-" && path != "stdout" => LogTarget::File(path.into()),
            _ => LogTarget::Stdout,
        }
    }

    fn write(&self, _: &LogTarget, _: &Kind) -> String {
        match self {
            LogTarget::Stdout => quote("-"),
            LogTarget::File(path) => quote(&path.display().to_string()),
        }
    }
}

/// Reports buckets that do not ascend, and a journal that cannot work.
pub(crate) fn check(telemetry: &Section, runtime: &Runtime, pools: &[Arc<Pool>], findings: &mut Findings) {
    let buckets = telemetry.section("metrics").list("buckets").into_iter();
    let buckets = buckets.filter_map(|l| if let Value::Number(x) = l.value { Some((x, l.span)) } else { None });
    let buckets: Vec<_> = buckets.collect();
    if let Some(pair) = buckets.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        findings
            .add(
                Code::OutOfRange,
                pair[1].1,
                format!("\"buckets\" must ascend, but {} follows {}", pair[1].0, pair[0].0),
            )
            .help("sort them, each once");
    }
    if telemetry.has("access_log") {
        access_log::check(&telemetry.section("access_log"), findings);
    }
    if telemetry.has("traces") {
        traces::check(&telemetry.section("traces"), findings);
    }
    if telemetry.has("journal") {
        check_journal(&telemetry.section("journal"), runtime, pools, findings);
    }
}

fn check_journal(section: &Section, runtime: &Runtime, pools: &[Arc<Pool>], findings: &mut Findings) {
    let (Some(_), Some(pool)) = (section.text("path"), section.text("pool")) else { return };
    if pools.iter().all(|p| *p.name != *pool) {
        let names = Names::new(pools.iter().map(|p| &*p.name));
        findings
            .add(Code::UnknownPool, section.span_of("pool"), format!("unknown pool \"{pool}\""))
            .help(names.suggest(&pool, "add the pool"));
    }
    if runtime.workers != Workers::Count(1) {
        let message = "\"journal\" needs one worker: the picks of several depend on each other";
        findings
            .add(Code::Contradiction, section.span_of("path"), message)
            .help("set runtime.workers = 1, or leave out \"journal\"");
    }
}
