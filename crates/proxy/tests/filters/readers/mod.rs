//! Real servers as endpoints behind a route for `/admin` and an open route: NGINX, Node, Go, Python and Java. What they
//! read as `/admin` must not reach them through the open route, in whatever spelling.

mod paths;
mod rivals;

use crate::support::nginx::{Directory, Nginx};
use crate::support::{Proxy, SOON, listening, own_addr};
use evenkeel_peers::{find, installed};
use std::any::Any;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/filters/readers");

/// Spellings of paths of `/admin`.
const SPELLINGS: [&str; 27] = [
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
    "http://a//admin/x",
];

/// An endpoint that reads paths in its own way.
struct Reader {
    name: &'static str,
    addr: SocketAddr,
    _running: Box<dyn Any>,
}

/// A process that is killed on drop, with its files.
struct Process {
    child: Child,
    _files: Option<Directory>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    /// Starts a server whose last argument is its address.
    fn start(name: &'static str, mut command: Command, files: Option<Directory>) -> Reader {
        let addr = own_addr();
        command.arg(addr.to_string());
        Reader { name, addr, _running: Box::new(Process { child: listening(command, addr), _files: files }) }
    }
}

/// Servers on this machine, each started when it is called for; `None` if its program is not installed.
const READERS: [fn() -> Option<Reader>; 5] = [nginx, node, go, python, java];

fn nginx() -> Option<Reader> {
    let open = "listen $BIND; location / { return 200 open; } location /admin/ { return 200 protected; }";
    installed(&["nginx"]).then(|| {
        let nginx = Nginx::with(open);
        Reader { name: "NGINX", addr: nginx.addr, _running: Box::new(nginx) }
    })
}

fn node() -> Option<Reader> {
    script("Node", "node", "server.js")
}

fn python() -> Option<Reader> {
    script("Python", "python3", "server.py")
}

fn script(name: &'static str, program: &str, file: &str) -> Option<Reader> {
    let mut command = Command::new(program);
    command.arg(format!("{SOURCES}/{file}"));
    installed(&[program]).then(|| Reader::start(name, command, None))
}

/// A server in Go, from its standard library alone. The cache of its compiler is kept, as the first time is slow.
fn go() -> Option<Reader> {
    if !installed(&["go"]) {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = folder.join("reader-go");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&built).arg(format!("{SOURCES}/server.go"));
    command.env("GOCACHE", folder.join("go-cache")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
    let output = command.output().expect("it was found");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(Reader::start("Go", Command::new(built), None))
}

fn java() -> Option<Reader> {
    if !installed(&["java"]) || find("javac").is_none() {
        return None;
    }
    let classes = Directory::new();
    let status = Command::new("javac").arg("-d").arg(&classes.0).arg(format!("{SOURCES}/Server.java")).status();
    assert!(status.expect("it was found").success());
    let mut command = Command::new("java");
    command.arg("-cp").arg(&classes.0).arg("Server");
    Some(Reader::start("Java", command, Some(classes)))
}

fn proxy(addr: SocketAddr, paths: &str) -> Proxy {
    Proxy::start(&format!(
        "[listener.web]\nbind = ['$BIND']\npaths = '{paths}'\n[pool.web]\nendpoints = ['{addr}']\n\
         [[route]]\nname = 'open'\npool = 'web'\n\
         [[route]]\nname = 'admin'\nmatch = {{ prefix = '/admin' }}\nrespond = 403\n"
    ))
}

/// Spellings by which clients of this server get the protected page of an endpoint.
fn passes(addr: SocketAddr) -> Vec<&'static str> {
    let is_served = |path: &&&str| {
        let mut client = TcpStream::connect(addr).expect("it listens");
        client.set_read_timeout(Some(SOON)).expect("a time");
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut response = Vec::new();
        // A refusal may end in a reset.
        let _ = client.read_to_end(&mut response);
        response.windows(9).any(|part| part == b"protected")
    };
    SPELLINGS.iter().filter(is_served).copied().collect()
}

/// `least`: number of spellings that the server reads as `/admin`, so that the test means something.
fn holds(reader: Option<Reader>, least: usize) {
    let Some(Reader { name, addr, .. }) = &reader else { return };
    let as_sent = passes(proxy(*addr, "as_sent").addr());
    assert!(as_sent.len() >= least, "{name} reads {} spellings as /admin: {as_sent:?}", as_sent.len());
    for paths in ["refuse", "normalise"] {
        assert_eq!(passes(proxy(*addr, paths).addr()), [""; 0], "{name}, {paths}");
    }
}

#[test]
fn no_spelling_reaches_what_nginx_protects() {
    holds(nginx(), 10);
}

#[test]
fn no_spelling_reaches_what_node_protects() {
    holds(node(), 10);
}

#[test]
fn no_spelling_reaches_what_python_protects() {
    holds(python(), 10);
}

#[test]
fn no_spelling_reaches_what_go_protects() {
    holds(go(), 10);
}

#[test]
fn no_spelling_reaches_what_java_protects() {
    holds(java(), 10);
}
