//! A draining worker that gets another request on a connection that it keeps.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test waits for what a worker does")]

use super::Update;
use crate::{Command, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

/// Reads a head, with its empty line; `None` if the connection ends before it.
fn head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Starts an endpoint that answers each request with five bytes and sends the request line to `seen`.
fn endpoint(seen: mpsc::Sender<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let seen = seen.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(head) = head(&mut stream) {
                    let _ = seen.send(head.lines().next().unwrap_or_default().to_string());
                    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                    stream.get_mut().write_all(response).expect("the proxy reads");
                }
            });
        }
    });
    addr
}

/// Opens a client connection with a read timeout of [`SOON`].
fn connect(addr: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("sockets have timeouts");
    BufReader::new(stream)
}

fn send(client: &mut BufReader<TcpStream>, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.get_mut().write_all(request.as_bytes()).expect("it takes requests");
}

/// Reads a response with the endpoint's body, and returns its head in lower case.
fn response(client: &mut BufReader<TcpStream>) -> String {
    let head = head(client).expect("a response").to_lowercase();
    let mut body = [0; 5];
    client.read_exact(&mut body).expect("a body");
    assert_eq!(&body, b"hello", "{head}");
    head
}

/// The worker is blocked while the request arrives, so that it sees the drain command before it reads the request. The
/// closure sets the command and wakes all connections; the rest of a drain is omitted.
#[test]
fn a_request_that_has_come_on_a_kept_connection_is_served_though_the_worker_drains() {
    let (sees, seen) = mpsc::channel();
    // A loopback address that no other process uses.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let bind = SocketAddr::from(([127, 128 | (high & 63), middle, low], 20_000));
    let text = format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"{bind}\"]\n[pool.web]\nendpoints = [\"{}\"]\n",
        endpoint(sees)
    );
    let plan = evenkeel_config::parse_str("test.toml", &text, &|_| None).plan.expect("a good file");
    let server = Server::start(plan).expect("it starts");
    let (mut kept, mut idle) = (connect(bind), connect(bind));
    for client in [&mut kept, &mut idle] {
        send(client, "/first");
        assert!(!response(client).contains("connection:"));
        assert_eq!(seen.recv_timeout(SOON).as_deref(), Ok("GET /first HTTP/1.1"));
    }
    let (is_held, held) = mpsc::sync_channel(0);
    let (go_on, may_go_on) = mpsc::sync_channel::<()>(0);
    server.looker().doors()[0].send(Update::Look(Box::new(move |worker| {
        is_held.send(()).expect("the test waits for it");
        may_go_on.recv_timeout(SOON).expect("the test lets it go on");
        worker.core.command.set(Command::Drain);
        worker.core.wheel.wake_all();
    })));
    held.recv_timeout(SOON).expect("the worker is held");
    send(&mut kept, "/last");
    go_on.send(()).expect("the worker is held");
    let last = response(&mut kept);
    assert!(last.starts_with("http/1.1 200 ") && last.contains("\r\nconnection: close\r\n"), "{last}");
    assert_eq!(seen.recv_timeout(SOON).as_deref(), Ok("GET /last HTTP/1.1"));
    for mut client in [kept, idle] {
        assert_eq!(client.read(&mut [0]).expect("no error"), 0, "it is closed");
    }
    server.command(Command::Stop);
    server.join();
}
