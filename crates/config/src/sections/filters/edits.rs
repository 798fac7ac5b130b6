//! `edits` of `request_headers` and `response_headers`: changes to fields that are applied in the order of the file, each
//! for all messages or for those that meet its condition. See [`RequestEdit`] and [`ResponseEdit`].

use super::headers::{ADD_REQUEST, ADD_RESPONSE, REMOVE, RENAME, SET_REQUEST, SET_RESPONSE};
use crate::diagnostic::Findings;
use crate::form::{Extent, Form, Template};
use crate::sections::matching::{self, ALTERNATIVE, EXPECTED, Expected, Match};
use crate::table::{Absent, Key, Kind, Section, table};
use std::ops::RangeInclusive;
use std::sync::Arc;

table! {
    pub(super) static REQUEST_EDIT = "entry of edits of request_headers",
        "A change to the header fields of requests, in this order: remove, rename, set, add. The changes before it have \
        been applied.";

    /// A change to the fields of requests.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RequestEdit {
        /// Requests that are changed; [`Match::all`] if not set.
        when: Match = Key {
            name: "when",
            kind: Kind::Table(&ALTERNATIVE),
            absent: Absent::Means("every request"),
            help: "Changes only requests that match. The keys are those of `match` of a route: `{ method = [\"POST\"] }`, \
                `{ not = { header = { X-A = { present = true } } } }`. Fields are compared as the changes before it left \
                them, and the path as the client sent it.",
            why: "",
        };
        remove: Vec<Arc<str>> = REMOVE;
        rename: Vec<(Arc<str>, Arc<str>)> = RENAME;
        set: Vec<(Arc<str>, Template)> = SET_REQUEST;
        add: Vec<(Arc<str>, Vec<Template>)> = ADD_REQUEST;
    }
}

table! {
    pub(super) static RESPONSE_EDIT = "entry of edits of response_headers",
        "A change to the header fields of responses, in this order: remove, rename, set, add. The changes before it have \
        been applied.";

    /// A change to the fields of responses.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ResponseEdit {
        /// Responses that are changed; all if not set.
        when: ResponseWhen = Key {
            name: "when",
            kind: Kind::Table(&RESPONSE_WHEN),
            absent: Absent::Means("every response"),
            help: "Changes only responses that match: `{ status = [\"5xx\"] }`.",
            why: "",
        };
        remove: Vec<Arc<str>> = REMOVE;
        rename: Vec<(Arc<str>, Arc<str>)> = RENAME;
        set: Vec<(Arc<str>, Template)> = SET_RESPONSE;
        add: Vec<(Arc<str>, Vec<Template>)> = ADD_RESPONSE;
    }
}

table! {
    static RESPONSE_WHEN = "when of edits of response_headers",
        "Condition for responses: all keys that are set must match.";

    /// Condition of a change to the fields of responses. Every response meets the condition that sets nothing.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ResponseWhen {
        /// Statuses, one of which must match; empty = any.
        statuses: Vec<RangeInclusive<u16>> = Key {
            name: "status",
            kind: Kind::OneOrList(&Kind::IntOrText { min: 200, max: 599, form: Form::Status }),
            absent: Absent::Means("any status"),
            help: "Statuses, one of which must match: `404`, `[\"5xx\", 429]`, `\"200..=299\"`.",
            why: "",
        };
        /// Fields of the response by name. The value of any line of the field must be as expected.
        headers: Vec<(Arc<str>, Expected)> = Key {
            name: "header",
            kind: Kind::Map { keys: Form::Token, of: &Kind::TableOr { table: &EXPECTED, key: "equal" } },
            absent: Absent::Means("any fields"),
            help: "Fields of the response by name, as the changes before it left them, with the expected value.",
            why: "",
        };
        /// Request of the response; [`Match::all`] if not set.
        request: Match = Key {
            name: "request",
            kind: Kind::Table(&ALTERNATIVE),
            absent: Absent::Means("any request"),
            help: "Request of the response, with the keys of `match` of a route.",
            why: "",
        };
    }
}

/// The key `edits` of `request_headers`.
pub(super) const REQUEST_EDITS: Key = Key {
    name: "edits",
    kind: Kind::Tables(&REQUEST_EDIT),
    absent: Absent::Means("none"),
    help: "Further changes, each with `remove`, `rename`, `set` and `add`, in the order of the file and after the keys \
        beside it. `when` limits a change to the requests that match.",
    why: "",
};

/// The key `edits` of `response_headers`.
pub(super) const RESPONSE_EDITS: Key = Key {
    name: "edits",
    kind: Kind::Tables(&RESPONSE_EDIT),
    absent: Absent::Means("none"),
    help: "Further changes, each with `remove`, `rename`, `set` and `add`, in the order of the file and after the keys \
        beside it. `when` limits a change to the responses that match.",
    why: "",
};

impl ResponseWhen {
    /// True if every response meets it.
    pub fn is_any(&self) -> bool {
        *self == ResponseWhen::default()
    }

    /// Regular expressions of the condition.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<str>, Extent)> {
        let of_response = self.headers.iter().filter_map(|(_, expected)| expected.expression());
        of_response.chain(self.request.expressions())
    }
}

/// Reports contradictions within the conditions of the changes of a table.
pub(super) fn check_conditions(headers: &Section, findings: &mut Findings) {
    for edit in headers.sections("edits") {
        if !edit.has("when") {
            continue;
        }
        let when = edit.section("when");
        if edit.is_of(&RESPONSE_EDIT) {
            matching::check_expected(&when, findings);
            matching::check_one(&when.section("request"), findings);
        } else {
            matching::check_one(&when, findings);
        }
    }
}
