//! `cors` of a route: pages of other origins that may read its responses. See [`Cors`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, Origin};
use crate::table::{Absent, Key, Kind, Section, table};
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

table! {
    static CORS_TABLE = "cors of [[route]]",
        "Lets pages of other origins read responses (CORS, as in the Fetch standard). Preflights get a 204 without \
        reaching the endpoint. `Access-Control-*` fields of endpoints are replaced, and `Vary: Origin` is added if the \
        response depends on the origin.";

    /// `cors` of a route. At least one origin is allowed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cors {
        /// Origins of pages that are allowed.
        origins: Vec<Origin> = Key {
            name: "origins",
            kind: Kind::List(&Kind::Text(Form::Origin)),
            absent: Absent::Required(r#"["https://a.example"]"#),
            help: "Origins of pages that may read responses. `https://*.b.example` matches every subdomain at any \
                depth, and `*` every origin. With `credentials`, responses name the requesting origin. `null`, the \
                shared origin of sandboxed pages and files, must be listed explicitly.",
            why: "",
        };
        /// Methods that pages may use, in addition to methods that need no permission.
        methods: Vec<Arc<str>> = Key {
            name: "methods",
            kind: Kind::List(&Kind::Text(Form::Method)),
            absent: Absent::Means("GET, HEAD and POST, which need no permission"),
            help: "Methods that pages may use, in addition to GET, HEAD and POST. `*` allows every method: the \
                response names the method that the browser requests.",
            why: "",
        };
        /// Fields that pages may send, in addition to fields that need no permission.
        headers: Vec<Arc<str>> = Key {
            name: "headers",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("only fields that need no permission"),
            help: "Fields that pages may send. `*` allows every field, including Authorization: the response names the \
                fields that the browser requests.",
            why: "",
        };
        /// Fields of responses that scripts may read.
        expose: Vec<Arc<str>> = Key {
            name: "expose",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("only fields that every script may read"),
            help: "Response fields that scripts of pages may read. `*` allows every field.",
            why: "",
        };
        /// True if pages may send cookies and other credentials.
        credentials: bool = Key {
            name: "credentials",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Lets pages send cookies, client certificates and HTTP authentication, and read the responses.",
            why: "Such a page can act as its visitor.",
        };
        /// Time for which browsers keep the response to a preflight.
        max_age: Duration = Key {
            name: "max_age",
            kind: Kind::Duration { min: 0, max: 86_400 * SECOND, off: false },
            absent: Absent::Default("\"5s\""),
            help: "Time for which browsers keep the response to a preflight, in whole seconds. Most browsers cap it at \
                2 hours.",
            why: "The default of browsers and of the Gateway API: changes take effect soon.",
        };
    }
}

/// The key `cors` of routes.
pub(in crate::sections) const CORS: Key = Key {
    name: "cors",
    kind: Kind::Table(&CORS_TABLE),
    absent: Absent::Means("the endpoint's fields are kept, and it responds to preflights"),
    help: "Pages of other origins that may read responses (CORS).",
    why: "",
};

/// Reports stars where pages send credentials. A star for origins is dangerous; a star for fields is not a wildcard to
/// browsers then.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let cors = route.section("cors");
    if !cors.flag("credentials") || cors.is_broken() {
        return;
    }
    let any = cors.formed_list("origins").into_iter().find(|(formed, _)| *formed == Formed::Origin(Origin::Any));
    if let Some((_, span)) = any {
        let message = "\"credentials\" with the origin \"*\" lets every page on the web act as its visitor";
        findings
            .add(Code::AtOdds, span, message)
            .see("credentials are allowed here", cors.span_of("credentials"))
            .help("list the origins, such as \"https://a.example\" or \"https://*.a.example\", or set credentials = false");
    }
    if let Some((_, span)) = cors.texts("expose").into_iter().find(|(name, _)| name == "*") {
        let message = "with \"credentials\", browsers take \"*\" of \"expose\" for a name";
        cors.contradiction(span, message, "credentials", findings)
            .help("list the fields that scripts may read, or set credentials = false");
    }
}
