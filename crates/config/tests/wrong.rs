//! Errors that a person can act on. Next to every file in tests/wrong is the expected output. `make bless`
//! rewrites it: review the difference.

use crate::committed::same_as_committed;
use crate::support::Under;
use evenkeel_balance::{Needs, algorithms};
use evenkeel_config::{Severity, load_from, render_text, to_json};
use std::path::Path;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wrong");

fn wrong_files() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(HERE)
        .expect("the directory is there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    names
}

#[test]
fn each_wrong_file_gets_the_committed_text_beside_it() {
    let names = wrong_files();
    assert!(names.len() >= 20);
    let mut texts = Vec::new();
    for name in names {
        let outcome = load_from(&Under(HERE), Path::new(&name), &|_| None);
        let text = without_algorithms(render_text(&outcome.diagnostics, false));
        let errors = outcome.diagnostics.iter().filter(|d| d.severity() == Severity::Error).count();
        assert!(!outcome.diagnostics.is_empty(), "{name}: nothing is said");
        assert_eq!(outcome.plan.is_none(), errors > 0, "{name}: a plan if and only if there is no error");
        assert_eq!(to_json(&outcome.diagnostics).as_array().map(Vec::len), Some(outcome.diagnostics.len()));
        texts.push((Path::new("crates/config/tests/wrong").join(&name).with_extension("txt"), text));
    }
    same_as_committed(&texts);
}

/// Replaces lists of algorithms, so that a new one changes no text here.
fn without_algorithms(text: String) -> String {
    type Fits = fn(Needs) -> bool;
    let lists: [(&str, Fits); 3] = [
        ("(every algorithm)", |_| true),
        ("(every algorithm without probes)", |needs| !needs.probes),
        ("(every algorithm that needs no ends)", |needs| !needs.ends),
    ];
    lists.into_iter().fold(text, |text, (instead, fits)| {
        let names: Vec<&str> = algorithms::ALL.iter().filter(|a| fits(a.needs)).map(|a| a.name).collect();
        text.replace(&names.join(", "), instead)
    })
}

#[test]
fn every_code_has_a_wrong_file_or_cannot_have_one() {
    let mut seen = std::collections::BTreeSet::new();
    for name in wrong_files() {
        let outcome = load_from(&Under(HERE), Path::new(&name), &|_| None);
        seen.extend(outcome.diagnostics.iter().map(|d| d.code));
    }
    // No algorithm refuses what its ranges allow, and hash keys and probes need algorithms that may not exist
    // yet. Machines are covered by tests/machine.rs, and the count of hidden findings by tests/secrets.rs.
    let without = [
        "EK0008", "EK0314", "EK0112", "EK0208", "EK0209", "EK0212", "EK0214", "EK0216", "EK0310", "EK0311", "EK0312",
        "EK0315",
    ];
    let missing: Vec<&str> =
        evenkeel_config::Code::ALL.iter().filter(|c| !seen.contains(c)).map(|c| c.as_str()).collect();
    let unexplained: Vec<&&str> = missing.iter().filter(|c| !without.contains(c)).collect();
    assert!(unexplained.is_empty(), "no wrong file shows {unexplained:?}");
}

#[test]
fn a_missing_file_and_a_directory_are_one_error_each() {
    for (name, text) in [("absent.toml", "no such file"), ("more", "directory")] {
        let outcome = load_from(&Under(HERE), Path::new(name), &|_| None);
        let [error] = outcome.diagnostics.as_slice() else { panic!("{:?}", outcome.diagnostics) };
        assert_eq!(error.code.as_str(), "EK0001");
        assert!(error.message.contains(text), "{}", error.message);
        assert!(outcome.plan.is_none());
    }
}

#[test]
fn json_has_every_field_for_each_diagnostic() {
    let outcome = load_from(&Under(HERE), Path::new("unknown_algorithm.toml"), &|_| None);
    let json = to_json(&outcome.diagnostics);
    assert_eq!(json[0]["code"], "EK0102");
    assert_eq!(json[0]["severity"], "error");
    assert_eq!(json[0]["file"], "unknown_algorithm.toml");
    assert_eq!((json[0]["line"].as_u64(), json[0]["col"].as_u64()), (Some(12), Some(11)));
    assert_eq!(json[0]["end"], serde_json::json!({ "line": 12, "col": 25 }));
    assert!(json[0]["help"].as_str().is_some_and(|h| h.contains("round_robin")));
}
