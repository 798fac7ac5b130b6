//! Advice as text for people.

use evenkeel_view::advice::{Advised, Verdict};
use std::fmt::Write;

/// Returns advice as text, numbered, with evidence, commands and patches. Advice to leave something is a line each at
/// the end.
pub fn text(advised: &Advised) -> String {
    let mut out = String::new();
    let (changes, left) = advised.parts();
    for (at, advice) in changes.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}. {}: {}", at + 1, advice.subject, advice.says);
        let (verdict, effect) = (advice.verdict, advice.effect.as_ref().map(|effect| effect.text()));
        match effect {
            Some(effect) => writeln!(out, "   {}: {effect}", verdict.words()),
            None => writeln!(out, "   {}", if verdict == Verdict::Danger { verdict.words() } else { &advice.kind }),
        }
        .unwrap_or_default();
        for evidence in &advice.evidence {
            let _ = writeln!(out, "   - {evidence}");
        }
        if let Some(repeat) = &advice.repeat {
            let _ = writeln!(out, "   repeat: {repeat}");
        }
        if let Some(patch) = &advice.patch {
            let _ = writeln!(out, "   patch:");
            patch.lines().for_each(|line| {
                let _ = writeln!(out, "     {line}");
            });
        }
        out.push('\n');
    }
    if changes.is_empty() {
        out.push_str("leave it: nothing here would be better than noise\n\n");
    }
    for advice in left {
        let _ = writeln!(out, "{}, {}: {}", advice.subject, advice.kind, advice.says);
    }
    out
}
