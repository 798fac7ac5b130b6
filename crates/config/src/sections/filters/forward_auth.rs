//! `forward_auth` of a route: another service that decides about each request. See [`ForwardAuth`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, MS, S, Section, table};
use std::sync::Arc;
use std::time::Duration;

/// Fields that evenkeel writes for the service.
const TO_SERVICE: [&str; 6] =
    ["x-forwarded-method", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-uri", "x-forwarded-for", "forwarded"];

/// Fields that evenkeel writes for endpoints.
const TO_ENDPOINT: [&str; 4] = ["x-forwarded-proto", "x-forwarded-host", "x-forwarded-for", "forwarded"];

/// The key `forward_auth` of routes.
pub(in crate::sections) const FORWARD_AUTH: Key = Key {
    name: "forward_auth",
    kind: Kind::Table(&FORWARD_AUTH_TABLE),
    absent: Absent::Means("no service is asked"),
    help: "Asks another service about each request, which passes if the answer is 2xx.",
    why: "",
};

table! {
    static FORWARD_AUTH_TABLE = "forward_auth of [[route]]",
        "Asks a service about each request before an endpoint gets it: a GET without a body, with `X-Forwarded-Method`, \
        `-Proto`, `-Host`, `-Uri` and `-For`. If the answer is 2xx, the request passes; any other answer goes to the \
        client. If there is no answer in time, the client gets 503: no request passes without an answer.";

    /// `forward_auth` of a route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ForwardAuth {
        /// Name of an existing pool, that of the service.
        pool: Arc<str> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required("\"auth\""),
            help: "Pool of the service.",
            why: "",
        };
        /// Path and query of the requests to the service; `None` = those of the client's request.
        path: Option<Arc<str>> = Key {
            name: "path",
            kind: Kind::Text(Form::Target),
            absent: Absent::Means("path and query of the client's request"),
            help: "Path, optionally with a query, of the requests to the service.",
            why: "",
        };
        /// Fields of the client's request that the service gets.
        request_headers: Vec<Arc<str>> = Key {
            name: "request_headers",
            kind: Kind::List(&Kind::Text(Form::FieldName)),
            absent: Absent::Default("[\"Cookie\", \"Authorization\"]"),
            help: "Fields of the client's request that the service gets.",
            why: "They have the credentials; the rest of a request is often large and no concern of the service.",
        };
        /// Fields of a 2xx answer that are set on the request.
        copy_headers: Vec<Arc<str>> = Key {
            name: "copy_headers",
            kind: Kind::List(&Kind::Text(Form::FieldName)),
            absent: Absent::Means("none"),
            help: "Fields of a 2xx answer that the endpoint gets. Those of the client are removed, also where the answer \
                has none, and also if they are spelled with `_` for `-`.",
            why: "",
        };
        /// Fields of a 2xx answer that are set on the response.
        client_headers: Vec<Arc<str>> = Key {
            name: "client_headers",
            kind: Kind::List(&Kind::Text(Form::FieldName)),
            absent: Absent::Means("none"),
            help: "Fields of a 2xx answer that the client gets with its response, stored responses included: \
                `[\"Set-Cookie\"]`, for a service that renews sessions. They replace those of the endpoint, except \
                `Set-Cookie`, which is added.",
            why: "",
        };
        /// Longest wait for the whole answer.
        timeout: Duration = Key {
            name: "timeout",
            kind: Kind::Duration { min: 10 * MS, max: 300 * S, off: false },
            absent: Absent::Default("\"5s\""),
            help: "Longest wait for the whole answer; then the client gets 503.",
            why: "A decision is needed before each request, so a service that takes longer is as good as down.",
        };
        /// Most bytes of the body of an answer that goes to the client.
        answer_max: u64 = Key {
            name: "answer_max",
            kind: Kind::Size { min: 0, max: 1 << 20, off: false },
            absent: Absent::Default("\"64KB\""),
            help: "Most bytes of the body of an answer that goes to the client. Instead of a larger one, the client gets \
                502.",
            why: "Enough for a login page; it is held in memory until all of it is there.",
        };
    }
}

/// Reports fields that evenkeel writes itself, to the service or to endpoints, and cookies for endpoints.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let auth = route.section("forward_auth");
    for (list, written, whose) in
        [("request_headers", &TO_SERVICE[..], "the client"), ("copy_headers", &TO_ENDPOINT[..], "the service")]
    {
        for (name, span) in auth.texts(list) {
            let plain = name.replace('_', "-").to_ascii_lowercase();
            if list == "copy_headers" && plain == "set-cookie" {
                findings
                    .add(Code::Contradiction, span, "\"copy_headers\" is for endpoints, and clients keep cookies")
                    .help("write client_headers = [\"Set-Cookie\"]");
                continue;
            }
            if written.contains(&&*plain) {
                findings
                    .add(Code::Contradiction, span, format!("evenkeel sends \"{name}\" itself, never that of {whose}"))
                    .help(format!("leave it out of \"{list}\""));
            }
        }
    }
}
