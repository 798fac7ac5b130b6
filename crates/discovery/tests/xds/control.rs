//! A control plane of its own for each test: go-control-plane, in `server/main.go`, which is told over its standard input
//! what to serve, and reports the requests of clients.
// Each of the binaries that have it uses a part.
#![allow(dead_code)]

use evenkeel_peers::{find, own_addr};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const PROGRAM: &str = "evenkeel-xds-server";

/// Server that runs until it is killed or dropped.
pub struct Control {
    pub addr: SocketAddr,
    args: Vec<String>,
    child: Option<Child>,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Control {
    /// Server that does not run yet. `cache` is `snapshot` or `linear`; `files` are those of a certificate and its key.
    pub fn new(cache: &str, files: &[String]) -> Control {
        let args = [&[cache.to_owned()], files].concat();
        Control { addr: own_addr(), args, child: None, lines: Arc::default() }
    }

    pub fn started(cache: &str) -> Control {
        let mut control = Control::new(cache, &[]);
        control.start();
        control
    }

    /// Runs a server without endpoints.
    pub fn start(&mut self) {
        self.lines.lock().expect("no panic").clear();
        let mut server = Command::new(find(PROGRAM).expect("scripts/setup.sh xds builds it"));
        server.arg(self.addr.to_string()).args(&self.args);
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let (output, lines) = (child.stdout.take().expect("it is a pipe"), self.lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                lines.lock().expect("no panic").push(serde_json::from_str(&line).expect("JSON"));
            }
        });
        self.child = Some(child);
        self.wait(|line| line["ready"] == true);
    }

    /// Ends the server without warning.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Sets the assignments, instead of those before.
    pub fn set(&mut self, version: &str, assignments: &[Value]) {
        self.command(version, &json!({ "version": version, "resources": assignments }));
    }

    /// Sets resources of all types that a command names, such as `{ "listeners": [...] }`.
    pub fn serve(&mut self, version: &str, resources: &Value) {
        let mut command = resources.clone();
        command["version"] = json!(version);
        self.command(version, &command);
    }

    /// Sets one assignment of a linear cache.
    pub fn upsert(&mut self, version: &str, assignment: &Value) {
        self.command(version, &json!({ "version": version, "upsert": [assignment] }));
    }

    /// Removes an assignment of a linear cache.
    pub fn remove(&mut self, version: &str, cluster: &str) {
        self.command(version, &json!({ "version": version, "remove": [cluster] }));
    }

    fn command(&mut self, version: &str, command: &Value) {
        let input = self.child.as_mut().and_then(|child| child.stdin.as_mut()).expect("it runs");
        writeln!(input, "{command}").expect("it reads");
        self.wait(|line| line["applied"] == version);
    }

    /// Requests of clients since the server was started, with what happened to their streams.
    pub fn lines(&self) -> Vec<Value> {
        self.lines.lock().expect("no panic").clone()
    }

    /// Returns the latest line that fits, and waits until there is one, for at most a minute.
    pub fn wait(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(line) = self.lines().iter().rev().find(|line| is_it(line)) {
                return line.clone();
            }
            assert!(Instant::now() < until, "{:#?}", self.lines());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Does what [`wait`](Self::wait) does, while sources run.
    pub async fn sees(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(line) = self.lines().iter().rev().find(|line| is_it(line)) {
                return line.clone();
            }
            assert!(Instant::now() < until, "{:#?}", self.lines());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Assignment of addresses with port 80, in one locality.
pub fn assignment(cluster: &str, hosts: &[&str]) -> Value {
    let endpoints: Vec<Value> = hosts.iter().map(|host| endpoint(host, 80)).collect();
    json!({ "clusterName": cluster, "endpoints": [{ "lbEndpoints": endpoints }] })
}

pub fn endpoint(host: &str, port: u64) -> Value {
    json!({ "endpoint": { "address": { "socketAddress": { "address": host, "portValue": port } } } })
}
