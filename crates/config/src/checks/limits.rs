//! References to limits that routes share.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Formed, LimitKey};
use crate::nearest::Names;
use crate::table::Section;

/// Reports names of limits that do not exist, and limits by a claim at routes that verify no token.
pub(super) fn check(root: &Section, findings: &mut Findings) {
    let limits = root.named("limit");
    let names = Names::new(limits.iter().map(|limit| &*limit.name));
    let sets = root.named("filters").iter().map(|named| &named.section);
    let defaults = root.section("defaults").section("route");
    for owner in root.sections("route").into_iter().chain(sets).chain([&defaults]) {
        for limit in owner.sections("limits") {
            let Some(name) = limit.text("use") else { continue };
            let span = limit.span_of("use");
            let Some(shared) = limits.iter().find(|limit| limit.name == name) else {
                let help = names.suggest(&name, "add the limit: [limit.NAME] with requests or in_flight");
                findings.add(Code::UnknownLimit, span, format!("unknown limit \"{name}\"")).help(help);
                continue;
            };
            if let Some(Formed::LimitKey(LimitKey::Claim(claim))) = shared.section.formed("key")
                && !owner.has("jwt")
            {
                let message = format!("limit \"{name}\" is by \"claim:{claim}\", and the route verifies no token");
                findings
                    .add(Code::Missing, span, message)
                    .see("its key is here", shared.section.span_of("key"))
                    .help("set \"jwt\" of the route, or another key of the limit");
            }
        }
    }
}
