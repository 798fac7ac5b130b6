//! Traffic from a control plane alone: the file names it and nothing else. Run by `make test-xds`, beside go-control-plane.

#[path = "../../../discovery/tests/xds/control.rs"]
mod control;
#[path = "../../../discovery/tests/xds/resources.rs"]
mod resources;

use crate::support::streams::{Load, Streaming};
use crate::support::{Adopted, Endpoint, Folder, Running, address, eventually, get};
use control::{Control, PROGRAM};
use evenkeel_peers::installed;
use resources::{assigned, cluster, endpoint, listener, routes, to};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::atomic::Ordering::SeqCst;

struct Setup {
    folder: Folder,
    listen: String,
    admin: String,
}

impl Setup {
    fn new(name: &str) -> Setup {
        Setup { folder: Folder::new(&format!("xds-{name}")), listen: address(), admin: address() }
    }

    fn write(&self, control: &Control, delta: bool) -> String {
        let file = format!(
            "[admin]\nhttp = {{ bind = '{}' }}\n[discovery.xds]\nurl = 'http://{}'\nping_after = '1s'\n\
             [provider.xds]\ndelta = {delta}\n",
            self.admin, control.addr
        );
        self.folder.file("evenkeel.toml", &file)
    }

    /// A cluster whose endpoint is assigned, behind the listener.
    fn state(&self, name: &str, addr: &str) -> Value {
        json!({
            "clusters": [assigned(name)],
            "resources": [{ "clusterName": name, "endpoints": [{ "lbEndpoints": [endpoint(addr)] }] }],
            "listeners": [listener("main", &self.listen, "main")],
            "routes": [routes("main", &["*"], &[to("/", name)])],
        })
    }

    #[track_caller]
    fn answers(&self, path: &str, wanted: (u16, &str)) {
        eventually(&format!("{path}: {wanted:?}"), || {
            let answer = get(&self.listen, path).ok()?;
            ((answer.0, answer.1.trim()) == wanted).then_some(())
        });
    }
}

#[test]
#[ignore = "make test-xds"]
fn a_file_that_names_a_control_plane_serves_what_that_has() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for delta in [false, true] {
        let (a, b) = (Endpoint::start("a"), Endpoint::start("b"));
        let (setup, mut control) = (Setup::new("alone"), Control::started("snapshot"));
        let running = Running::start(&["run", "-c", &setup.write(&control, delta)]);
        control.serve("1", &setup.state("web", &a.addr));
        setup.answers("/", (200, "a"));
        let mut state = setup.state("web", &a.addr);
        state["clusters"].as_array_mut().expect("a list").push(cluster("b|80", &[&b.addr]));
        let answer = json!({ "match": { "path": "/x" }, "directResponse": { "status": 418, "body": { "inlineString": "tea" } } });
        let redirect = json!({ "match": { "prefix": "/old" }, "redirect": { "pathRedirect": "/new" } });
        state["routes"] = json!([routes("main", &["*"], &[answer, redirect, to("/b/", "b|80"), to("/", "web")])]);
        control.serve("2", &state);
        setup.answers("/b/x", (200, "b"));
        setup.answers("/x", (418, "tea"));
        assert_eq!(get(&setup.listen, "/old").map(|(status, _)| status).ok(), Some(301));
        setup.answers("/", (200, "a"));
        drop(running);
    }
}

#[test]
#[ignore = "make test-xds"]
fn no_request_fails_whatever_becomes_of_the_control_plane() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for (cache, delta) in [("snapshot", false), ("linear", true), ("linear", false)] {
        let [a, b] = [Streaming::start(), Streaming::start()];
        let (setup, mut control) = (Setup::new("load"), Control::started(cache));
        control.serve("7", &setup.state("web", &a.addr));
        let running = Running::start(&["run", "-c", &setup.write(&control, delta)]);
        eventually("the plan", || get(&setup.listen, "/").ok().filter(|(status, _)| *status == 200));
        let load = Load::start(&setup.listen);
        let served = |addr: &str| {
            let metrics = get(&setup.admin, "/metrics").map(|(_, body)| body).unwrap_or_default();
            let of = format!("endpoint=\"{addr}\"");
            metrics.lines().any(|line| line.starts_with("evenkeel_upstream_requests_total{") && line.contains(&of))
        };
        eventually("the first endpoint", || served(&a.addr).then_some(()));
        // Killed, then back with an empty cache, then with lower versions and another cluster.
        control.kill();
        control.start();
        control.wait(|line| line["type"].as_str().is_some_and(|of| of.ends_with("Listener")));
        control.serve("1", &setup.state("other", &b.addr));
        eventually("the other cluster", || served(&b.addr).then_some(()));
        control.signal("STOP");
        let passed = load.passed.load(SeqCst);
        eventually("requests meanwhile", || (load.passed.load(SeqCst) > passed + 200).then_some(()));
        control.signal("CONT");
        let failed = load.end();
        assert!(failed.is_empty(), "{cache}: {failed:?}\n{}", running.said());
    }
}

#[test]
#[ignore = "make test-xds"]
fn a_process_that_takes_over_without_a_control_plane_serves_what_the_one_before_had() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for delta in [false, true] {
        let streaming = Streaming::start();
        let (setup, mut control) = (Setup::new("upgrade"), Control::started("snapshot"));
        control.serve("1", &setup.state("web", &streaming.addr));
        let running = Running::start(&["run", "-c", &setup.write(&control, delta)]);
        eventually("the plan", || get(&setup.listen, "/").ok().filter(|(status, _)| *status == 200));
        let load = Load::start(&setup.listen);
        control.kill();
        running.signal(Signal::USR2);
        let _successor = Adopted(eventually("the other process", || running.successor()));
        eventually("a takeover", || running.said().contains("the new process serves").then_some(()));
        let passed = load.passed.load(SeqCst);
        eventually("requests afterwards", || (load.passed.load(SeqCst) > passed + 200).then_some(()));
        let failed = load.end();
        assert!(failed.is_empty(), "delta = {delta}: {failed:?}\n{}", running.said());
    }
}

#[test]
#[ignore = "make test-xds"]
fn a_listener_whose_port_is_taken_stays_where_it_was_until_the_port_is_free() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let endpoint = Endpoint::start("a");
    let (setup, mut control) = (Setup::new("taken"), Control::started("snapshot"));
    let _running = Running::start(&["run", "-c", &setup.write(&control, false)]);
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = other.local_addr().expect("an address").to_string();
    control.serve("1", &setup.state("web", &endpoint.addr));
    setup.answers("/", (200, "a"));
    let mut state = setup.state("web", &endpoint.addr);
    state["listeners"] = json!([listener("main", &taken, "main")]);
    control.serve("2", &state);
    let status = || get(&setup.admin, "/v1/status").map(|(_, body)| body).unwrap_or_default();
    eventually("a fault in the status", || status().contains("another process listens there").then_some(()));
    assert_eq!(get(&setup.listen, "/").expect("an answer").0, 200);
    drop(other);
    eventually("an answer at the other port", || get(&taken, "/").ok().filter(|(status, _)| *status == 200));
    eventually("no fault", || (!status().contains("another process")).then_some(()));
    eventually("nothing at the port before", || get(&setup.listen, "/").err());
}
