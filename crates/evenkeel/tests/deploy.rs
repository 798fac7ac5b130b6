//! Files that are deployed beside the program: the alerts and the dashboard of `deploy` name metrics that exist, and evenkeel works
//! under the restrictions of the service unit.

use crate::support::{Endpoint, Folder, Running, address, evenkeel, eventually, get, text};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

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

const UNIT: &str = "packaging/evenkeel.service";

/// System calls of a set of systemd, as `@system-service`, and of those in it.
fn system_calls(set: &str) -> BTreeSet<String> {
    let listed = Command::new("systemd-analyze").args(["syscall-filter", set]).output().expect("it is installed");
    assert!(listed.status.success(), "{set}: {}", text(&listed.stderr));
    let listed = text(&listed.stdout);
    let names = listed.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.flat_map(|name| if name.starts_with('@') { system_calls(name) } else { [name.to_owned()].into() }).collect()
}

/// System calls that `SystemCallFilter=` of the unit lets pass.
fn allowed() -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for line in file(UNIT).lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (out, sets) = line.strip_prefix('~').map_or((false, line), |sets| (true, sets));
        for set in sets.split_whitespace() {
            let calls = system_calls(set);
            if out { allowed.retain(|call| !calls.contains(call)) } else { allowed.extend(calls) }
        }
    }
    allowed
}

#[test]
fn the_unit_leaves_little_to_a_process_that_was_taken_over() {
    if !evenkeel_peers::installed(&["systemd-analyze"]) {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(UNIT);
    let rated = Command::new("systemd-analyze").args(["security", "--offline=true"]).arg(path).output();
    let rated = text(&rated.expect("it is installed").stdout);
    let exposure =
        rated.lines().last().and_then(|line| line.split(": ").nth(1)?.split(' ').next()?.parse::<f64>().ok());
    let exposure = exposure.unwrap_or_else(|| panic!("no rating: {rated}"));
    // What remains is what a load balancer needs: sockets, the host's network, and a capability for low ports.
    assert!(exposure < 2.0, "{exposure}\n{rated}");
    assert!(file(UNIT).lines().any(|line| line == "UMask=0077"));
}

/// Runs it with all that a service does: it serves, writes logs and state, reloads, reopens, saves, and hands over to a process
/// that it starts. Each system call has to be one that the unit lets pass.
#[test]
fn every_system_call_is_one_that_the_unit_allows() {
    if !evenkeel_peers::installed(&["strace", "systemd-analyze"]) {
        return;
    }
    let (folder, endpoint, listen) = (Folder::new("deploy"), Endpoint::start("one"), address());
    let path = |name: &str| folder.0.join(name).display().to_string();
    let config = format!(
        "[runtime]\nstate = '{}'\n[telemetry]\naccess_log = {{ path = '{}' }}\n[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{}' }}\n\
         [listener.web]\nbind = ['{listen}']\n[listener.tcp]\nbind = ['{}']\nmode = 'tcp'\npool = 'web'\n\
         [listener.udp]\nbind = ['{}']\nmode = 'udp'\npool = 'web'\n[pool.web]\nendpoints = ['{}']\nhealth = {{ tcp = {{}} }}\n",
        path("orders.json"),
        path("access.log"),
        path("admin.sock"),
        address(),
        address(),
        address(),
        endpoint.addr
    );
    let config = folder.file("evenkeel.toml", &config);
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-qq",
        "--signal=none",
        "-e",
        "abbrev=all",
        "-o",
        &path("strace"),
        env!("CARGO_BIN_EXE_evenkeel"),
    ]);
    command.args(["run", "-c", &config]);
    let mut running = Running::from(command);
    let ask = |words: &[&str]| {
        let done = evenkeel(&[words, &["-c", &config]].concat());
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let served = || assert_eq!(get(&listen, "/").expect("an answer"), (200, "one".to_owned()));
    served();
    ask(&["weight", "web", &endpoint.addr, "5"]);
    for words in [["reload"], ["reopen"]] {
        ask(&words);
        served();
    }
    ask(&["config", "save"]);
    ask(&["upgrade"]);
    served();
    let status: Value = serde_json::from_str(&ask(&["status", "--json"])).expect("JSON");
    let successor = Pid::from_raw(status["pid"].as_i64().expect("a number") as i32).expect("a process");
    kill_process(successor, Signal::TERM).expect("it runs");
    eventually("its end", || test_kill_process(successor).is_err().then_some(()));
    running.ends();
    let traced = std::fs::read_to_string(path("strace")).expect("strace wrote it");
    let calls =
        traced.lines().filter_map(|line| line.split_once(' ')?.1.trim_start().split_once('(').map(|(call, _)| call));
    let is_call = |call: &&str| call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let calls: BTreeSet<String> = calls.filter(is_call).map(str::to_owned).collect();
    assert!(calls.contains("epoll_wait") && calls.contains("execve") && calls.len() > 30, "{calls:?}");
    let allowed = allowed();
    let refused: Vec<_> = calls.difference(&allowed).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
