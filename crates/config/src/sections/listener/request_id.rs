//! `request_id` of a listener: the header field that carries the request's id. See [`RequestIdField`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table};

table! {
    pub(crate) static REQUEST_ID = "request_id of [listener.NAME]",
        "The header field that carries a request's id to endpoints and clients.";

    /// `request_id` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RequestIdField {
        /// Name of the header field.
        field: String = Key {
            name: "field",
            kind: Kind::Text(Form::Token),
            absent: Absent::Default("\"X-Request-Id\""),
            help: "Name of the header field.",
            why: "The name that Envoy, Heroku, Rails and many frameworks use.",
        };
        /// True if responses carry the field too.
        respond: bool = Key {
            name: "respond",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds the field to responses too, and replaces the endpoint's.",
            why: "Users can give the id when they report an error.",
        };
    }
}

/// Fields with another meaning, in lower case; none can carry the id.
const TAKEN: &[&str] = &[
    "authorization",
    "cdn-loop",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "location",
    "max-forwards",
    "proxy-connection",
    "retry-after",
    "server",
    "set-cookie",
    "te",
    "trailer",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Reports a field name that already has another meaning.
pub(super) fn check(listener: &Section, findings: &mut Findings) {
    let section = listener.section("request_id");
    let Some(field) = section.set("field").and_then(|_| section.text("field")) else { return };
    let lower = field.to_ascii_lowercase();
    let is_ours = ["x-forwarded-", "x-client-cert", "sec-"].iter().any(|start| lower.starts_with(start));
    if is_ours || TAKEN.contains(&lower.as_str()) {
        let message = format!("\"field\" is \"{field}\", a field that means something else");
        findings
            .add(Code::NotAllowed, section.span_of("field"), message)
            .help("use \"X-Request-Id\", or a name of your own, as \"X-Correlation-Id\"");
    }
}
