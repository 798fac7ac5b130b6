//! Files that are deployed beside the program: the alerts and the dashboard of `deploy` name metrics that exist, evenkeel works
//! under the restrictions of the service unit, and manifests of Kubernetes are good configurations and fit together. Those of an API
//! server and of Helm are in `tests/kubernetes`.

use crate::support::{Endpoint, Folder, Running, address, evenkeel, eventually, get, text};
use evenkeel_cluster::objects::manifest;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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

const MANIFESTS: [&str; 6] =
    ["kubernetes.yaml", "ingress.yaml", "gateway.yaml", "gateway-daemonset.yaml", "sidecar.yaml", "node-local.yaml"];

fn deployed(name: &str) -> Vec<Value> {
    manifest(&file(&format!("deploy/{name}")))
}

/// Returns the configurations of a manifest.
fn configurations(objects: &[Value]) -> Vec<&str> {
    objects.iter().filter_map(|object| object["data"]["evenkeel.toml"].as_str()).collect()
}

/// Returns the templates of pods of a manifest.
fn pods(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects.iter().map(|object| &object["spec"]["template"]["spec"]).filter(|spec| spec.is_object())
}

/// Returns the containers of a pod that have the image of evenkeel.
fn containers(pod: &Value) -> Vec<&Value> {
    let all = ["initContainers", "containers"].into_iter().filter_map(|key| pod[key].as_array()).flatten();
    all.filter(|container| container["image"].as_str().is_some_and(|image| image.starts_with("evenkeel:"))).collect()
}

#[test]
fn configurations_of_manifests_pass_the_check() {
    let folder = Folder::new("manifests");
    for name in MANIFESTS {
        let objects = deployed(name);
        let configurations = configurations(&objects);
        assert_eq!(configurations.len(), 1, "{name}");
        let path = folder.file("evenkeel.toml", configurations[0]);
        let done = evenkeel(&["check", "-c", &path]);
        assert_eq!(done.status.code(), Some(0), "{name}: {}", text(&done.stderr));
        assert_eq!(text(&done.stderr), "", "{name}");
    }
}

#[test]
fn pods_of_manifests_have_few_rights_and_time_to_end() {
    for name in MANIFESTS {
        let objects = deployed(name);
        let plan = evenkeel_config::parse_str(name, configurations(&objects)[0], &|_| None).plan.expect("a good plan");
        let end = plan.runtime.shutdown_delay + plan.runtime.drain_timeout;
        for pod in pods(&objects) {
            assert!(pod["terminationGracePeriodSeconds"].as_u64().expect("a number") > end.as_secs(), "{name}");
            let containers = containers(pod);
            assert_eq!(containers.len(), 1, "{name}");
            let (container, context) = (containers[0], &containers[0]["securityContext"]);
            assert_eq!(container["image"], format!("evenkeel:{}", env!("CARGO_PKG_VERSION")), "{name}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{name}");
            let is_root_allowed = pod["hostNetwork"] == true;
            let refuses_root = pod["securityContext"]["runAsNonRoot"] == true || context["runAsNonRoot"] == true;
            assert_ne!(is_root_allowed, refuses_root, "{name}");
        }
    }
}

/// Returns objects by kind and name, without the namespace that a chart does not create.
fn by_name(objects: Vec<Value>) -> BTreeMap<(String, String), Value> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let named = objects.into_iter().map(|object| ((text(&object["kind"]), text(&object["metadata"]["name"])), object));
    named.filter(|((kind, _), _)| kind != "Namespace").collect()
}

#[test]
fn both_manifests_of_gateways_have_the_same_rights_and_classes() {
    let [mut deployment, mut daemonset] =
        ["gateway.yaml", "gateway-daemonset.yaml"].map(|name| by_name(deployed(name)));
    for objects in [&mut deployment, &mut daemonset] {
        let differ = ["ConfigMap", "DaemonSet", "Deployment", "PodDisruptionBudget", "Service"];
        objects.retain(|(kind, _), _| !differ.contains(&kind.as_str()));
    }
    assert_eq!(deployment, daemonset);
    assert_eq!(deployment.len(), 7);
}

/// A release sets it there, too.
#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = file("deploy/helm/evenkeel/Chart.yaml");
    for key in ["version", "appVersion"] {
        let line = format!("{key}: {}", env!("CARGO_PKG_VERSION"));
        assert!(chart.lines().any(|other| other == line), "{line}: {chart}");
    }
}
