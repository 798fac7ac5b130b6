//! What if the process may open no more files? Who is connected stays, others wait, and all goes on when there is room.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use support::{DEADLINE, Endpoint, Running, address, eventually};

/// Fewer than a process needs for itself and this many clients.
const FILES: u64 = 60;
const CLIENTS: usize = 100;

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("the kernel takes bytes");
}

fn status(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).expect("an answer");
    support::text(&bytes[9..])
}

#[test]
fn without_descriptors_accepting_pauses_and_goes_on() {
    let (endpoint, listen) = (Endpoint::start("one"), address());
    let running = Running::start(&["run", &endpoint.addr, "--listen", &listen]);
    let connect = || {
        let stream = TcpStream::connect(&listen).expect("the kernel takes connections");
        stream.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
        stream
    };
    let mut first = connect();
    ask(&mut first);
    assert_eq!(status(&mut first), "200");
    running.allow_files(FILES);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect()).collect();
    clients.iter_mut().for_each(ask);
    eventually("a warning", || running.said().contains("cannot accept a connection; pausing").then_some(()));
    drop(clients);
    // While those who left are let go of, there may be a descriptor for a client and none for its endpoint: 503.
    eventually("room again", || {
        let mut late = connect();
        ask(&mut late);
        (status(&mut late) == "200").then_some(())
    });
    assert!(running.said().lines().count() < CLIENTS, "a line for each pause at most: {}", running.said());
}
