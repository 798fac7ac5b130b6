//! Interoperation with the HTTP/2 server of Go's standard library.

use super::{before, post};
use crate::support::tls::{Authority, BOTH, proxy, to_pool};
use crate::support::{listening, noise, own_addr, text, wait_until};
use evenkeel_peers::installed;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A running Go server, killed on drop.
struct Go {
    addr: SocketAddr,
    process: Child,
}

impl Go {
    /// Starts the server without TLS; `None` if Go is not installed. Go's build cache is kept in our target folder, as
    /// the first build is slow.
    fn start() -> Option<Go> {
        Go::with(&[])
    }

    /// Starts the server. `files`: a certificate and its key, if it uses TLS.
    fn with(files: &[PathBuf]) -> Option<Go> {
        if !installed(&["go"]) {
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let addr = own_addr();
        let built = folder.join(format!("h2-endpoint-go-{}-{}", std::process::id(), addr.port()));
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&built);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http2_endpoints/server.go"));
        build.env("GOCACHE", folder.join("go-cache")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
        let output = build.output().expect("`make setup` installs go");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut server = Command::new(&built);
        server.arg(addr.to_string()).args(files);
        let process = listening(server, addr);
        let _ = std::fs::remove_file(built);
        Some(Go { addr, process })
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn requests_of_every_kind_get_on_with_net_http() {
    let Some(go) = Go::start() else { return };
    let pool = "retry = { attempts = 0 }\noutlier = 'off'\n[defaults.route]\nrequest_trailers = ['X-Sent']";
    let proxy = before(&[go.addr], pool);
    let mut client = proxy.client();
    let answer = client.send("GET / HTTP/1.1\r\nHost: b\r\nX-Own: 1\r\n\r\n").response();
    assert_eq!(answer.body_text(), "HTTP/2.0 GET b 1");
    for size in [0, 1, 100_000, 5_000_000] {
        let content = noise(size);
        let sending = client.send_aside(post("/echo", &content));
        let answer = client.response();
        sending.join().expect("no panic").expect("the proxy takes it");
        assert!(answer.body == content, "{size}: {} bytes", answer.body.len());
    }
    let head =
        "POST /echo HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sent\r\n\r\n";
    let answer = client.send(format!("{head}2\r\nhi\r\n0\r\nX-Sent: -7\r\n\r\n")).response();
    assert!(answer.wire.ends_with(b"0\r\nx-sum: 2-7\r\n\r\n"), "{}", text(&answer.wire));
    let head = client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").head();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let answer = client.send("GET /hints HTTP/1.1\r\nHost: a\r\n\r\n").response();
    assert_eq!(answer.status(), 103);
    assert_eq!(client.response().body_text(), "hinted");
    client.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\nsome");
    assert_eq!(client.response().status(), 413);
    assert!(proxy.client().send("GET /abort HTTP/1.1\r\nHost: a\r\n\r\n").response_if_any().is_none(), "it is cut");
}

#[test]
fn a_connection_that_net_http_ends_loses_no_request() {
    let Some(go) = Go::start() else { return };
    let proxy = before(&[go.addr], "retry = { attempts = 0 }\noutlier = 'off'");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = proxy.client();
                for n in 0..100 {
                    let path = if n % 10 == 9 { "/last" } else { "/echo" };
                    let answer = client.send(post(path, b"hello")).response();
                    let want = if path == "/last" { "last" } else { "hello" };
                    assert_eq!((answer.status(), answer.body_text().as_str()), (200, want));
                }
            });
        }
    });
    assert!(proxy.endpoint(0, |e| e.http2.go_aways.get()) > 0);
    wait_until("connections end", || proxy.endpoint(0, |e| e.http2.connections.get()) <= 4);
}

#[test]
fn over_tls_an_endpoint_is_asked_for_http2_and_one_that_may_choose_chooses_it() {
    let ca = Authority::new("ca");
    let files = ca.files("b.test");
    let Some(go) = Go::with(&files) else { return };
    let secured = || to_pool(ca.client(BOTH), "b.test");
    let behind = proxy(go.addr, secured(), "", "protocol = 'h2'");
    assert_eq!(behind.client().get("/").body_text(), "HTTP/2.0 GET a ");
    let content = noise(3_000_000);
    let mut client = behind.client();
    let sending = client.send_aside(post("/echo", &content));
    assert!(client.response().body == content);
    sending.join().expect("no panic").expect("the proxy takes it");
    assert_eq!(behind.endpoint(0, |e| e.connects.get()), 1);
    // The choice is unknown before the first connection.
    let behind = proxy(go.addr, secured(), "", "protocol = 'auto'");
    let answers: Vec<String> = (0..3).map(|_| behind.client().get("/").body_text()).collect();
    assert_eq!(answers, ["HTTP/1.1 GET a ", "HTTP/2.0 GET a ", "HTTP/2.0 GET a "]);
    assert_eq!(behind.endpoint(0, |e| e.connects.get()), 2);
    // WebSocket uses HTTP/1.1, even while other requests use HTTP/2.
    for _ in 0..2 {
        let ask = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let mut client = behind.client();
        let head = client.send(ask).head();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert_eq!(text(&client.send("hello").bytes(5)), "hello");
    }
    assert_eq!(behind.client().get("/").body_text(), "HTTP/2.0 GET a ");
    let behind = proxy(go.addr, secured(), "", "");
    assert_eq!(behind.client().get("/").body_text(), "HTTP/1.1 GET a ", "who is not asked does not choose");
    files.iter().for_each(|file| std::fs::remove_file(file).expect("it is there"));
}
