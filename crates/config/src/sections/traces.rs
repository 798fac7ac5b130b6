//! `traces` of `[telemetry]`: sampling, export and propagation of traces. See [`Traces`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table, words};
use std::path::PathBuf;

table! {
    pub(super) static TRACES = "traces of [telemetry]",
        "Spans of requests and their tries for an OpenTelemetry collector, and trace context for endpoints. Without \
        this section, the client's trace context is forwarded unchanged.";

    /// `telemetry.traces`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Traces {
        /// URL of the collector, without `/v1/traces`.
        endpoint: String = Key {
            name: "endpoint",
            kind: Kind::Text(Form::CollectorUrl),
            absent: Absent::Required("\"http://127.0.0.1:4318\""),
            help: "Collector that accepts OTLP over HTTP; spans are posted to `/v1/traces` below this URL. Spans that \
                the collector does not accept in time are dropped and counted. Requests never wait for the export.",
            why: "",
        };
        /// Share of requests to record, 0 to 1, if the client has not decided.
        sample: f64 = Key {
            name: "sample",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.01"),
            help: "Share of requests to record if the client has not decided. The decision is forwarded to endpoints. \
                A client's decision is kept.",
            why: "A recorded request costs some microseconds, and one in a hundred is a representative sample.",
        };
        /// The `service.name` of the spans.
        service_name: String = Key {
            name: "service_name",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"evenkeel\""),
            help: "The `service.name` of the spans. Set it to distinguish several balancers.",
            why: "The name of the program.",
        };
        /// Clients whose trace context is continued.
        parents: Parents = Key {
            name: "parents",
            kind: Kind::Choice(Parents::WORDS),
            absent: Absent::Default("\"all\""),
            help: "Clients that may continue their traces. `all`: every client. `trusted`: only trusted proxies \
                (`trusted_proxies` of the listener). Requests of other clients start a new trace, so that these \
                clients cannot force all their requests to be recorded.",
            why: "Among internal services, every client is known. Set `trusted` for listeners on the internet.",
        };
        /// Formats of the trace context sent to endpoints.
        formats: Vec<ContextFormat> = Key {
            name: "formats",
            kind: Kind::List(&Kind::Choice(ContextFormat::WORDS)),
            absent: Absent::Default("[\"w3c\"]"),
            help: "Formats of the trace context sent to endpoints. `w3c`: `traceparent`. `b3`: the single field of \
                that name. `b3multi`: `X-B3-TraceId` and its related fields. A request that arrives with another of \
                these formats is forwarded with that format too. All formats are accepted from clients.",
            why: "The default of OpenTelemetry.",
        };
        /// File of extra header fields for the collector.
        headers_file: Option<PathBuf> = Key {
            name: "headers_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "File of header fields for the collector, such as an access token, one `Name: value` per line.",
            why: "",
        };
        /// Authorities trusted for a collector over `https`; `None` = the system's trust store.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the system's trust store"),
            help: "PEM file of the authorities trusted for a collector over `https`.",
            why: "",
        };
    }
}

words! {
    /// Clients whose trace context is continued.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Parents {
        All = "all",
        /// Proxies in `trusted_proxies` of the listener.
        Trusted = "trusted",
    }
}

words! {
    /// Format of the trace context sent to endpoints.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ContextFormat {
        /// The field `traceparent` (W3C Trace Context).
        W3c = "w3c",
        /// The single field `b3`.
        B3 = "b3",
        /// `X-B3-TraceId` and related fields.
        B3Multi = "b3multi",
    }
}

/// Reports an authority for a collector without TLS.
pub(super) fn check(section: &Section, findings: &mut Findings) {
    if section.has_read("ca") && section.text("endpoint").is_some_and(|url| url.starts_with("http://")) {
        let message = "\"ca\" is for a collector over TLS, and \"endpoint\" is not";
        findings
            .add(Code::Contradiction, section.span_of("ca"), message)
            .help("leave it out, or write https:// in \"endpoint\"");
    }
}
