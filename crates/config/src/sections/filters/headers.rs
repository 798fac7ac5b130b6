//! `request_headers` and `response_headers` of a route or pool: fields that are removed, renamed, set and added; further
//! changes are in [`edits`]. See
//! [`RequestHeaders`] and [`ResponseHeaders`].

use super::edits::{
    self, ADD_REQUEST, ADD_RESPONSE, REMOVE, RENAME, REQUEST_EDITS, RESPONSE_EDITS, RequestEdit, ResponseEdit,
    SET_REQUEST, SET_RESPONSE,
};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Extent, Form, Template, Variable};
use crate::table::{Absent, Key, Kind, Section, table};
use evenkeel_wire::http1::chunked::may_trail;
use std::collections::HashMap;
use std::sync::Arc;

table! {
    static REQUEST_HEADERS_TABLE = "request_headers of [[route]]",
        "Changes to the header fields of requests, in this order: remove, rename, set, add, edits. The changes apply to the \
        fields that the endpoint would get, including the fields that evenkeel writes. Names are case-insensitive. \
        Fields that control the framing and the connection, such as Content-Length and Connection, cannot be changed; \
        for Host there is `send_host`.";

    /// Changes to the fields of requests, in the order of the keys.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RequestHeaders {
        /// Names of fields to remove. A star at the end matches any suffix.
        remove: Vec<Arc<str>> = REMOVE;
        /// New names, by the old name. Fields that have the new name already are removed if one gets it.
        rename: Vec<(Arc<str>, Arc<str>)> = RENAME;
        /// Values that replace all fields of a name; the field is removed where its value is empty.
        set: Vec<(Arc<str>, Template)> = SET_REQUEST;
        /// Fields that are added to others of the same name.
        add: Vec<(Arc<str>, Vec<Template>)> = ADD_REQUEST;
        /// Further changes, in their order.
        edits: Vec<RequestEdit> = REQUEST_EDITS;
    }
}

table! {
    static RESPONSE_HEADERS_TABLE = "response_headers of [[route]]",
        "Changes to the header fields of responses, in this order: security, hide, remove, rename, set, add, edits. The \
        changes apply to responses of endpoints and to evenkeel's own responses, whatever the status. Names as for \
        `request_headers`.";

    /// Changes to the fields of responses, in the order of the keys.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ResponseHeaders {
        /// True if the usual fields are set that tell browsers to be careful.
        security: bool = Key {
            name: "security",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Sets `X-Content-Type-Options: nosniff`. Adds `X-Frame-Options: SAMEORIGIN` and `Referrer-Policy: \
                strict-origin-when-cross-origin` unless the endpoint sends its own. For Strict-Transport-Security \
                there is `tls.hsts` of the listener.",
            why: "Pages that other sites frame, or that rely on browsers guessing their type, would break.",
        };
        /// True if the fields are removed by which endpoints show what runs there.
        hide: bool = Key {
            name: "hide",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Removes the fields by which servers show what they are, and fields between them and a proxy: `Server`, \
                `X-Powered-By`, `X-AspNet-Version`, `X-AspNetMvc-Version` and `X-Accel-*`. In `[defaults.route]` it counts \
                for all routes that do not set `response_headers`.",
            why: "Clients and monitors may read these fields.",
        };
        /// Names of fields to remove. A star at the end matches any suffix.
        remove: Vec<Arc<str>> = REMOVE;
        /// New names, by the old name. Fields that have the new name already are removed if one gets it.
        rename: Vec<(Arc<str>, Arc<str>)> = RENAME;
        /// Values that replace all fields of a name; the field is removed where its value is empty.
        set: Vec<(Arc<str>, Template)> = SET_RESPONSE;
        /// Fields that are added to others of the same name.
        add: Vec<(Arc<str>, Vec<Template>)> = ADD_RESPONSE;
        /// Further changes, in their order.
        edits: Vec<ResponseEdit> = RESPONSE_EDITS;
    }
}

