//! Uniqueness of names within a table.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::source::Span;
use std::collections::BTreeMap;

/// Reports a name that was given before. `seen` maps the names so far to their places.
pub(crate) fn check_name(
    name: &str,
    span: Span,
    what: &str,
    seen: &mut BTreeMap<String, Span>,
    findings: &mut Findings,
) {
    if let Some(first) = seen.get(name) {
        findings
            .add(Code::SameName, span, format!("two {what} are named \"{name}\""))
            .see("the first one is here", *first)
            .help("give each a name of its own");
        return;
    }
    seen.insert(name.to_string(), span);
}
