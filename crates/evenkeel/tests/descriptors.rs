//! A process that may open no more files: clients that are connected stay, others wait, and all continues when there is room.

use crate::support::{DEADLINE, Endpoint, Folder, Running, address, eventually};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// Fewer than a process needs for itself and this many clients.
const FILES: u64 = 60;
const CLIENTS: usize = 100;

fn config(listen: &str, endpoint: &str) -> String {
    format!(
        "runtime.workers = 1\nlistener.web.bind = ['{listen}']\npool.web.endpoints = ['{endpoint}']\n\
         [[route]]\npool = 'web'\n"
    )
}

fn connect(listen: &str) -> TcpStream {
    let stream = TcpStream::connect(listen).expect("the kernel takes connections");
    stream.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
    stream
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("the kernel takes bytes");
}

fn status(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).expect("an answer");
    crate::support::text(&bytes[9..])
}

#[test]
fn without_descriptors_accepting_pauses_and_goes_on() {
    let (endpoint, listen) = (Endpoint::start("one"), address());
    let running = Running::start(&["run", &endpoint.addr, "--listen", &listen]);
    let mut first = connect(&listen);
    ask(&mut first);
    assert_eq!(status(&mut first), "200");
    running.allow_files(FILES);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(&listen)).collect();
    clients.iter_mut().for_each(ask);
    eventually("a warning", || running.said().contains("cannot accept a connection; pausing").then_some(()));
    drop(clients);
    // While those who left are let go of, there may be a descriptor for a client and none for its endpoint: 503.
    eventually("room again", || {
        let mut late = connect(&listen);
        ask(&mut late);
        (status(&mut late) == "200").then_some(())
    });
    assert_eq!(running.said().matches("cannot accept").count(), 1, "one line a minute at most: {}", running.said());
}

/// If the event loop of a worker cannot be made, sockets may be open already, and the rest of the process runs.
#[test]
fn with_too_few_descriptors_to_start_it_ends_and_says_why() {
    let (endpoint, folder) = (Endpoint::start("one"), Folder::new("few"));
    let log = folder.0.join("log");
    let mut without_event_loop = 0;
    // Each allows one more than the one before; standard input, output and error are three.
    for files in 4.. {
        let listen = address();
        let config = folder.file("evenkeel.toml", &config(&listen, &endpoint.addr));
        let limited = format!("ulimit -n {files} && exec \"$0\" run --config \"$1\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_evenkeel"), &config]).env("NO_COLOR", "1");
        command.env("RUNTIME_DIRECTORY", &folder.0);
        let stderr = File::create(&log).expect("the folder can be written");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().expect("it starts");
        let status = eventually("somebody who listens, or the end", || match child.try_wait().expect("it is ours") {
            Some(status) => Some(Some(status)),
            // Before it greets, a worker that cannot go on has let go of its sockets.
            None => {
                let greeted = fs::read_to_string(&log).is_ok_and(|said| said.contains("  end  "));
                (greeted && TcpStream::connect(&listen).is_ok()).then_some(None)
            }
        });
        let said = fs::read_to_string(&log).expect("it is there");
        let Some(status) = status else {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            break;
        };
        // Below some number it cannot even be loaded, or catch signals.
        assert!(!status.success(), "{files}: {status}, {said}");
        if said.contains("error: cannot start a worker: Too many open files") {
            assert_eq!(status.code(), Some(1), "{files}: {said}");
            without_event_loop += 1;
        }
    }
    assert!(without_event_loop > 0);
}

/// Workers of DNS, of which there are none before, take descriptors beside those of their sockets.
#[test]
fn a_reload_with_too_few_descriptors_for_dns_changes_nothing() {
    let (endpoint, folder) = (Endpoint::start("one"), Folder::new("reload"));
    // On a connection that stays, as the one to the endpoint does: none of it takes another descriptor.
    let hears_one = |client: &mut TcpStream| {
        ask(client);
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\none") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("an answer");
            answer.extend(byte);
        }
    };
    let mut without_event_loop = 0;
    for more in 0.. {
        let (listen, dns) = (address(), address());
        let web = config(&listen, &endpoint.addr);
        let running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &web)]);
        let mut client = connect(&listen);
        hears_one(&mut client);
        running.allow_more_files(more);
        let zone = "zone = { name = 'a.example', records = { www = { pool = 'web' } } }";
        folder.file("evenkeel.toml", &format!("{web}[listener.dns]\nbind = ['{dns}']\nmode = 'dns'\n{zone}\n"));
        running.signal(Signal::HUP);
        let said = eventually("what became of it", || {
            let said = running.said();
            let ends = ["keeping the previous configuration", "configuration changed"];
            ends.iter().any(|end| said.contains(end)).then_some(said)
        });
        hears_one(&mut client);
        if said.contains("configuration changed") {
            TcpStream::connect(&dns).expect("it answers there");
            break;
        }
        without_event_loop += usize::from(said.contains("cannot start a DNS worker: Too many open files"));
    }
    assert!(without_event_loop > 0);
}
