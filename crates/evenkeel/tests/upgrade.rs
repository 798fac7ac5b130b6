//! Upgrades without loss, and messages to the service manager: with real processes, signals and sockets.

use crate::support::notify_socket::ServiceManager;
use crate::support::streams::{Load, Streaming};
use crate::support::{Adopted, DEADLINE, Endpoint, Folder, Running, address, eventually, get};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn an_upgrade_under_load_loses_nothing() {
    takes_over_under_load("http", "");
}

#[test]
fn processes_that_share_their_ports_serve_side_by_side_and_one_that_does_not_is_refused() {
    let (endpoint, folder, listen) = (Endpoint::start("one"), Folder::new("share-ports"), address());
    let file = |name: &str, runtime: &str| {
        let admin = address();
        let text = format!(
            "[runtime]\n{runtime}\n[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}' }}\n\
             [listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
            folder.0.join(format!("{name}.sock")).display(),
            endpoint.addr
        );
        (folder.file(name, &text), admin)
    };
    let requests = |admin: &str| {
        let metrics = get(admin, "/metrics").ok()?.1;
        let accepted = "evenkeel_connections_total{listener=\"web\"} ";
        metrics.lines().find_map(|line| line.strip_prefix(accepted)?.parse::<u64>().ok())
    };
    let (first, _) = file("first.toml", "share_ports = true");
    let mut first = Running::start(&["run", "-c", &first]);
    let (alone, _) = file("alone.toml", "");
    crate::support::ends(&["run", "-c", &alone], 1, &["cannot listen on"]);
    let (second, admin) = file("second.toml", "share_ports = true");
    let _second = Running::start(&["run", "-c", &second]);
    eventually("clients of the second", || {
        assert_eq!(get(&listen, "/").expect("an answer").1, "one");
        requests(&admin).filter(|accepted| *accepted > 0)
    });
    first.signal(Signal::TERM);
    assert_eq!(first.ends(), Some(0), "{}", first.said());
    let before = requests(&admin).expect("a count");
    assert_eq!(get(&listen, "/").expect("an answer").1, "one");
    assert_eq!(requests(&admin), Some(before + 1));
}

/// Sessions, connections that a client keeps among them, go on in the first process until their clients end them.
#[test]
fn sessions_over_tcp_outlive_an_upgrade() {
    takes_over_under_load("tcp", "mode = 'tcp'\npool = 'web'");
}

fn takes_over_under_load(name: &str, listener: &str) {
    let (streaming, folder) = (Streaming::start(), Folder::new(&format!("upgrade-{name}")));
    let (listen, admin) = (address(), address());
    let file = |workers: u32| {
        let text = format!(
            "[runtime]\nworkers = {workers}\ndrain_timeout = '20s'\n[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}' }}\n\
             [listener.web]\nbind = ['{listen}']\n{listener}\n[pool.web]\nendpoints = ['{}']\n",
            folder.0.join("admin.sock").display(),
            streaming.addr
        );
        folder.file("evenkeel.toml", &text)
    };
    let mut running = Running::start(&["run", "-c", &file(3)]);
    let load = Load::start(&listen);
    // The next one has fewer workers, so that one of them must look after two sockets.
    file(2);
    running.signal(Signal::USR2);
    let pid = eventually("the other process", || running.successor());
    let _ended = Adopted(pid);
    let before = load.passed.load(SeqCst);
    eventually("load on the new process", || {
        let (status, metrics) = get(&admin, "/metrics").ok()?;
        let accepted = metrics.lines().find_map(|l| l.strip_prefix("evenkeel_connections_total{listener=\"web\"} "))?;
        (status == 200 && accepted.parse::<u64>().ok()? > 50 && load.passed.load(SeqCst) > before + 500).then_some(())
    });
    let reloaded =
        crate::support::evenkeel(&["reload", "--socket", &folder.0.join("admin.sock").display().to_string()]);
    assert_eq!(
        reloaded.status.code(),
        Some(0),
        "the admin's socket went on too: {}",
        crate::support::text(&reloaded.stderr)
    );
    let wrong = load.end();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", running.said());
    // The streams that it held have ended, so the first process has nothing left to do.
    assert_eq!(running.ends(), Some(0), "{}", running.said());
    eventually("its last word", || running.said().contains("drained").then_some(()));
    let wrong = Load::start(&listen).end();
    assert!(wrong.is_empty(), "{wrong:?}");
    kill_process(pid, Signal::TERM).expect("it runs");
    eventually("its end", || test_kill_process(pid).is_err().then_some(()));
    assert!(!folder.0.join("admin.sock").exists());
}

