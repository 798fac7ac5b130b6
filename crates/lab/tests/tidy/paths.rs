//! Rules for paths: none of a particular machine, and none in pages to a file that is gone.

use crate::rule::{File, Finding, Rule};
use std::collections::BTreeSet;

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[
    Rule {
        name: "no path of one machine",
        check: machine_paths,
        kept_by: &[("crates/dns/src/a.rs", "#[cfg(test)]\nmod tests {\n  const A: &str = \"/home/me\";\n}\n")],
        broken_by: &[("crates/dns/src/a.rs", "const A: &str = \"/home/me\";\n")],
    },
    Rule {
        name: "files that a page names are there",
        check: named_files,
        kept_by: &[
            ("docs/a.md", "`dns/src/a.rs`, `a.rs`, `crates/dns/`, `crates/x.toml`, `/etc/b.rs`\n```\n`b.rs`\n```\n"),
            ("crates/dns/src/a.rs", ""),
            ("crates/x.toml", ""),
            ("docs/measurements/a.md", "`gone.rs`"),
        ],
        broken_by: &[("ARCHITECTURE.md", "See `dns/src/b.rs`."), ("crates/dns/src/a.rs", ""), ("crates/net/b.rs", "")],
    },
    Rule {
        name: "folders that a page names are there",
        check: named_files,
        kept_by: &[("README.md", "`crates/dns/src/`, `gone/`"), ("crates/dns/src/a.rs", "")],
        broken_by: &[("README.md", "`crates/gone/`"), ("crates/dns/src/a.rs", "")],
    },
];

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

/// Pages that report the state of a day.
const DATED: &[&str] = &["docs/measurements/", "docs/lab/", "CHANGELOG.md"];

fn named_files(files: &[File]) -> Vec<Finding> {
    let folders: BTreeSet<&str> = files.iter().filter_map(|file| Some(file.path.split_once('/')?.0)).collect();
    let pages = files.iter().filter(|file| {
        let is_page = file.path.ends_with(".md") && (file.path.starts_with("docs/") || !file.path.contains('/'));
        is_page && !DATED.iter().any(|dated| file.path.starts_with(dated))
    });
    // A page may leave out the beginning of a path.
    let is_there = |name: &str| {
        files.iter().any(|file| match name.ends_with('/') {
            true => file.path.starts_with(name),
            false => file.path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/')),
        })
    };
    let mut findings = Vec::new();
    for page in pages {
        let mut is_code = false;
        for (line, text) in page.lines() {
            is_code ^= text.trim_start().starts_with("```");
            for name in text.split('`').skip(1).step_by(2).filter(|_| !is_code) {
                let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
                let is_source = name.ends_with(".rs") && !name.starts_with('/');
                let is_ours = name.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
                let is_listed = [".rs", ".toml", ".md", ".sh", ".py", "/"].iter().any(|end| name.ends_with(end));
                let is_pattern = name.contains("NAME");
                if is_plain && !is_pattern && (is_source || is_ours && is_listed) && !is_there(name) {
                    findings.push(page.finding(line, format!("`{name}` is not there"), "the path as it is now"));
                }
            }
        }
    }
    findings
}
