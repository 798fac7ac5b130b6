//! Checks of a match: keys that exclude each other, and alternatives that repeat a key.

use super::expected;
use super::partial::{self, Of};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::table::Section;

/// Keys that name a path, of which a match has at most 1.
const PATHS: [&str; 4] = ["path", "prefix", "starts_with", "grpc"];

/// Keys that can have a single value only, so that an alternative cannot add to them.
const SINGLE: [&str; 7] = ["host", "method", "client", "scheme", "ends_with", "regex", "search"];

/// Reports contradictions in the match of a route.
pub(crate) fn check(matches: &Section, findings: &mut Findings) {
    check_one(matches, findings);
    for alternative in matches.sections("any") {
        check_one(alternative, findings);
        let twice = SINGLE.into_iter().filter(|key| matches.has(key) && alternative.has(key));
        let paths = |of: &Section| PATHS.into_iter().find(|key| of.has(key));
        let paths = paths(matches).and(paths(alternative));
        for key in twice.chain(paths) {
            let message = format!("an alternative sets \"{key}\", which the match sets for all alternatives");
            let finding = findings.add(Code::Contradiction, alternative.span_of(key), message);
            finding.help("set it in each alternative, or only beside \"any\"");
        }
    }
}

/// Reports contradictions in a match without alternatives.
pub(crate) fn check_one(section: &Section, findings: &mut Findings) {
    for part in [section, &section.section("not")] {
        partial::check(part, Of::Path, findings);
    }
    expected::check(section, findings);
    expected::check(&section.section("not"), findings);
    let paths: Vec<&str> = PATHS.into_iter().filter(|key| section.has(key)).collect();
    if let [first, second, ..] = paths[..] {
        let message = format!("\"{first}\" and \"{second}\" exclude each other");
        section
            .contradiction(section.span_of(first), message, second, findings)
            .help("keep one of the two; an entry of \"any\" can have the other");
    }
    if section.has("path") {
        for key in ["ends_with", "regex", "search"].into_iter().filter(|key| section.has(key)) {
            let message = format!("\"path\" is the whole path, so \"{key}\" adds nothing");
            section.contradiction(section.span_of(key), message, "path", findings).help("keep one of the two");
        }
    }
}