/// An endpoint that answers each request with its head.
fn mirror() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                head.push(byte[0]);
            }
            let length = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", head.len());
            // A connection without a request is one that was only tried.
            let _ = stream.write_all(length.as_bytes()).and_then(|()| stream.write_all(&head));
        }
    });
    addr
}

/// Or a request that came in by the process before would go round once more.
#[test]
fn requests_that_come_back_are_known_behind_an_upgrade_and_to_no_other_evenkeel() {
    let (folder, endpoint) = (Folder::new("upgrade-mark"), mirror());
    let start = |name: &str| {
        let (listen, admin) = (address(), address());
        let text = format!(
            "[admin]\nhttp = {{ bind = '{admin}' }}\n[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{endpoint}']\n"
        );
        (Running::start(&["run", "-c", &folder.file(name, &text)]), listen)
    };
    let mark = |listen: &str| {
        let (_, head) = get(listen, "/").expect("an answer");
        let mark = head.lines().find(|line| line.starts_with("CDN-Loop: evenkeel-"));
        mark.unwrap_or_else(|| panic!("no mark: {head}")).to_string()
    };
    let (mut running, listen) = start("a.toml");
    let (_other, other) = start("b.toml");
    let before = mark(&listen);
    assert_ne!(before, mark(&other));
    running.signal(Signal::USR2);
    let pid = eventually("the other process", || running.successor());
    let _ended = Adopted(pid);
    assert_eq!(running.ends(), Some(0), "{}", running.said());
    assert_eq!(mark(&listen), before);
}

#[test]
fn the_history_of_requests_continues_after_an_upgrade() {
    let (endpoint, folder, listen, admin) = (Endpoint::start("a"), Folder::new("upgrade-past"), address(), address());
    let text = format!(
        "[admin]\nhttp = {{ bind = '{admin}' }}\n[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = [{{ name = 'a', addr = '{}' }}]\n",
        endpoint.addr
    );
    let mut running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
    let spans = |of: &str| -> Vec<(u64, u64)> {
        let (_, body) = get(&admin, &format!("/v1/history{of}")).expect("an answer");
        let history: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let spans = history["spans"].as_array().cloned().unwrap_or_default();
        let number = |span: &serde_json::Value, key: &str| span[key].as_u64().expect("a number");
        spans.iter().map(|span| (number(span, "until_ms"), number(span, "requests"))).collect()
    };
    let all = ["", "/web", "/web/a"];
    (0..7).for_each(|_| assert_eq!(get(&listen, "/").expect("an answer").0, 200));
    let has_all = |of: &&str| spans(of).iter().map(|(_, requests)| requests).sum::<u64>() == 7;
    eventually("spans that are over", || all.iter().all(has_all).then_some(()));
    let before = all.map(spans);
    running.signal(Signal::USR2);
    let _ended = Adopted(eventually("the other process", || running.successor()));
    assert_eq!(running.ends(), Some(0), "{}", running.said());
    for (of, before) in all.iter().zip(&before) {
        // A span may have ended between the look and the upgrade.
        let after = spans(of);
        assert_eq!(after.get(..before.len()), Some(&before[..]), "{of}");
    }
    assert_eq!(get(&listen, "/").expect("an answer").0, 200);
    eventually("the next span", || {
        let after = spans("/web");
        (after.iter().map(|(_, requests)| requests).sum::<u64>() == 8 && after.is_sorted()).then_some(())
    });
    let (_, events) = get(&admin, "/v1/events").expect("an answer");
    assert_eq!(events.matches(" serves, process ").count(), 2, "{events}");
    assert!(!running.said().contains("history of the previous process"), "{}", running.said());
}

