//! Configurations that are recommended for what a log lacks: the programs accept them.

use evenkeel_logs::coverage::{Coverage, Need};
use evenkeel_logs::lacks::lacks;
use evenkeel_logs::{Format, Request};
use evenkeel_peers::{find, installed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Recommendation for logs of this format without endpoints.
fn remedy(format: &str) -> &'static str {
    let mut coverage = Coverage::default();
    coverage.add(&Request::default());
    let lacks = lacks(Format::named(format).expect("a row").row, &coverage);
    lacks.iter().find(|lack| lack.need == Need::Endpoint).and_then(|lack| lack.add).expect("it can be added")
}

/// Folder of a test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("evenkeel-logs-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the folder is new");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Asserts that a program accepts a configuration.
fn accepts(program: &str, before: &[&str], path: &Path) {
    let found = find(program).expect("it is installed");
    let output = Command::new(found).args(before).arg(path).output().expect("it starts");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nginx_accepts_its_log_format() {
    if !installed(&["nginx"]) {
        return;
    }
    let folder = Folder::new("nginx");
    let remedy = remedy("combined").replace("/var/log/nginx", &folder.0.display().to_string());
    let (pid, error) = (folder.0.join("pid"), folder.0.join("error.log"));
    let text = format!("pid {};\nerror_log {};\nevents {{}}\nhttp {{\n{remedy}\n}}\n", pid.display(), error.display());
    let path = folder.write("nginx.conf", &text);
    accepts("nginx", &["-t", "-c"], &path);
}

#[test]
fn haproxy_accepts_its_option() {
    if !installed(&["haproxy"]) {
        return;
    }
    let timeouts = "timeout client 1s\n timeout server 1s\n timeout connect 1s";
    let text = format!(
        "defaults\n mode http\n log stdout format raw local0\n {timeouts}\n {}\nfrontend a\n bind 127.0.0.1:4711\n",
        remedy("tcplog")
    );
    let folder = Folder::new("haproxy");
    accepts("haproxy", &["-c", "-f"], &folder.write("haproxy.cfg", &text));
}

#[test]
fn envoy_accepts_its_log_format() {
    if !installed(&["envoy"]) {
        return;
    }
    let text = format!(
        "static_resources:\n  listeners:\n  - name: a\n    address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}\n    \
         filter_chains:\n    - filters:\n      - name: m\n        typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n          \
         stat_prefix: a\n          route_config: {{}}\n          http_filters:\n          - name: r\n            \
         typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}\n          \
         access_log:\n          - name: l\n            typed_config:\n              \
         \"@type\": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog\n              {}\n",
        remedy("envoy")
    );
    let folder = Folder::new("envoy");
    accepts("envoy", &["--mode", "validate", "-c"], &folder.write("envoy.yaml", &text));
}
