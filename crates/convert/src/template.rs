//! Lines of templates (Jinja, Go, ERB). They are not configuration, and are taken out of the text before it is read.

use crate::ledger::Ledger;
use std::borrow::Cow;
use std::sync::Arc;

/// Marks of template engines, with the names of the engines.
const MARKS: [(&str, &str); 3] = [("{%", "Jinja"), ("{{", "Jinja or Go templates"), ("<%", "ERB")];

/// Word that marks the beginning of a block in a line that was taken out.
pub(crate) const BLOCK: &str = "template-line";

/// Returns the text with variables of the environment, `{{env "NAME"}}` in files of Traefik, as evenkeel writes them.
pub(crate) fn environment(text: &str) -> Cow<'_, str> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let name = after.split_once("}}").and_then(|(inner, behind)| {
            let quoted = inner.trim_matches(['-', ' ']).strip_prefix("env")?.trim();
            let name = quoted.trim_matches(['"', '`']);
            let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            (is_name && quoted.len() == name.len() + 2).then_some((name, behind))
        });
        match name {
            Some((name, behind)) => {
                out.push_str(&format!("${{{name}}}"));
                rest = behind;
            }
            None => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    if out.is_empty() { text.into() } else { (out + rest).into() }
}

/// Returns the text with an empty line for each line of a template. Template lines are entered in the book. A line that
/// begins a block keeps its brace, so that braces stay balanced.
pub(crate) fn strip<'t>(text: &'t str, file: &Arc<str>, ledger: &mut Ledger) -> Cow<'t, str> {
    if text.ends_with('\n') && !text.contains('\r') && !MARKS.iter().any(|(mark, _)| text.contains(mark)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut closing: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let bare = line.trim();
        let mark = MARKS.iter().find(|(mark, _)| bare.contains(mark) && !bare.starts_with('#'));
        if mark.is_none() && closing.is_none() {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        // A mark that is closed on a later line takes all lines up to there.
        let end = |mark: &str| {
            if mark == "<%" {
                "%>"
            } else if mark == "{%" {
                "%}"
            } else {
                "}}"
            }
        };
        let (engine, still_open) = match (mark, closing) {
            (Some((mark, engine)), _) => (*engine, (!bare.contains(end(mark))).then(|| end(mark))),
            (None, open) => ("a template", open.filter(|end| !bare.contains(*end))),
        };
        closing = still_open;
        let entry = ledger.open(file, index + 1, bare);
        let reason = format!("a line of a template ({engine}), not of a configuration");
        ledger.decide(entry, reason, "render the template, and convert the result");
        let begins_block = bare.ends_with('{') && !bare.ends_with("{{");
        out.push_str(if begins_block { "template-line {\n" } else { "\n" });
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_environment_are_respelled() {
        let text = "url: \"http://{{ env \"HOST\" }}:{{env `PORT`}}/{{ .x }}\" {{";
        assert_eq!(environment(text), "url: \"http://${HOST}:${PORT}/{{ .x }}\" {{");
        assert_eq!(environment("a"), "a");
    }

    #[test]
    fn template_lines_are_entered_and_taken_out() {
        let mut ledger = Ledger::default();
        let text = "a;\n{% for x in y %}\nserver {{ x }};\nlocation {{ p }} {\n# {{ c }}\n";
        let left = strip(text, &"t".into(), &mut ledger);
        assert_eq!(left, "a;\n\n\ntemplate-line {\n# {{ c }}\n");
        assert_eq!(ledger.into_report().decide.len(), 3);
    }
}
