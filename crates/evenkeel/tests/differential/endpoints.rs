//! Real servers as endpoints: each answers with the method and the target that it saw, and writes down each request.

use crate::support::{Folder, address, eventually};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential");

/// A running server. Killed when dropped.
pub struct Endpoint {
    pub name: &'static str,
    /// Its program and version, as it tells them.
    pub version: String,
    pub addr: String,
    log: PathBuf,
    process: Child,
}

/// Starts an endpoint of each kind.
pub fn all(folder: &Folder) -> Vec<Endpoint> {
    let start = |name, version: String, addr: String, command: &mut Command, log: PathBuf| {
        let out = File::create(folder.0.join(format!("{name}.out"))).expect("a file of ours");
        let process = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn();
        let process = process.unwrap_or_else(|e| panic!("{name}: {e}; `make setup` installs what the tests need"));
        eventually(name, || TcpStream::connect(&addr).ok());
        Endpoint { name, version, addr, log, process }
    };
    let out = |name: &str| folder.0.join(format!("{name}.out"));

    let (addr, behind) = (address(), address());
    let config = folder.file("nginx.conf", &nginx(&folder.0, &addr, &behind));
    let mut command = Command::new(found("nginx"));
    command.args(["-e", "stderr", "-c", &config]);
    let version = said(Command::new(found("nginx")).arg("-v"));
    let nginx = start("nginx", version, addr, &mut command, folder.0.join("nginx.log"));

    let addr = address();
    let config = folder.file("haproxy.cfg", &haproxy(&addr));
    let version = said(Command::new(found("haproxy")).arg("-v"));
    let haproxy =
        start("haproxy", version, addr, Command::new(found("haproxy")).args(["-db", "-f", &config]), out("haproxy"));

    let addr = address();
    let version = said(Command::new("node").arg("--version"));
    let script = format!("{SOURCES}/endpoint.js");
    let node = start("node", version, addr.clone(), Command::new("node").args([&script, &addr]), out("node"));

    let addr = address();
    let go =
        start("go", said(Command::new("go").arg("version")), addr.clone(), Command::new(go()).arg(&addr), out("go"));
    vec![nginx, haproxy, node, go]
}

impl Endpoint {
    /// The method and target of each request that it has seen so far.
    pub fn seen(&self) -> Vec<String> {
        let log = fs::read(&self.log).expect("it writes a log");
        String::from_utf8_lossy(&log).lines().map(String::from).collect()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program that the test has looked for.
fn found(program: &str) -> PathBuf {
    evenkeel_peers::find(program).expect("the test looked")
}

/// The first line that a command says.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; `make setup` installs it"));
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_string()
}

/// Builds the server in Go, from its standard library alone. Its cache is kept beside ours, as the first time is slow.
fn go() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = folder.join("differential-endpoint-go");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&built).arg(format!("{SOURCES}/endpoint.go"));
    command.env("GOCACHE", folder.join("go-cache")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
    let output = command.output().expect("`make setup` installs go");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    built
}

/// Two servers in one: the first reads a body to its end before it asks the second, as `return` alone would not. Of no
/// server may the answer come early, or what came of a body without an end would be a race with the client's close.
fn nginx(folder: &Path, addr: &str, behind: &str) -> String {
    let dir = folder.display();
    format!(
        "daemon off; master_process off; pid {dir}/nginx.pid; error_log /dev/null crit; user root;\n\
         events {{ worker_connections 256; }}\n\
         http {{ log_format seen '$request'; keepalive_requests 1000000;\n\
         client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;\n\
         uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; client_max_body_size 0;\n\
         server {{ listen {addr}; access_log {dir}/nginx.log seen; location / {{ proxy_pass http://{behind}; }} }}\n\
         server {{ listen {behind}; access_log off; return 200 '$request_method $request_uri'; }} }}\n"
    )
}

fn haproxy(addr: &str) -> String {
    format!(
        "global\n log stdout format raw daemon\n\
         defaults\n mode http\n timeout client 60s\n timeout server 10s\n timeout connect 1s\n option dontlognull\n\
         frontend seen\n bind {addr}\n log global\n log-format \"%r\"\n option http-buffer-request\n\
         http-request return status 200 content-type text/plain lf-string \"%[method] %[pathq]\"\n"
    )
}
