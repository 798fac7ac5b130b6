//! Is each name given once?

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::source::Place;
use std::collections::BTreeMap;

/// Reports a name that was given before; `seen` has the names so far.
pub(crate) fn check_name(
    name: &str,
    place: Place,
    what: &str,
    seen: &mut BTreeMap<String, Place>,
    findings: &mut Findings,
) {
    if let Some(first) = seen.get(name) {
        findings
            .add(Code::SameName, place, format!("two {what} are named \"{name}\""))
            .see("the first one is here", *first)
            .help("give each a name of its own");
        return;
    }
    seen.insert(name.to_string(), place);
}
