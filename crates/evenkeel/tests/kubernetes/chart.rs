//! The Helm chart: by default it gives what the manifests of `deploy` have.

use crate::manifests::deployed;
use evenkeel_cluster::objects::manifest;
use evenkeel_peers::{find, installed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Objects by kind and name.
type Objects = BTreeMap<(String, String), Value>;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/evenkeel")
}

/// Runs a command of Helm on the chart: `words` before its path, `options` after it.
fn helm(words: &[&str], options: &[&str]) -> Output {
    let mut command = Command::new(find("helm").expect("it is installed"));
    command.args(words).arg(chart()).args(options).output().expect("it is installed")
}

/// Returns what the chart gives with these values.
fn rendered(values: &[&str]) -> Result<Objects, String> {
    let options: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
    let done = helm(&["template", "evenkeel", "--namespace", "evenkeel"], &options);
    let [output, error] = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if done.status.success() { Ok(by_name(manifest(&output))) } else { Err(error) }
}

/// Returns objects by kind and name, without comments in configurations, and without the namespace: a chart does not create it.
fn by_name(objects: Vec<Value>) -> Objects {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut named: Objects = objects
        .into_iter()
        .map(|object| ((text(&object["kind"]), text(&object["metadata"]["name"])), object))
        .collect();
    named.retain(|(kind, _), _| kind != "Namespace");
    for object in named.values_mut() {
        if let Some(configuration) = object["data"]["evenkeel.toml"].as_str() {
            let lines = configuration.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
            object["data"]["evenkeel.toml"] = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().into();
        }
    }
    named
}

#[test]
#[ignore = "needs Helm: make test-kubernetes"]
fn the_chart_gives_what_the_manifests_have() {
    if !installed(&["helm"]) {
        return;
    }
    let of_nodes = &["kind=DaemonSet", "hostNetwork=true"];
    for (name, values) in [("gateway.yaml", &[][..]), ("gateway-daemonset.yaml", of_nodes)] {
        let (chart, manifest) = (rendered(values).expect("a good chart"), by_name(deployed(name)));
        assert_eq!(chart.keys().collect::<Vec<_>>(), manifest.keys().collect::<Vec<_>>(), "{name}");
        for (key, object) in manifest {
            assert_eq!(chart[&key], object, "{name}");
        }
    }
}

#[test]
#[ignore = "needs Helm: make test-kubernetes"]
fn values_of_the_chart_have_an_effect() {
    if !installed(&["helm"]) {
        return;
    }
    let objects = rendered(&[
        "gateways=false",
        "controller=example.com/other",
        "ingressClass=other",
        "publish={192.0.2.10,front.example}",
        "service.type=NodePort",
        "image.repository=registry.example/evenkeel",
        "image.tag=2.0.0",
        "replicas=1",
        "config=[telemetry]\naccess_log = true",
    ]);
    let objects = objects.expect("good values");
    let kinds: Vec<&str> = objects.keys().map(|(kind, _)| kind.as_str()).collect();
    assert!(!kinds.contains(&"GatewayClass") && !kinds.contains(&"PodDisruptionBudget"), "{kinds:?}");
    let named = |kind: &str, name: &str| &objects[&(kind.to_owned(), name.to_owned())];
    assert_eq!(named("IngressClass", "other")["spec"]["controller"], "example.com/other");
    assert_eq!(named("Service", "evenkeel")["spec"]["type"], "NodePort");
    let rules = named("ClusterRole", "evenkeel")["rules"].to_string();
    assert!(rules.contains("ingresses") && !rules.contains("gateways"), "{rules}");
    let pod = &named("Deployment", "evenkeel")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "registry.example/evenkeel:2.0.0");
    let lines = named("ConfigMap", "evenkeel")["data"]["evenkeel.toml"].as_array().expect("lines");
    let from = lines.iter().position(|line| line == "[provider.kubernetes]").expect("the table");
    let provider = [
        "gateways = false",
        "controller = \"example.com/other\"",
        "ingress_class = \"other\"",
        "publish = [\"192.0.2.10\",\"front.example\"]",
        "[admin]",
    ];
    assert_eq!(Value::from(&lines[from + 1..=from + provider.len()]), json!(provider));
    assert_eq!(lines.last(), Some(&json!("access_log = true")));
    assert!(rendered(&["kind=StatefulSet"]).is_err_and(|error| error.contains("kind")));
}

#[test]
#[ignore = "needs Helm: make test-kubernetes"]
fn helm_finds_no_fault_in_the_chart() {
    if !installed(&["helm"]) {
        return;
    }
    let done = helm(&["lint", "--strict"], &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}