#[test]
fn a_history_of_another_build_is_not_used_and_stops_nothing() {
    let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new("upgrade-foreign"), address());
    let text = format!("[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n", endpoint.addr);
    let (file, left) = (folder.file("evenkeel.toml", &text), folder.file("left", "{\"version\":4711}"));
    // As a process of another build starts its successor.
    let run = format!(
        "exec 3<'{left}' 4>'{left}.ready'; export LISTEN_FDS=1 LISTEN_FDNAMES=left EVENKEEL_READY_FD=4; exec '{}' run -c '{file}'",
        env!("CARGO_BIN_EXE_evenkeel")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &run]);
    let running = Running::from(shell);
    let said = running.said();
    assert!(said.contains("the history of the previous process is not used: it has version 4711"), "{said}");
    assert_eq!(get(&listen, "/").expect("an answer"), (200, "a".to_string()));
    let ready = std::fs::read_to_string(format!("{left}.ready")).expect("it was made");
    assert!(ready.starts_with("evenkeel serves as process "), "{ready}");
}

/// An endpoint that sends each datagram back, those that begin with "late" once it is told to.
fn echo(late: Arc<AtomicBool>) -> String {
    let addr = address();
    let socket = UdpSocket::bind(&addr).expect("nobody else uses it");
    std::thread::spawn(move || {
        let mut bytes = [0; 100];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let (answer, socket, late) = (bytes[..len].to_vec(), socket.try_clone(), late.clone());
            let send = move || {
                eventually("leave to answer", || (!answer.starts_with(b"late") || late.load(SeqCst)).then_some(()));
                socket.and_then(|socket| socket.send_to(&answer, from)).expect("sending works");
            };
            // Only those that wait are in nobody's way.
            if bytes.starts_with(b"late") { drop(std::thread::spawn(send)) } else { send() }
        }
    });
    addr
}

fn client(listen: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(listen).expect("an address");
    socket.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
    socket
}

