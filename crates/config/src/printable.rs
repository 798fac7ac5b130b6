//! Characters that must not reach logs, terminals and pages unescaped, because they move the cursor, end a
//! line or reorder text (Unicode TR36, "Trojan Source"). A single set for every place that shows text of clients
//! and files.

use std::borrow::Cow;
use std::fmt::Write;

/// True for control characters (C0, DEL and C1), line and paragraph separators, marks that change the
/// direction of text, and the byte order mark.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The text with hidden characters, other than the characters of `except`, in JSON escapes: `\u009b`. All fit into
/// four digits.
pub fn printable<'t>(text: &'t str, except: &[char]) -> Cow<'t, str> {
    let hides = |c: char| is_hidden(c) && !except.contains(&c);
    // Most text has none, and is returned as is.
    if !text.chars().any(hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hides(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The text as a TOML string, with `${` escaped so that no variable is expanded.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.replace("${", "$${").chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if is_hidden(c) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_or_reorders_text_is_escaped_and_the_rest_is_not() {
        for c in [
            '\0', '\n', '\x1b', '\x7f', '\u{80}', '\u{85}', '\u{9b}', '\u{61c}', '\u{2028}', '\u{2029}', '\u{202e}',
            '\u{2066}',
        ] {
            assert_eq!(printable(&format!("a{c}b"), &[]), format!("a\\u{:04x}b", u32::from(c)));
        }
        let plain = "gr\u{f6}\u{df}e \u{5d0} \u{8239} \u{1f600}\u{200d}\u{a0}";
        assert!(matches!(printable(plain, &[]), Cow::Borrowed(text) if text == plain));
        assert_eq!(printable("a\nb\u{9b}", &['\n']), "a\nb\\u009b");
    }
}
