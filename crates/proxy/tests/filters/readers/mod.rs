//! Real servers as endpoints behind a route for `/admin` and an open route: NGINX, Node, Go, Python and Java. What they
//! read as `/admin` must not reach them through the open route, in whatever spelling.

mod paths;

use crate::support::nginx::{Directory, Nginx};
use crate::support::{Proxy, own_addr, wait_until};
use evenkeel_peers::{find, installed};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/filters/readers");

/// Spellings of paths of `/admin`.
const SPELLINGS: [&str; 26] = [
    "//admin/x",
    "///admin/x",
    "//y/admin/x",
    "/\\y/admin/x",
    "/./admin/x",
    "/y/../admin/x",
    "/y//../admin/x",
    "/y/%2e%2e/admin/x",
    "/y/.%2E/admin/x",
    "/y/..;/admin/x",
    "/%61dmin/x",
    "/a%64min/x",
    "/%2561dmin/x",
    "/y/..%2fadmin/x",
    "/y/..%2Fadmin/x",
    "/y%2f..%2fadmin/x",
    "/y/..%252fadmin/x",
    "/%2fadmin/x",
    "/admin%2fx",
    "/admin;a/x",
    "/;a/admin/x",
    "/\\admin/x",
    "/y\\..\\admin\\x",
    "/y/..%5cadmin/x",
    "/admin%00/x",
    "/admin/x/../../admin/./x",
];

/// A running server. Killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(addr: SocketAddr, command: &mut Command) -> Server {
    let process =
        command.arg(addr.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let server = Server(process.unwrap_or_else(|e| panic!("{command:?}: {e}")));
    wait_until("it listens", || TcpStream::connect(addr).is_ok());
    server
}

fn proxy(addr: SocketAddr, paths: &str) -> Proxy {
    Proxy::start(&format!(
        "[listener.web]\nbind = ['$BIND']\npaths = '{paths}'\n[pool.web]\nendpoints = ['{addr}']\n\
         [[route]]\nname = 'open'\npool = 'web'\n\
         [[route]]\nname = 'admin'\nmatch = {{ prefix = '/admin' }}\nrespond = 403\n"
    ))
}

/// Spellings with which a client of this proxy gets what the endpoint protects.
fn passes(proxy: &Proxy) -> Vec<&'static str> {
    let is_served = |path: &&&str| {
        let mut client = proxy.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        client.response().body_text().contains("protected")
    };
    SPELLINGS.iter().filter(is_served).copied().collect()
}

/// `least`: number of spellings that the server reads as `/admin`, so that the test means something.
fn holds(name: &str, addr: SocketAddr, least: usize) {
    let as_sent = passes(&proxy(addr, "as_sent"));
    assert!(as_sent.len() >= least, "{name} reads {} spellings as /admin: {as_sent:?}", as_sent.len());
    for paths in ["refuse", "normalise"] {
        assert_eq!(passes(&proxy(addr, paths)), [""; 0], "{name}, {paths}");
    }
}

#[test]
fn no_spelling_reaches_what_nginx_protects() {
    if installed(&["nginx"]) {
        let nginx =
            Nginx::with("listen $BIND; location / { return 200 open; } location /admin/ { return 200 protected; }");
        holds("NGINX", nginx.addr, 10);
    }
}

#[test]
fn no_spelling_reaches_what_node_protects() {
    if installed(&["node"]) {
        let addr = own_addr();
        let _server = start(addr, Command::new("node").arg(format!("{SOURCES}/server.js")));
        holds("Node", addr, 10);
    }
}

#[test]
fn no_spelling_reaches_what_python_protects() {
    if installed(&["python3"]) {
        let addr = own_addr();
        let _server = start(addr, Command::new("python3").arg(format!("{SOURCES}/server.py")));
        holds("Python", addr, 10);
    }
}

#[test]
fn no_spelling_reaches_what_go_protects() {
    if installed(&["go"]) {
        let addr = own_addr();
        let _server = start(addr, &mut Command::new(go()));
        holds("Go", addr, 10);
    }
}

#[test]
fn no_spelling_reaches_what_java_protects() {
    if installed(&["java"]) && find("javac").is_some() {
        let (addr, classes) = (own_addr(), Directory::new());
        let status = Command::new("javac").arg("-d").arg(&classes.0).arg(format!("{SOURCES}/Server.java")).status();
        assert!(status.expect("it was found").success());
        let _server = start(addr, Command::new("java").arg("-cp").arg(&classes.0).arg("Server"));
        holds("Java", addr, 10);
    }
}

/// Builds the server in Go, from its standard library alone. Its cache is kept, as the first time is slow.
fn go() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = folder.join("reader-go");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&built).arg(format!("{SOURCES}/server.go"));
    command.env("GOCACHE", folder.join("go-cache")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
    let output = command.output().expect("it was found");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    built
}
