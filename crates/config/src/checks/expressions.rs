//! Check of the size of regular expressions, which `runtime.regex_size` limits.

use super::collisions::Placed;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{REGEX_SIZE_MAX, checked_regex, without_case};
use crate::sections::listener::Listener;
use crate::sections::runtime::Runtime;
use crate::table::{Declared, Section};
use crate::tree::quoted;
use std::sync::Arc;

/// Reports expressions whose programs are too large. `all` holds the routes of `sections`, and others behind them.
pub(super) fn check(
    root: &Section,
    sections: &[&Section],
    (all, listeners): (&[Placed], &[Arc<Listener>]),
    findings: &mut Findings,
) {
    let most = Runtime::of(&root.section("runtime")).regex_size;
    for (section, placed) in sections.iter().zip(all).filter(|(_, placed)| placed.whole) {
        let ignores_case = listeners.iter().any(|listener| listener.ignore_case && listener.serves(&placed.route));
        for (text, extent) in placed.route.expressions() {
            // Of two cases of each letter the program is larger.
            let found =
                if ignores_case { checked_regex(&without_case(text), extent) } else { checked_regex(text, extent) };
            let size = found.map_or(REGEX_SIZE_MAX + 1, |expression| expression.size());
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

#[cfg(test)]
mod tests {
    use crate::parse_str;

    #[test]
    fn a_program_over_the_limit_is_an_error_with_its_size_wherever_the_expression_is() {
        let of = |runtime: &str, matching: &str| {
            let text = format!(
                "{runtime}\n[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['127.0.0.1:2']\n\
                 [[route]]\npool = 'web'\nmatch = {{ {matching} }}\n"
            );
            let outcome = parse_str("test.toml", &text, &|_| None);
            outcome.diagnostics.iter().map(|one| one.message.clone()).collect::<Vec<_>>()
        };
        let large = "regex = '(?:\\w-){2}'";
        let raised = "[runtime]\nregex_size = '64KiB'";
        for matching in [
            large.to_owned(),
            format!("header = {{ X-A = {{ {large} }} }}"),
            format!("query = {{ a = {{ {large} }} }}"),
            format!("not = {{ cookie = {{ a = {{ {large} }} }} }}"),
            format!("any = [{{ method = ['GET'] }}, {{ {large} }}]"),
        ] {
            let said = of("", &matching);
            assert!(said.len() == 1 && said[0].ends_with("KiB, and 32 KiB are allowed"), "{matching}: {said:?}");
            assert_eq!(of(raised, &matching), [""; 0], "{matching}");
        }
        assert_eq!(of("[runtime]\nregex_size = '1KiB'", "regex = '/u/[0-9]+'"), [""; 0]);
        assert_eq!(of("[runtime]\nregex_size = '1KiB'", "regex = '/u/[0-9a-f]{8}-[0-9a-f]{8}'").len(), 1);
    }
}
