//! Rule against paths of a particular machine.

use crate::rule::{File, Finding, Rule};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[Rule {
    name: "no path of one machine",
    check: machine_paths,
    kept_by: &[("crates/dns/src/a.rs", "#[cfg(test)]\nmod tests {\n  const A: &str = \"/home/me\";\n}\n")],
    broken_by: &[("crates/dns/src/a.rs", "const A: &str = \"/home/me\";\n")],
}];

/// Top-level folders that differ between machines or users. Tests may name them as samples.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "tmp", "work"];

fn machine_paths(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.path.contains("/tests/")) {
        for (line, text) in file.lines_outside_tests() {
            let named = MACHINE_FOLDERS.iter().find(|folder| {
                let path = format!("/{folder}/");
                // Within a longer path it is a folder of the repository.
                text.match_indices(&path)
                    .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.'))
            });
            if let Some(folder) = named {
                let error = format!("a path under /{folder}, as if every machine were this one");
                findings.push(file.finding(
                    line,
                    error,
                    "an option, the temporary folder, or a path from the root of the checkout",
                ));
            }
        }
    }
    findings
}
