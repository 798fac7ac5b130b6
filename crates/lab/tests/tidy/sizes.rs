//! Rules for the lengths of files and the number of files in a folder.

use crate::rule::{File, Finding, Rule, sample};
use std::collections::BTreeMap;

/// Maximum source files in a folder, without its subfolders.
const FOLDER_MAX: usize = 20;

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[Rule {
    name: "no folder has more than twenty sources",
    check: full_folders,
    kept_by: &[("crates/sim/src/a.rs", ""), ("crates/sim/src/b/a.rs", "")],
    broken_by: &TWENTY_ONE,
}];

const TWENTY_ONE: [(&str, &str); FOLDER_MAX + 1] = [("crates/sim/src/a.rs", ""); FOLDER_MAX + 1];

fn full_folders(files: &[File]) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        folders.entry(file.path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default().push(file);
    }
    let mut findings = Vec::new();
    for (folder, sources) in folders {
        if sources.len() > FOLDER_MAX {
            let error = format!("{} sources in {folder}", sources.len());
            findings.push(sources[0].finding(0, error, "folders, each for one question"));
        }
    }
    findings
}

/// Checks lengths of files. Apart from the other rules, as lengths above 400 lines only cause warnings.
pub fn lengths(files: &[File]) -> (Vec<String>, Vec<Finding>) {
    let (mut warnings, mut findings) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        let excused = file.text.lines().any(|line| line.starts_with("//! Long because"));
        if lines > 600 && !excused {
            let error = format!("{lines} lines");
            findings.push(file.finding(
                lines,
                error,
                "a file for each idea, or a line `//! Long because ...` in its head",
            ));
        } else if lines > 400 && !excused {
            warnings.push(format!("{}:{lines}: warning: {lines} lines; aim under 400", file.path));
        }
    }
    (warnings, findings)
}

#[test]
fn long_files_fail_unless_they_say_why() {
    let long = |head: &str, lines: usize| sample(&[("crates/dns/src/a.rs", &format!("{head}{}", "x\n".repeat(lines)))]);
    assert_eq!(lengths(&long("", 601)).1.len(), 1);
    assert_eq!(lengths(&long("//! Long because the RFC's table is.\n", 601)).1.len(), 0);
    let (warnings, findings) = lengths(&long("", 401));
    assert_eq!((warnings.len(), findings.len()), (1, 0));
    assert_eq!(lengths(&long("", 400)).0.len(), 0);
}
