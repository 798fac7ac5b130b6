//! Clients that upload more than their endpoint reads get its response, whatever language they are written in; and a
//! lingering connection holds resources only for a limited time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use evenkeel_peers::installed;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const TOO_LARGE: &str = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large";

/// Bytes of an upload, far more than the kernel buffers for both sides.
const UPLOAD: usize = 20_000_000;

/// An endpoint that answers 413 as soon as it has the head.
fn refusing() -> Endpoint {
    Endpoint::start(|conn| {
        conn.head();
        conn.send(TOO_LARGE);
    })
}

fn head(len: usize) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n")
}

fn lingering(proxy: &Proxy) -> u64 {
    proxy.listener(|l| l.lingering.get())
}

#[test]
fn a_client_that_writes_all_before_it_reads_gets_the_answer() {
    let endpoint = refusing();
    let proxy = Proxy::before(&[endpoint.addr]);
    for round in 0..20 {
        let mut client = proxy.client();
        client.send(head(UPLOAD));
        let sent = client.stream.write_all(&vec![b'x'; UPLOAD]);
        assert!(sent.is_ok(), "round {round}: {sent:?}");
        assert_eq!(client.response().status(), 413);
        client.ends();
    }
    wait_until("none lingers", || lingering(&proxy) == 0);
    assert_eq!(proxy.listener(|l| l.linger_cut.get()), 0);
}

const PYTHON: &str = r#"
import http.client, sys
host, port = sys.argv[1].split(":")
for n in range(20):
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("POST", "/", body=bytes(int(sys.argv[2])))
    assert connection.getresponse().status == 413, n
print("fine")
"#;

#[test]
fn python_gets_the_answer() {
    if !installed(&["python3"]) {
        return;
    }
    let endpoint = refusing();
    let proxy = Proxy::before(&[endpoint.addr]);
    let (addr, len) = (proxy.addr().to_string(), UPLOAD.to_string());
    let output = Command::new("python3").args(["-c", PYTHON, &addr, &len]).output().expect("`make setup` installs it");
    assert_eq!(output.stdout, b"fine\n", "{}", String::from_utf8_lossy(&output.stderr));
}

const GO: &str = r#"package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
)

func main() {
	n, _ := strconv.Atoi(os.Args[2])
	for round := 0; round < 20; round++ {
		answer, err := http.Post("http://"+os.Args[1]+"/", "text/plain", bytes.NewReader(make([]byte, n)))
		if err != nil || answer.StatusCode != 413 {
			fmt.Println(round, err, answer)
			os.Exit(1)
		}
		answer.Body.Close()
	}
	fmt.Println("fine")
}
"#;

#[test]
fn go_gets_the_answer() {
    if !installed(&["go"]) {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("upload-{}.go", std::process::id()));
    std::fs::write(&source, GO).expect("room for it");
    let endpoint = refusing();
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut go = Command::new("go");
    go.arg("run").arg(&source).args([proxy.addr().to_string(), UPLOAD.to_string()]);
    go.env("GOCACHE", folder.join("go-cache")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
    let output = go.output().expect("`make setup` installs it");
    let _ = std::fs::remove_file(source);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Begins an upload, reads the response, and leaves the connection open.
fn linger(proxy: &Proxy) -> Client {
    let mut client = proxy.client();
    client.send(head(UPLOAD)).send("some");
    assert_eq!(client.response().status(), 413);
    client
}

#[test]
fn a_connection_that_lingers_counts_among_the_open_ones() {
    let endpoint = refusing();
    let proxy = Proxy::with(&[endpoint.addr], "limits = { connections = 2 }", "", "");
    let held = [(); 2].map(|()| linger(&proxy));
    wait_until("both linger", || lingering(&proxy) == 2);
    let mut third = proxy.client();
    assert!(third.stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_err() || third.response_if_any().is_none());
    assert_eq!(proxy.listener(|l| l.rejected[0].get()), 1);
    drop(held);
    wait_until("none lingers", || lingering(&proxy) == 0 && proxy.listener(|l| l.active.get()) == 0);
    assert_eq!(proxy.listener(|l| l.linger_cut.get()), 0, "both were ended by their clients");
}

#[test]
fn a_client_that_is_silent_is_cut_in_time() {
    let endpoint = refusing();
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = linger(&proxy);
    client.rest();
    wait_until("it is closed", || proxy.listener(|l| l.active.get()) == 0);
    assert_eq!((lingering(&proxy), proxy.listener(|l| l.linger_cut.get())), (0, 1));
}

/// Otherwise a client that keeps sending could keep a process from ending.
#[test]
fn draining_does_not_wait_for_a_client_that_sends_on() {
    let endpoint = refusing();
    let mut proxy = Proxy::before(&[endpoint.addr]);
    let mut client = linger(&proxy);
    wait_until("it lingers", || lingering(&proxy) == 1);
    let stats = proxy.server().stats();
    proxy.drain();
    let deadline = Instant::now() + SOON;
    while stats.iter().any(|worker| worker.listeners[0].active.get() > 0) {
        assert!(Instant::now() < deadline, "it holds up the end");
        let _ = client.stream.write(b"more");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    proxy.stop();
}
