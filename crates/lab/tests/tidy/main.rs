//! House rules that a machine can check, in the tables `RULES` of each file. Each row has a sample that breaks it, so
//! that no rule can decay into one that never fails.
//!
//! A new rule is a function and a row. Rules that clippy can check belong in the workspace lints instead.

mod binaries;
mod comments;
#[path = "../../../config/tests/support/committed.rs"]
mod committed;
mod english;
mod hooks;
mod imports;
mod manifests;
mod names;
mod order;
mod orders;
mod paths;
mod prose;
mod registries;
mod rooms;
mod rule;
mod sizes;
mod source;

use rule::{File, Finding, Rule, sample, tree};
use std::path::Path;

fn rules() -> impl Iterator<Item = &'static Rule> {
    let all = [
        manifests::RULES,
        binaries::RULES,
        names::RULES,
        comments::RULES,
        english::RULES,
        registries::RULES,
        paths::RULES,
        prose::RULES,
        sizes::RULES,
        order::RULES,
    ];
    all.into_iter().flatten()
}

fn house() -> Vec<File> {
    let mut files = Vec::new();
    tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), "", &mut files);
    // Samples break the rules on purpose.
    let samples: Vec<_> = files.iter_mut().filter(|file| file.path.starts_with("crates/lab/tests/tidy/")).collect();
    assert!(!samples.is_empty(), "it looks at its own repository");
    samples.into_iter().for_each(|file| file.text.clear());
    files
}

#[test]
fn the_house_is_in_order() {
    let files = house();
    let (warnings, mut findings) = sizes::lengths(&files);
    // Rules may share a check function.
    let mut checks: Vec<_> = rules().map(|rule| rule.check).collect();
    checks.dedup_by(|a, b| std::ptr::fn_addr_eq(*a, *b));
    findings.extend(checks.iter().flat_map(|check| check(&files)));
    let mut report: Vec<String> = findings.iter().map(Finding::to_string).collect();
    report.sort();
    warnings.iter().for_each(|warning| println!("{warning}"));
    assert!(report.is_empty(), "{} findings\n{}", report.len(), report.join("\n"));
}

#[test]
fn no_table_names_what_is_gone() {
    let files = house();
    let stale = manifests::stale(&files);
    assert!(stale.is_empty(), "{} names\n{}", stale.len(), stale.join("\n"));
}

#[test]
fn every_rule_can_fail() {
    for rule in rules() {
        assert!(!(rule.check)(&sample(rule.broken_by)).is_empty(), "{}: the sample does not break it", rule.name);
        let kept = (rule.check)(&sample(rule.kept_by));
        assert!(kept.is_empty(), "{}: broken by the sample that keeps it:\n{}", rule.name, kept[0]);
    }
}
