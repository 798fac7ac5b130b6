//! By which field do others learn what a request is called? [`RequestIdField`], `request_id` of a listener.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table};

table! {
    pub(crate) static REQUEST_ID = "request_id of [listener.NAME]",
        "The field by which endpoints and clients learn the id of a request.";

    /// `request_id` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RequestIdField {
        /// Its name.
        field: String = Key {
            name: "field",
            kind: Kind::Text(Form::Token),
            absent: Absent::Default("\"X-Request-Id\""),
            help: "The name of the header field.",
            why: "What Envoy, Heroku, Rails and many frameworks call it.",
        };
        /// Whether the client is told.
        respond: bool = Key {
            name: "respond",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Whether responses have the field too, in place of one that the endpoint has set.",
            why: "A user who reports an error can say which request it was.",
        };
    }
}

/// Fields that mean something else, in lower case.
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

/// Reports a field that means something else.
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