/// The key `request_headers` of routes.
pub(in crate::sections) const REQUEST_HEADERS: Key = Key {
    name: "request_headers",
    kind: Kind::Table(&REQUEST_HEADERS_TABLE),
    absent: Absent::Means("fields are forwarded unchanged"),
    help: "Changes to the header fields of requests.",
    why: "",
};

/// The key `request_trailers` of routes.
pub(in crate::sections) const REQUEST_TRAILERS: Key = Key {
    name: "request_trailers",
    kind: Kind::List(&Kind::Text(Form::FieldName)),
    absent: Absent::Means("none"),
    help: "Request trailers to forward to endpoints: `[\"X-Checksum\"]`. Other trailers are dropped, including \
        trailers of gRPC calls.",
    why: "No filter checks trailers, and some servers merge them into the header fields.",
};

/// The key `response_headers` of routes.
pub(in crate::sections) const RESPONSE_HEADERS: Key = Key {
    name: "response_headers",
    kind: Kind::Table(&RESPONSE_HEADERS_TABLE),
    absent: Absent::Means("fields are returned unchanged"),
    help: "Changes to the header fields of responses, from endpoints and from evenkeel itself.",
    why: "",
};

/// The key `request_headers` of pools.
pub(in crate::sections) const POOL_REQUEST_HEADERS: Key = Key {
    help: "Changes to the header fields of clients' requests to this pool, after the changes of the route. Values \
        cannot use `{path.NAME}`. Health checks, copies of `mirror` and requests of `forward_auth` are not changed.",
    ..REQUEST_HEADERS
};

/// The key `response_headers` of pools.
pub(in crate::sections) const POOL_RESPONSE_HEADERS: Key = Key {
    help: "Changes to the header fields of responses from this pool's endpoints, before the changes of the route. \
        evenkeel's own responses are not changed.",
    ..RESPONSE_HEADERS
};

/// Values of fields that are set, and of fields that are added.
type Values<'h> = (&'h Vec<(Arc<str>, Template)>, &'h Vec<(Arc<str>, Vec<Template>)>);

fn values<'h>((set, add): Values<'h>) -> impl Iterator<Item = &'h Template> {
    set.iter().map(|(_, value)| value).chain(add.iter().flat_map(|(_, values)| values))
}

impl RequestHeaders {
    /// Values with variables, also of edits.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let edits = self.edits.iter().map(|edit| (&edit.set, &edit.add));
        std::iter::once((&self.set, &self.add)).chain(edits).flat_map(values)
    }

    /// Regular expressions of the conditions.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<str>, Extent)> {
        self.edits.iter().flat_map(|edit| edit.when.expressions())
    }
}

impl ResponseHeaders {
    /// Values with variables, also of edits.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let edits = self.edits.iter().map(|edit| (&edit.set, &edit.add));
        std::iter::once((&self.set, &self.add)).chain(edits).flat_map(values)
    }

    /// Regular expressions of the conditions.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<str>, Extent)> {
        self.edits.iter().flat_map(|edit| edit.when.expressions())
    }
}

/// Adds a value of a field behind those that it has already.
pub fn add_field(fields: &mut Vec<(Arc<str>, Vec<Template>)>, name: &Arc<str>, value: Template) {
    match fields.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        Some((_, values)) => values.push(value),
        None => fields.push((name.clone(), vec![value])),
    }
}

/// Reports contradictions within the fields of a pool, and parameters of paths, which only routes have.
pub(in crate::sections) fn check_of_pool(pool: &Section, findings: &mut Findings) {
    check_request(pool, findings);
    check_response(pool, findings);
    for (template, span) in templates(pool) {
        if let Some(Variable::PathParameter(name)) =
            template.variables().find(|v| matches!(v, Variable::PathParameter(_)))
        {
            findings
                .add(Code::BadTemplate, span, format!("a pool has no path, and so no parameter \"{name}\""))
                .help("set the field in the route whose path has it");
        }
    }
}

