//! Rule against vague module names.

use crate::rule::{File, Finding, Rule};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[
    Rule {
        name: "names say what is inside",
        check: telling_names,
        kept_by: &[("crates/dns/src/answer.rs", "mod miscount;\n")],
        broken_by: &[("crates/dns/src/utils.rs", "//! x\n")],
    },
    Rule {
        name: "modules inside files have telling names too",
        check: telling_names,
        kept_by: &[("crates/dns/src/answer.rs", "pub mod query {\n")],
        broken_by: &[("crates/dns/src/answer.rs", "pub(crate) mod helpers {\n")],
    },
];

const VAGUE: &[&str] = &["util", "utils", "common", "misc", "manager", "helper", "helpers"];

fn telling_names(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let instead = "name the one thing that is inside";
    for file in files.iter().filter(|file| file.is_rust()) {
        let parts = file.path.trim_end_matches(".rs").split('/');
        if let Some(part) = parts.into_iter().find(|part| VAGUE.contains(part)) {
            findings.push(file.finding(0, format!("a module called `{part}`"), instead));
        }
        for (line, text) in file.lines() {
            let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let named = words.windows(2).find(|pair| pair[0] == "mod" && VAGUE.contains(&pair[1]));
            if let Some(pair) = named.filter(|_| !text.trim_start().starts_with("//")) {
                findings.push(file.finding(line, format!("a module called `{}`", pair[1]), instead));
            }
        }
    }
    findings
}
