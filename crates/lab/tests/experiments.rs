//! Experiments from end to end: each once, as short as possible, from the command line, with the balancers that this
//! machine has.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const LAB: &str = env!("CARGO_BIN_EXE_evenkeel-lab");

/// Returns the installed ones of `rivals`, as an argument; `None` if evenkeel was not built beside the lab.
fn beside(rivals: &[&str]) -> Option<String> {
    if !Path::new(LAB).with_file_name("evenkeel").is_file() {
        return None;
    }
    let there = |name: &&str| evenkeel_peers::installed(&[*name]);
    Some(rivals.iter().copied().filter(there).collect::<Vec<_>>().join(","))
}

/// Held by the experiment that runs: each loads all cores, and beside another one a proxy may answer nothing in a second.
static RUNNING: Mutex<()> = Mutex::new(());

/// Runs an experiment and returns its JSON report.
fn report(name: &str, arguments: &[&str]) -> Value {
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let mut command = Command::new(LAB);
    command.arg(name).args(arguments).arg("--json").arg(&json);
    let output = command.output().expect("it can be started");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&std::fs::read(&json).expect("it was written")).expect("it is JSON")
}

fn each(report: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let balancers = report["raw"]["rounds"][0]["balancers"].as_array().expect("a list");
    balancers.iter().map(|balancer| (balancer["name"].as_str().expect("a name"), balancer))
}

#[test]
fn failure_breaks_an_endpoint_under_every_balancer_and_draws_it() {
    let Some(rivals) = beside(&["haproxy", "nginx"]) else { return };
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failure.html");
    let page = page.display().to_string();
    let short = ["--quick", "--seconds", "7", "--rate", "100", "--against", &rivals, "--report", &page];
    let report = report("failure", &short);
    let faults = &report["raw"]["rounds"][0]["faults"];
    assert_eq!(faults[0]["name"], "killed", "the fault that the shortest run has");
    let broken = faults[0]["endpoint"].as_u64().expect("a number") as usize - 1;
    let mut requests = Vec::new();
    for (name, balancer) in each(&report) {
        let whole = &balancer["whole"];
        requests.push(whole["requests"].as_u64().expect("a count"));
        // From its death at 2 s to its revival at 4 s nothing reaches it, and every other endpoint gets requests.
        let reached = |second: usize, endpoint: usize| balancer["seconds"][second]["reached"][endpoint].as_u64();
        assert_eq!(reached(3, broken), Some(0), "{name}");
        assert!((0..6).all(|endpoint| endpoint == broken || reached(3, endpoint) > Some(0)), "{name}");
        assert_eq!(whole["seen"]["wrong answer"], Value::Null, "{name} mixed answers up");
        assert_eq!(balancer["posts_done_twice"], 0, "{name}");
        let failed = ["failed_gets", "failed_posts", "failed_calls", "cut_answers"]
            .map(|kind| whole[kind].as_u64().expect("a count"));
        assert!(name != "evenkeel" || failed[0] == 0, "a GET can always be asked again elsewhere: {failed:?}");
        // Without detection, a sixth of the requests would fail for two of seven seconds (5 %).
        assert!(failed.iter().sum::<u64>() < requests[0] / 20, "{name}: {failed:?}");
        assert!(whole["p50_ms"].as_f64() >= Some(8.0), "{name}: an endpoint works at least so long");
    }
    assert!(requests.iter().all(|count| *count == requests[0] && *count > 500), "the same load for each: {requests:?}");
    let page = std::fs::read_to_string(page).expect("it was drawn");
    assert_eq!(page.matches("<svg class=\"panels\"").count(), requests.len());
    assert!(page.contains("svg class=\"flow\"") && page.contains("svg class=\"intervals\""));
}

#[test]
fn reload_counts_what_clients_of_every_kind_meet() {
    let Some(rivals) = beside(&["haproxy", "nginx"]) else { return };
    let report = report("reload", &["--quick", "--reloads", "3", "--against", &rivals]);
    for (name, balancer) in each(&report) {
        assert_eq!(balancer["took_effect_ms"].as_array().map(Vec::len), Some(3), "{name}");
        for (kind, count) in balancer["reloads"].as_object().expect("a row for each kind") {
            // Builds of rivals may lack HTTP/3.
            let may_lack = name != "evenkeel" && kind.contains("HTTP/3");
            assert!(may_lack || count["done"].as_u64() > Some(0), "{name}: {kind}");
            let failed = &count["failed"];
            assert!(name != "evenkeel" || *failed == Value::Object(serde_json::Map::new()), "{kind}: {failed}");
        }
        let streams = &balancer["reloads"]["texts over WebSocket"]["failed"];
        assert_eq!(streams, &Value::Object(serde_json::Map::new()), "{name} drops streams");
        for (kind, count) in balancer["upgrade"].as_object().into_iter().flatten() {
            let may_lack = name != "evenkeel" && kind.contains("HTTP/3");
            assert!(may_lack || count["done"].as_u64() > Some(0), "{name}, a new binary: {kind}");
            let failed = &count["failed"];
            assert!(
                may_lack || *failed == Value::Object(serde_json::Map::new()),
                "{name}, a new binary: {kind}: {failed}"
            );
        }
    }
}

