//! Check of the size of regular expressions, which `runtime.regex_size` limits.

use super::collisions::Placed;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::checked_regex;
use crate::sections::runtime::Runtime;
use crate::table::{Declared, Section};
use crate::tree::quoted;

/// Reports expressions whose programs are too large. `all` holds the routes of `sections`, and others behind them.
pub(super) fn check(root: &Section, sections: &[&Section], all: &[Placed], findings: &mut Findings) {
    let most = Runtime::of(&root.section("runtime")).regex_size;
    for (section, placed) in sections.iter().zip(all).filter(|(_, placed)| placed.whole) {
        for text in placed.route.expressions() {
            let size = checked_regex(text).map_or(0, |expression| expression.size());
            if size <= most {
                continue;
            }
            let (size, most) = (size.div_ceil(1 << 10), most >> 10);
            let message = format!("the program of {} takes {size} KiB, and {most} KiB are allowed", quoted(text));
            let matches = section.section("match");
            findings.add(Code::BadRegex, matches.span_of("regex"), message).help(
                "write ASCII classes, such as [A-Za-z0-9_] for \\w, and smaller counts; or raise runtime.regex_size",
            );
        }
    }
}
