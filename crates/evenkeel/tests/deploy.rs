//! Do the alerts and the dashboard of `deploy` name metrics that there are?

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Words that begin as metrics do, without what a histogram adds.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("evenkeel_") || word.starts_with("process_"));
    metrics.map(|word| word.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn names_metrics_that_there_are() {
    let known = metrics(&file("docs/reference/metrics.md"));
    for path in ["deploy/prometheus/alerts.yaml", "deploy/prometheus/alerts_test.yaml", "deploy/grafana/evenkeel.json"]
    {
        let unknown: Vec<_> = metrics(&file(path)).into_iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}

#[test]
fn each_panel_of_the_dashboard_asks_for_something() {
    let dashboard: Value = serde_json::from_str(&file("deploy/grafana/evenkeel.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let (rows, panels): (Vec<_>, Vec<_>) = panels.iter().partition(|panel| panel["type"] == "row");
    assert!(rows.len() > 3 && panels.len() > 15, "{} rows, {} panels", rows.len(), panels.len());
    for panel in panels {
        let targets = panel["targets"].as_array().expect("a list");
        assert!(!targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()), "{panel}");
    }
}
