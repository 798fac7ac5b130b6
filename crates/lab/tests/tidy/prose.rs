//! Rule for plain prose in pages, whose readers speak many languages.

use crate::rule::{File, Finding, Rule};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[Rule {
    name: "pages name who acts: the client, the worker, the operator",
    check: vague_actors,
    kept_by: &[("docs/guide/udp.md", "The client waits.\n```sh\nkill --kill-whom=main\n```\n")],
    broken_by: &[("docs/guide/udp.md", "It is for\nwhoever waits.\n")],
}];

/// Pronouns that do not say who acts.
const VAGUE: &[&str] = &["whoever", "whom", "whomever", "nobody", "somebody", "anybody", "everybody"];

fn vague_actors(files: &[File]) -> Vec<Finding> {
    let pages = files.iter().filter(|file| {
        let is_page = file.path.ends_with(".md") && (file.path.starts_with("docs/") || !file.path.contains('/'));
        is_page || file.path.contains("/src/") && file.path.ends_with(".rs")
    });
    let mut findings = Vec::new();
    for page in pages {
        let mut is_code = false;
        for (line, text) in page.lines() {
            if text.starts_with("```") {
                is_code = !is_code;
            }
            let words = text.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
            for word in words.filter(|word| !is_code && VAGUE.contains(&&**word)) {
                findings.push(page.finding(line, format!("\"{word}\""), "name who acts, as the client or the worker"));
            }
        }
    }
    findings
}
