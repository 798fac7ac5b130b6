//! Test files must be part of a test binary; others would never be compiled or fail.

use crate::rule::{File, Finding, Rule};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[
    Rule {
        name: "every file of tests is part of a binary",
        check: left_out,
        kept_by: &[
            ("crates/dns/Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/main.rs\"\n"),
            ("crates/dns/tests/main.rs", "mod load;\n#[path = \"support/pages.rs\"]\nmod committed;\n"),
            ("crates/dns/tests/load/mod.rs", "mod slow;\n"),
            ("crates/dns/tests/load/slow.rs", ""),
            ("crates/dns/tests/support/pages.rs", ""),
            ("crates/sim/tests/alone.rs", ""),
        ],
        broken_by: &[
            ("crates/dns/Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/main.rs\"\n"),
            ("crates/dns/tests/main.rs", "mod load;\n"),
            ("crates/dns/tests/loads.rs", ""),
        ],
    },
    Rule {
        name: "every file in a folder of tests is part of a binary",
        check: left_out,
        kept_by: &[
            ("crates/dns/Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/alone/main.rs\"\n"),
            ("crates/dns/tests/alone/main.rs", "pub mod slow;\n"),
            ("crates/dns/tests/alone/slow.rs", ""),
        ],
        broken_by: &[
            ("crates/dns/Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/alone/main.rs\"\n"),
            ("crates/dns/tests/alone/main.rs", "mod quick;\n"),
            ("crates/dns/tests/alone/slow.rs", ""),
        ],
    },
];

fn left_out(files: &[File]) -> Vec<Finding> {
    let manifests = files.iter().filter(|file| file.text.lines().any(|line| line.starts_with("autotests = false")));
    let mut findings = Vec::new();
    for manifest in manifests {
        let Some(krate) = manifest.path.strip_suffix("Cargo.toml") else { continue };
        let below = format!("{krate}tests/");
        let tests: Vec<&File> = files.iter().filter(|file| file.is_rust() && file.path.starts_with(&below)).collect();
        for file in &tests {
            let path = &file.path[krate.len()..];
            let is_root = manifest.text.contains(&format!("path = \"{path}\""));
            if !is_root && !tests.iter().any(|other| declares(other, &file.path)) {
                findings.push(file.finding(
                    0,
                    "no test binary has it",
                    "a `mod` line in tests/main.rs, or in its folder",
                ));
            }
        }
    }
    findings
}

/// True if a file has a `mod` line that leads to `path`.
fn declares(file: &File, path: &str) -> bool {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    // A file other than main.rs or mod.rs has its modules in a folder of its name.
    let is_root = ["/main.rs", "/mod.rs"].iter().any(|root| file.path.ends_with(root));
    let below = if is_root { folder } else { file.path.trim_end_matches(".rs") };
    let mut at = None;
    file.text.lines().any(|line| {
        let line = line.trim_start_matches("pub ");
        if let Some(named) = line.strip_prefix("#[path = \"").and_then(|line| line.strip_suffix("\"]")) {
            at = Some(format!("{folder}/{named}"));
        }
        let Some(name) = line.strip_prefix("mod ").and_then(|line| line.strip_suffix(';')) else { return false };
        at.take().is_some_and(|at| at == path)
            || [format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")].iter().any(|found| found == path)
    })
}
