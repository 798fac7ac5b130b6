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
    help: "Asks another service about each request. The request passes if the service returns a 2xx.",
    why: "",
};

table! {
    static FORWARD_AUTH_TABLE = "forward_auth of [[route]]",
        "Asks a service about each request before forwarding it to an endpoint. The service gets a GET without a body, \
        with `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`. If it returns a 2xx, the request passes. Any \
        other response is sent to the client. If the service does not respond in time, the client gets a 503: no \
        request passes without a response.";

    /// `forward_auth` of a route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ForwardAuth {
        /// Name of the service's pool, which exists.
        pool: Arc<str> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required("\"auth\""),
            help: "Pool of the service.",
            why: "",
        };
        /// Path and query of the requests to the service; `None` = path and query of the client's request.
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
            help: "Fields of the client's request to send to the service.",
            why: "These fields carry the credentials. The other fields are often large, and the service does not need \
                them.",
        };
        /// Fields of a 2xx response that are set on the request.
        copy_headers: Vec<Arc<str>> = Key {
            name: "copy_headers",
            kind: Kind::List(&Kind::Text(Form::FieldName)),
            absent: Absent::Means("none"),
            help: "Fields of a 2xx response to send to the endpoint. The client's fields of these names are always \
                removed, even if the response has none, and also if they are spelled with `_` for `-`.",
            why: "",
        };
        /// Fields of a 2xx response that are set on the client's response.
        client_headers: Vec<Arc<str>> = Key {
            name: "client_headers",
            kind: Kind::List(&Kind::Text(Form::FieldName)),
            absent: Absent::Means("none"),
            help: "Fields of a 2xx response to add to the client's response, including stored responses: \
                `[\"Set-Cookie\"]` for a service that renews sessions. They replace the endpoint's fields, except \
                `Set-Cookie`, which is added.",
            why: "",
        };
        /// Longest wait for the whole response.
        timeout: Duration = Key {
            name: "timeout",
            kind: Kind::Duration { min: 10 * MS, max: 300 * S, off: false },
            absent: Absent::Default("\"5s\""),
            help: "Longest wait for the whole response of the service. After that, the client gets a 503.",
            why: "Every request waits for the decision, so a slower service is as good as down.",
        };
        /// Maximum bytes of the body of a response that is sent to the client.
        answer_max: u64 = Key {
            name: "answer_max",
            kind: Kind::Size { min: 0, max: 1 << 20, off: false },
            absent: Absent::Default("\"64KB\""),
            help: "Maximum body size of a response that is sent to the client. Instead of a larger response, the \
                client gets a 502.",
            why: "Enough for a login page. The body is held in memory until it is complete.",
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
