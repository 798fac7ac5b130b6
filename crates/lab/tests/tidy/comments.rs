//! Do comments say what they have to: the question of a file, why unsafe code is sound, why something is unfinished?

use crate::rule::{File, Finding, Rule};

/// The rules of this file.
pub static RULES: &[Rule] = &[
    Rule {
        name: "an unfinished mark gives its reason",
        check: unfinished_marks,
        kept_by: &[("crates/dns/src/a.rs", "// TODO(until rfc 9999 is out): x\nlet s = \"TODO\";\n")],
        broken_by: &[("crates/dns/src/a.rs", "let a = 1; // TODO: later\n")],
    },
    Rule {
        name: "a source begins with the question it answers",
        check: head_comment,
        kept_by: &[("crates/dns/src/a.rs", "//! What is asked?\n")],
        broken_by: &[("crates/dns/src/a.rs", "use std::fmt;\n//! late\n")],
    },
    Rule {
        name: "unsafe code says why it is sound",
        check: safety_comments,
        kept_by: &[("crates/dns/src/a.rs", "// SAFETY: open until dropped,\n// as x says\nlet a = unsafe { f() };\n")],
        broken_by: &[("crates/dns/src/a.rs", "// fast\nlet a = unsafe { f() };\n")],
    },
];

const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

fn unfinished_marks(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, text) in file.lines() {
            let Some((_, comment)) = text.split_once("//") else { continue };
            let mut words = comment.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
            let bare = words.find(|word| MARKS.contains(&word.split('(').next().unwrap_or_default()));
            // Only the first mark, and only with a reason that is more than a bracket.
            if bare.is_some_and(|word| !word.starts_with(&format!("{}(", MARKS[0])) || word.ends_with('(')) {
                findings.push(file.finding(line, "an unfinished mark without a reason", "finish it, or TODO(reason)"));
            }
        }
    }
    findings
}

fn head_comment(files: &[File]) -> Vec<Finding> {
    let sources =
        files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/") && file.path.contains("/src/"));
    let headless = sources.filter(|file| !file.text.starts_with("//!"));
    headless.map(|file| file.finding(1, "no `//!` at the top", "state what the file holds")).collect()
}

fn safety_comments(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let opening = ["unsafe {", "unsafe impl"];
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, text) in lines.iter().enumerate() {
            let code = text.split("//").next().unwrap_or_default();
            if !opening.iter().any(|opening| code.contains(*opening)) {
                continue;
            }
            let above = lines[..index].iter().rev().take_while(|line| {
                let line = line.trim_start();
                line.starts_with("//") || line.starts_with("#[")
            });
            if !above.chain([text]).any(|line| line.contains("SAFETY:")) {
                findings.push(file.finding(
                    index + 1,
                    "unsafe code without its reason",
                    "`// SAFETY: ...` right above",
                ));
            }
        }
    }
    findings
}
