//! Rule that every algorithm and experiment is registered.

use crate::rule::{File, Finding, Rule};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[
    Rule {
        name: "every algorithm has its row in the registry",
        check: registered,
        kept_by: &[
            ("crates/balance/src/algorithms/first.rs", ""),
            ("crates/balance/src/algorithms/mod.rs", "static ALL: &[A] = &[\n  &first::ALGORITHM,\n];\n"),
        ],
        broken_by: &[
            ("crates/balance/src/algorithms/first.rs", ""),
            ("crates/balance/src/algorithms/mod.rs", "mod first;\nstatic ALL: &[A] = &[];\n// first::ALGORITHM\n"),
        ],
    },
    Rule {
        name: "every experiment has its row in the registry",
        check: registered,
        kept_by: &[
            ("crates/lab/src/experiments/cost/mod.rs", ""),
            ("crates/lab/src/experiments/cost/case.rs", ""),
            ("crates/lab/src/experiments/mod.rs", "static ALL: &[E] = &[&cost::EXPERIMENT];\n"),
        ],
        broken_by: &[
            ("crates/lab/src/experiments/cost/mod.rs", ""),
            ("crates/lab/src/experiments/mod.rs", "static ALL: &[E] = &[];\n"),
        ],
    },
];

/// Folders whose modules must each have a row in the slice `ALL` of `mod.rs`.
const REGISTRIES: &[&str] = &["crates/balance/src/algorithms/", "crates/lab/src/experiments/"];

fn registered(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in REGISTRIES {
        let registry = files.iter().find(|file| file.path == format!("{folder}mod.rs"));
        let all =
            registry.and_then(|file| file.text.split_once("static ALL")?.1.split_once("];")).map_or("", |(all, _)| all);
        for file in files {
            let Some(rest) = file.path.strip_prefix(folder) else { continue };
            let Some(module) = rest.strip_suffix("/mod.rs").or_else(|| rest.strip_suffix(".rs")) else { continue };
            if module != "mod" && !module.contains('/') && !all.contains(&format!("{module}::")) {
                findings.push(file.finding(0, "no row in the registry", "add one to `ALL` in the mod.rs beside it"));
            }
        }
    }
    findings
}
