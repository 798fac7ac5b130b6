//! The demo: every algorithm that it can run, with shares that add up, and a dashboard that shows its traffic.

use crate::support::{Running, evenkeel, eventually, get, text};

const REQUESTS: u64 = 60;

#[test]
fn every_algorithm_is_shown_with_all_its_requests() {
    let output = evenkeel(&["demo", "--once", "--json", "--requests", &REQUESTS.to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trials = found["algorithms"].as_array().expect("an array");
    let names: Vec<&str> = trials.iter().filter_map(|t| t["name"].as_str()).collect();
    let runnable = evenkeel_balance::algorithms::ALL.iter().filter(|a| !a.needs.probes);
    assert_eq!(names, runnable.map(|a| a.name).collect::<Vec<_>>());
    for trial in trials {
        assert_eq!((&trial["errors"], &trial["requests"]), (&0.into(), &REQUESTS.into()), "{trial}");
        let shares: Vec<f64> =
            trial["shares"].as_array().expect("an array").iter().filter_map(serde_json::Value::as_f64).collect();
        assert_eq!(shares.len(), 10, "{trial}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{trial}");
        assert!(trial["p50_ms"].is_number() && trial["p999_ms"].is_null(), "{trial}");
    }
    let share = |name: &str, i: usize| {
        let trial = trials.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name} is not there"));
        trial["shares"][i].as_f64().expect("a number")
    };
    // 60 requests are six rounds of ten, or with many workers parts of rounds that each begins somewhere else: then each
    // share is binomial with mean 6 and deviation 2.3, and 21 is six deviations away.
    assert!((0..10).all(|i| share("round_robin", i) < 0.35), "{found}");
    assert_eq!(share("first", 0), 1.0, "nothing limits the first endpoint");
}

#[test]
fn an_endpoint_that_dies_costs_no_request_and_comes_back() {
    let output = evenkeel(&["demo", "--once", "--json", "--requests", "50"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let outage = &found["outage"];
    assert_eq!(outage["failed"], 0, "{outage}");
    assert!(outage["retries"].as_u64() > Some(0), "requests were under way when it died: {outage}");
    assert!(outage["out_after_s"].is_number() && outage["back_after_s"].is_number(), "{outage}");
}

#[test]
fn the_last_screen_fits_a_terminal_of_80_columns_and_24_rows() {
    let output = evenkeel(&["demo", "--once", "--requests", "300"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(out.lines().all(|line| line.chars().count() <= 80) && out.lines().count() <= 24, "{out}");
    assert!(err.contains("300 requests in "), "{err}");
}

#[test]
fn details_have_the_table_and_its_reading() {
    let output = evenkeel(&["demo", "--once", "--details", "--requests", "50"]);
    let out = text(&output.stdout);
    assert!(out.contains("1000 ms\nrandom ") && out.contains("What it does not show."), "{out}");
}

#[test]
fn the_dashboard_of_the_demo_shows_its_traffic() {
    let running = Running::start(&["demo", "--requests", "50"]);
    let printed = running.said();
    let line = printed.lines().find(|line| line.contains("dashboard")).expect("it has a dashboard");
    let admin = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let has = |path: &'static str, words: &'static str| {
        eventually(words, || get(&admin, path).ok()?.1.contains(words).then_some(()));
    };
    // All that it needs to have something on every page: rates, picks, and what other algorithms would do.
    has("/ui", "aria-label=\"Shares of 10 endpoints");
    has("/ui/flow", "class=\"flow-fine\"");
    has("/ui/explain", "href=\"/ui/explain/");
    has("/ui/shadows", "Share predicted");
}