/// Each datagram is sent once and must be answered: by flows that go on, and by flows that begin with each.
#[test]
fn no_datagram_is_lost_in_an_upgrade_and_answers_under_way_still_come() {
    // With flows that end with their answer, and with flows that go on until they are idle.
    for flows in ["idle = '30s', answers = 1", "idle = '2s'"] {
        let (late, folder, listen, admin) = (Arc::default(), Folder::new("upgrade-udp"), address(), address());
        let ends_by_answers = flows.contains("answers");
        let endpoint = echo(Arc::clone(&late));
        let file = |workers: u32| {
            let text = format!(
                "[runtime]\nworkers = {workers}\ndrain_timeout = '60s'\n[admin]\nhttp = {{ bind = '{admin}' }}\n\
                 [listener.web]\nbind = ['{listen}']\nmode = 'udp'\npool = 'web'\nudp = {{ {flows} }}\n\
                 [pool.web]\nendpoints = ['{endpoint}']\n"
            );
            folder.file("evenkeel.toml", &text)
        };
        let mut running = Running::start(&["run", "-c", &file(3)]);
        let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        // Ended when the clients have.
        let mut _next = None;
        std::thread::scope(|scope| {
            for i in 0..8_u64 {
                let (over, answered, listen) = (&over, &answered, &listen);
                scope.spawn(move || {
                    let mut socket = client(listen);
                    for n in 0_u64.. {
                        if i % 2 == 0 {
                            socket = client(listen);
                        }
                        let (question, mut answer) = ([i.to_be_bytes(), n.to_be_bytes()].concat(), [0; 100]);
                        let len = loop {
                            let before = thrown_away();
                            socket.send(&question).expect("sending works");
                            match socket.recv(&mut answer) {
                                Ok(len) => break len,
                                Err(e) => assert!(thrown_away() > before, "client {i} lost datagram {n}: {e}"),
                            }
                        };
                        assert_eq!(answer[..len], question);
                        answered.fetch_add(1, SeqCst);
                        if over.load(SeqCst) {
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            // Whatever fails here, the clients are to end.
            let _over = Over(&over);
            let many = |n: u64| {
                let before = answered.load(SeqCst);
                eventually("answers", || (answered.load(SeqCst) > before + n).then_some(()));
            };
            many(500);
            let waiting = client(&listen);
            waiting.send(b"late").expect("sending works");
            let begun = || sum(&admin, "evenkeel_udp_flows_active");
            eventually("its flow", || (begun() >= 1.0).then_some(()));
            // The next one has fewer workers, so that one of them must look after two sockets.
            file(2);
            running.signal(Signal::USR2);
            _next = Some(Adopted(eventually("the other process", || running.successor())));
            many(500);
            if ends_by_answers {
                late.store(true, SeqCst);
                let mut answer = [0; 100];
                assert_eq!(waiting.recv(&mut answer).expect("an answer by the first process"), 4);
            }
            // Its flows have ended, so the first process has nothing left to do.
            assert_eq!(running.ends(), Some(0), "{}", running.said());
            eventually("its last word", || running.said().contains("drained").then_some(()));
            many(500);
            assert_eq!(sum(&admin, "evenkeel_udp_lost_total"), 0.0);
        });
    }
}

/// Packets that the kernel had no room for on their way from one process to another, whosever they were: on a machine where
/// others send as fast as they can, some are ours.
fn thrown_away() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").expect("the kernel counts them");
    let dropped = text.lines().filter_map(|of_a_core| of_a_core.split_whitespace().nth(1));
    dropped.map(|n| u64::from_str_radix(n, 16).expect("a number")).sum()
}

/// Sets the flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The sum of all series whose lines begin so.
fn sum(admin: &str, begin: &str) -> f64 {
    let metrics = get(admin, "/metrics").map(|(_, metrics)| metrics).unwrap_or_default();
    let lines = metrics.lines().filter(|line| line.starts_with(begin));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn a_successor_that_fails_changes_nothing() {
    let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new("failing"), address());
    let text = format!("[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n", endpoint.addr);
    let mut running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
    folder.file("evenkeel.toml", "nonsense");
    running.signal(Signal::USR2);
    eventually("a refusal", || running.said().contains("did not take over").then_some(()));
    assert!(running.said().contains("ended before it served (exit status: 78)"), "{}", running.said());
    assert_eq!(get(&listen, "/").expect("an answer"), (200, "a".to_string()));
    // And once more, with a good file.
    folder.file("evenkeel.toml", &text);
    running.signal(Signal::USR2);
    let pid = eventually("the other process", || running.successor());
    let _ended = Adopted(pid);
    assert_eq!(running.ends(), Some(0), "{}", running.said());
    assert_eq!(get(&listen, "/").expect("an answer"), (200, "a".to_string()));
}

/// Takes the place of a program: a shell that does this.
fn script(program: &Path, does: &str) {
    let other = program.with_extension("other");
    std::fs::write(&other, format!("#!/bin/sh\n{does}\n")).expect("it can be written");
    std::fs::set_permissions(&other, Permissions::from_mode(0o755)).expect("it is ours");
    std::fs::rename(&other, program).expect("it is ours");
}

#[test]
fn what_does_not_say_that_it_serves_does_not_take_over() {
    let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new("not-it"), address());
    // A shell knows descriptors of one digit.
    let text = format!(
        "runtime.workers = 1\n[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
        endpoint.addr
    );
    let program = folder.0.join("evenkeel");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_evenkeel"), &program).expect("a link");
    let mut command = Command::new(&program);
    command.args(["run", "-c", &folder.file("evenkeel.toml", &text)]);
    let mut running = Running::from(command);
    let refused = |n: usize| {
        running.signal(Signal::USR2);
        eventually("a refusal", || (running.said().matches("this process continues").count() == n).then_some(()));
        assert_eq!(get(&listen, "/").expect("an answer"), (200, "a".to_string()));
    };
    // As std's own word that a program could not be started, where a pipe of its own has the same number.
    script(&program, "printf '\\000\\000\\000\\002NOEX' >&$EVENKEEL_READY_FD; exit 1");
    refused(1);
    assert!(running.said().contains("without reporting that it serves"), "{}", running.said());
    // One that says what a process of an older build said, and goes on.
    script(&program, "echo 1 >&$EVENKEEL_READY_FD; exec sleep 1000");
    refused(2);
    // One that does not keep what it was given.
    script(&program, "eval \"exec $EVENKEEL_READY_FD>&-\"; exec sleep 1000");
    refused(3);
    std::fs::remove_file(&program).expect("it is there");
    refused(4);
    assert!(running.said().contains("cannot start the new process"), "{}", running.said());
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0), "{}", running.said());
}

#[test]
fn the_service_manager_hears_of_every_change() {
    let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new("notify"), address());
    let manager = ServiceManager::new(&folder);
    let text = format!("[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n", endpoint.addr);
    let file = folder.file("evenkeel.toml", &text);
    let socket = manager.path.display().to_string();
    let environment = [("NOTIFY_SOCKET", socket.as_str()), ("WATCHDOG_USEC", "600000")];
    let mut running = Running::start_in(&environment, &["run", "-c", &file]);
    assert_eq!(manager.hears(), "READY=1\nSTATUS=serving");
    assert_eq!(get(&listen, "/").expect("an answer").0, 200);
    (0..3).for_each(|_| assert_eq!(manager.hears_any(), "WATCHDOG=1"));

    running.signal(Signal::HUP);
    assert!(manager.hears().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(manager.hears(), "READY=1\nSTATUS=serving; generation 1; no differences");
    folder.file("evenkeel.toml", "nonsense");
    running.signal(Signal::HUP);
    assert!(manager.hears().starts_with("RELOADING=1\n"));
    let said = manager.hears();
    assert!(said.starts_with("READY=1\nSTATUS=serving; keeping the previous configuration: error[EK"), "{said}");

    folder.file("evenkeel.toml", &text);
    running.signal(Signal::USR2);
    // One word from each of the two processes, in either order.
    let mut said = [manager.hears(), manager.hears()];
    said.sort();
    assert_eq!(said[1], "READY=1\nSTATUS=serving");
    let pid = said[0].strip_prefix("MAINPID=").and_then(|pid| Pid::from_raw(pid.parse().ok()?)).expect("its number");
    let _ended = Adopted(pid);
    assert_eq!(running.ends(), Some(0), "{}", running.said());
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=draining");
}

#[test]
fn sockets_of_the_service_manager_are_used() {
    let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new("activated"), address());
    let socket = std::net::TcpListener::bind(&listen).expect("nobody else uses it");
    // Who came before anything served is answered too.
    let early = std::thread::spawn({
        let listen = listen.clone();
        move || get(&listen, "/")
    });
    let text = format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
        endpoint.addr
    );
    let file = folder.file("evenkeel.toml", &text);
    // A shell passes the socket as number 3 and names itself, then becomes evenkeel.
    let fd: OwnedFd = socket.into();
    let mut shell = Command::new("sh");
    let run = format!(
        "exec 3<&0; export LISTEN_PID=$$; exec '{}' run -c '{file}' 0</dev/null",
        env!("CARGO_BIN_EXE_evenkeel")
    );
    shell.args(["-c", &run]).env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "web").stdin(fd);
    let mut running = Running::from(shell);
    assert_eq!(early.join().expect("no panic").expect("an answer"), (200, "a".to_string()));
    assert!(!running.said().contains("no listener has its address"), "{}", running.said());
    for _ in 0..20 {
        assert_eq!(get(&listen, "/").expect("an answer"), (200, "a".to_string()));
    }
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0), "{}", running.said());
}