/// Attacks end or stay bounded, are counted, and leave the worker alive: the experiment sends a request after each.
#[test]
fn floods_end_or_stay_small_and_are_counted() {
    if !Path::new(LAB).with_file_name("evenkeel").is_file() || !evenkeel_peers::installed(&["nginx", "openssl"]) {
        return;
    }
    let report = report("floods", &["--repeat", "1", "--seconds", "1", "--connections", "2"]);
    let attacks = report["raw"]["cases"].as_array().expect("a list");
    assert!(attacks.len() >= 14, "{report:#}");
    for attack in attacks {
        let name = attack["name"].as_str().expect("a name");
        let run = &attack["proxies"]["evenkeel"]["runs"][0];
        let met = &run["beside"];
        assert!(met["opened"].as_f64() > Some(0.0), "{name}\n{attack:#}");
        assert!(met["counted"].as_f64() > Some(0.0), "{name} is not counted\n{attack:#}");
        // A flood must end with its connection; an attacker that only stays connected is bounded by its windows.
        if run["more"]["floods"] == Value::Bool(true) {
            assert!(met["ended"].as_f64() > Some(0.0), "{name} goes on\n{attack:#}");
        }
        let kib = met["KiB/connection"].as_f64().expect("a number");
        assert!(kib < 20_000.0, "{name} takes {kib} KiB for each connection\n{attack:#}");
    }
}

/// Runs these cases as short as possible, checks that each has a figure for every proxy, and returns the report.
fn figures(experiment: &str, cases: &[&str], against: &[&str]) -> Option<Value> {
    if !Path::new(LAB).with_file_name("evenkeel").is_file() {
        evenkeel_peers::skip("there is no evenkeel beside the lab");
        return None;
    }
    // The proxy needs a core of its own, apart from the load.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        evenkeel_peers::skip("it takes two cores");
        return None;
    }
    let (only, named) = (cases.join(","), against.join(","));
    let report = report(experiment, &["--only", &only, "--against", &named, "--repeat", "1", "--seconds", "1"]);
    for (case, name) in cases.iter().enumerate() {
        let case = &report["raw"]["cases"][case];
        assert_eq!(case["name"], *name);
        for proxy in against.iter().chain(&["evenkeel"]) {
            assert!(case["proxies"][proxy]["figure"]["median"].as_f64() > Some(0.0), "{proxy}: {case:#}");
        }
    }
    Some(report)
}

#[test]
fn whatif_is_judged_by_cases_and_breakers() {
    if beside(&[]).is_none() {
        return;
    }
    let report = report("whatif", &["--quick", "--only", "equal-030,lognormal,live-060,clock-back"]);
    let (cases, breakers) = (&report["raw"]["cases"], &report["raw"]["breakers"]);
    assert_eq!((cases[0]["name"].as_str(), cases[1]["name"].as_str()), (Some("equal-030"), Some("lognormal")));
    for case in cases.as_array().expect("a list") {
        let truth = case["truth"].as_array().expect("a list");
        assert_eq!((truth.len(), &case["seeds"]), (4, &4.into()), "{case:#}");
        assert!(truth.iter().all(|of| of["latency_ms"][2]["value"].as_f64() > Some(30.0)), "{case:#}");
    }
    assert_eq!((&breakers[0]["name"], breakers.as_array().map(Vec::len)), (&"clock-back".into(), Some(1)));
    assert!(report["raw"]["scores"]["refused"].is_number());
    // A round of each policy in front of endpoints that work for 16 ms.
    let live = &report["raw"]["live"][0];
    assert_eq!((&live["name"], &live["seeds"]), (&"live-060".into(), &1.into()));
    let measured = live["truth"].as_array().expect("a list").iter();
    assert!(measured.map(|of| of["latency_ms"][2]["value"].as_f64()).all(|p99| p99 > Some(16.0)), "{live:#}");
}

#[test]
fn h2_cost_measures_streams_calls_and_idle_connections() {
    if evenkeel_peers::installed(&["haproxy", "nginx", "h2load", "curl", "openssl"]) {
        let cases = ["h2c-16x32", "h2-tls-16x32", "grpc-unary", "idle-h2"];
        let Some(report) = figures("h2-cost", &cases, &["haproxy", "nginx"]) else { return };
        assert_eq!(report["findings"][0]["verdict"], "not shown", "one round says nothing about chance");
    }
}

#[test]
fn tls_cost_measures_both_kinds_of_handshakes_and_idle_connections() {
    if evenkeel_peers::installed(&["haproxy", "nginx", "wrk", "curl", "openssl"]) {
        // Sessions of the wrong kind give no figure, so a figure shows that they were right.
        figures("tls-cost", &["full-rsa", "full-p256-tls12", "resumed", "https-1k", "idle-tls"], &["haproxy", "nginx"]);
    }
}