/// Reports trailers that no request may have, and those that a filter would have set or removed as fields.
pub(in crate::sections) fn check_trailers(route: &Section, findings: &mut Findings) {
    let headers = route.section("request_headers");
    let all = tables(&headers);
    let is_removed = |headers: &&Section, name: &str| {
        headers.texts("remove").iter().any(|(pattern, _)| match pattern.strip_suffix('*') {
            Some(start) => name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)),
            None => name.eq_ignore_ascii_case(pattern),
        })
    };
    let is_written = |headers: &&Section, name: &str| {
        let keys = ["rename", "set", "add"].iter().flat_map(|key| headers.map(key).iter());
        keys.flat_map(|keyed| [Some(&*keyed.key), keyed.value.text()])
            .flatten()
            .any(|key| key.eq_ignore_ascii_case(name))
    };
    let is_copied = |name: &str| {
        route.section("forward_auth").texts("copy_headers").iter().any(|(copied, _)| copied.eq_ignore_ascii_case(name))
    };
    for (name, span) in route.texts("request_trailers") {
        if !may_trail(name.as_bytes()) {
            let message = format!("\"{name}\" cannot be a trailer: it steers the message, or says who sent it");
            findings.add(Code::Contradiction, span, message).help("leave it out of \"request_trailers\"");
        } else if all.iter().any(|one| is_removed(one, &name) || is_written(one, &name)) || is_copied(&name) {
            let message =
                format!("a client could send \"{name}\" as a trailer past the filter that sets or removes it");
            findings.add(Code::Contradiction, span, message).help("leave it out of \"request_trailers\"");
        }
    }
}

/// The table, and the tables of its edits.
fn tables(headers: &Section) -> Vec<&Section> {
    std::iter::once(headers).chain(headers.sections("edits")).collect()
}

/// Reports contradictions within the changes to fields of requests.
pub(in crate::sections) fn check_request(owner: &Section, findings: &mut Findings) {
    check_fields(&owner.section("request_headers"), findings);
}

/// Reports contradictions within the changes to fields of responses.
pub(in crate::sections) fn check_response(owner: &Section, findings: &mut Findings) {
    check_fields(&owner.section("response_headers"), findings);
}

fn check_fields(headers: &Section, findings: &mut Findings) {
    tables(headers).into_iter().for_each(|table| check_names(table, findings));
    edits::check_conditions(headers, findings);
}

/// Reports names that one key has twice, and renames that lead to one name.
fn check_names(headers: &Section, findings: &mut Findings) {
    for key in ["rename", "set", "add"] {
        let mut seen = HashMap::new();
        for keyed in headers.map(key) {
            if let Some(first) = seen.insert(keyed.key.to_ascii_lowercase(), keyed.span) {
                findings
                    .add(Code::SameName, keyed.span, format!("\"{key}\" has the field \"{}\" twice", keyed.key))
                    .see("it is here first", first)
                    .help("names are compared without regard to case: write it once");
            }
        }
    }
    let mut targets = HashMap::new();
    for keyed in headers.map("rename") {
        let Some(target) = keyed.value.text() else { continue };
        if let Some(first) = targets.insert(target.to_ascii_lowercase(), keyed.value.span) {
            let message = format!("\"rename\" gives two fields the name \"{target}\"");
            findings
                .add(Code::Contradiction, keyed.value.span, message)
                .see("the other one is here", first)
                .help("each field needs a name of its own; leave out one of the two");
        }
    }
}

/// The templates of both tables of a route, each with its place.
pub(in crate::sections) fn templates(owner: &Section) -> Vec<(Template, crate::source::Span)> {
    let both = ["request_headers", "response_headers"].map(|table| owner.section(table));
    let tables = both.iter().flat_map(tables);
    let keyed = tables.flat_map(|headers| headers.map("set").iter().chain(headers.map("add")));
    keyed.flat_map(|keyed| keyed.value.templates()).collect()
}
