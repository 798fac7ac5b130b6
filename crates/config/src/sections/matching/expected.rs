//! Expected values of fields, query parameters and cookies. See [`Expected`].

use super::partial::{self, Of};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Extent, Form};
use crate::table::{Absent, Key, Kind, Section, Value, table};
use std::sync::Arc;

table! {
    pub(crate) static EXPECTED = "value in match",
        "Expected value: exactly one of these keys.";

    /// Expected value; exactly 1 field is set.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Expected {
        /// Values of which any must be equal; empty if not set.
        equal: Vec<Arc<str>> = Key {
            name: "equal",
            kind: Kind::List(&Kind::Text(Form::Content)),
            absent: Absent::Means("not compared"),
            help: "The whole value, case-sensitive. With several values, any of them.",
            why: "",
        };
        prefix: Option<Arc<str>> = Key {
            name: "prefix",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("not compared"),
            help: "Text that the value begins with.",
            why: "",
        };
        suffix: Option<Arc<str>> = Key {
            name: "suffix",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("not compared"),
            help: "Text that the value ends with.",
            why: "",
        };
        contains: Option<Arc<str>> = Key {
            name: "contains",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("not compared"),
            help: "Text that the value contains.",
            why: "",
        };
        regex: Option<Arc<str>> = Key {
            name: "regex",
            kind: Kind::Text(Form::Regex),
            absent: Absent::Means("not compared"),
            help: "Regular expression that the whole value must match: `v[0-9]+`; `search` matches a part.",
            why: "",
        };
        search: Option<Arc<str>> = Key {
            name: "search",
            kind: Kind::Text(Form::Regex),
            absent: Absent::Means("not compared"),
            help: "Regular expression that some part of the value must match: `curl/[78]`.",
            why: "",
        };
        /// True if it must be there, with any value; false if it must not.
        present: Option<bool> = Key {
            name: "present",
            kind: Kind::Bool,
            absent: Absent::Means("not compared"),
            help: "`true`: present, with any value. `false`: absent.",
            why: "",
        }, read present;
    }
}

impl Expected {
    /// Regular expression that a value has to match, if any.
    pub fn expression(&self) -> Option<(&Arc<str>, Extent)> {
        let whole = self.regex.as_ref().map(|text| (text, Extent::Whole));
        whole.or_else(|| self.search.as_ref().map(|text| (text, Extent::Part)))
    }
}

fn present(section: &Section) -> Option<bool> {
    section.has("present").then(|| section.flag("present"))
}

/// Reports expected values without exactly 1 key.
pub(crate) fn check(criteria: &Section, findings: &mut Findings) {
    for key in ["header", "query", "cookie", "map"].into_iter().filter(|key| criteria.knows(key)) {
        for keyed in criteria.map(key) {
            let Value::Section(section) = &keyed.value.value else { continue };
            let set: Vec<&str> = EXPECTED.keys.iter().map(|key| key.name).filter(|key| section.has(key)).collect();
            if set.len() == 1 {
                partial::check(section, Of::Other, findings);
                continue;
            }
            let message = match set.as_slice() {
                [] => format!("\"{}\" expects no value", keyed.key),
                several => format!("\"{}\" has several expectations: {}", keyed.key, several.join(", ")),
            };
            findings.add(Code::Contradiction, section.span, message).help(
                "write exactly one of equal, prefix, suffix, contains, regex, search and present; \"not\" negates it, \
                 and \"any\" has alternatives",
            );
        }
    }
}
