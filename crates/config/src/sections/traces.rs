//! Which requests leave a trace, and where does it go? [`Traces`], `traces` of `[telemetry]`.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table, words};
use std::path::PathBuf;

table! {
    pub(super) static TRACES = "traces of [telemetry]",
        "Spans of requests and of their tries for an OpenTelemetry collector, and trace context for endpoints. Without this section \
         what a client says of its trace goes on untouched.";

    /// `telemetry.traces`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Traces {
        /// The collector, without `/v1/traces`.
        endpoint: String = Key {
            name: "endpoint",
            kind: Kind::Text(Form::CollectorUrl),
            absent: Absent::Required("\"http://127.0.0.1:4318\""),
            help: "The collector, which speaks OTLP over HTTP; spans are posted to `/v1/traces` behind this URL. Spans that it does not \
                   take, or not in time, are dropped and counted; no request waits for them.",
            why: "",
        };
        /// The part of the requests, 0 to 1.
        sample: f64 = Key {
            name: "sample",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.01"),
            help: "The part of the requests that leave spans, of those about which no client has decided; endpoints are told. What a \
                   client has decided holds.",
            why: "A recorded request costs some microseconds; one of a hundred shows what is usual.",
        };
        /// What it is called.
        service_name: String = Key {
            name: "service_name",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"evenkeel\""),
            help: "`service.name` of the spans.",
            why: "Several balancers are told apart by it.",
        };
        /// Whose context is continued.
        parents: Parents = Key {
            name: "parents",
            kind: Kind::Choice(Parents::WORDS),
            absent: Absent::Default("\"all\""),
            help: "Whose traces go on. `all`: those of every client. `trusted`: those of trusted proxies (`trusted_proxies` of the \
                   listener); other clients begin a new trace, so that strangers cannot have each of their requests recorded.",
            why: "Beside services every client is known; listeners that face the internet set `trusted`.",
        };
        /// How endpoints are told.
        formats: Vec<ContextFormat> = Key {
            name: "formats",
            kind: Kind::List(&Kind::Choice(ContextFormat::WORDS)),
            absent: Absent::Default("[\"w3c\"]"),
            help: "How endpoints are told of the trace. `w3c`: `traceparent`. `b3`: one field of that name. `b3multi`: `X-B3-TraceId` and \
                   others. A request that came with one of the others goes on with that one too. All of them are read.",
            why: "What OpenTelemetry speaks unless told otherwise.",
        };
        /// What the collector wants besides.
        headers_file: Option<PathBuf> = Key {
            name: "headers_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "A file with header fields for the collector, a line of `Name: value` for each, as one with a token.",
            why: "",
        };
        /// Who issues the collector's certificate; `None` = those that the system trusts.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("those that the system trusts"),
            help: "The certificates in PEM of those who issue the certificate of a collector over `https`.",
            why: "",
        };
    }
}

words! {
    /// Whose traces go on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Parents {
        /// Those of every client.
        All = "all",
        /// Those of trusted proxies.
        Trusted = "trusted",
    }
}

words! {
    /// How endpoints are told of a trace.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ContextFormat {
        /// `traceparent`.
        W3c = "w3c",
        /// `b3`.
        B3 = "b3",
        /// `X-B3-TraceId` and others.
        B3Multi = "b3multi",
    }
}

/// Reports a certificate where no TLS is spoken.
pub(super) fn check(section: &Section, findings: &mut Findings) {
    if section.has_read("ca") && section.text("endpoint").is_some_and(|url| url.starts_with("http://")) {
        let message = "\"ca\" is for a collector over TLS, and \"endpoint\" is not";
        findings
            .add(Code::Contradiction, section.span_of("ca"), message)
            .help("leave it out, or write https:// in \"endpoint\"");
    }
}
