//! Upgrades without a lost query, and other changes of hands: sockets of the service manager, connections when it ends, all
//! endpoints in one reload.

use super::load::{Load, addresses, ask, query};
use crate::support::{Adopted, DEADLINE, Folder, Running, address, eventually, get};
use rustix::process::{Signal, kill_process, test_kill_process};
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;

/// A file with a zone before these endpoints, and more at its top.
fn file(folder: &Folder, listen: &str, endpoints: &[&str], more: &str) -> String {
    let text = format!(
        "{more}\n[listener.dns]\nbind = ['{listen}']\nmode = 'dns'\n[listener.dns.zone]\nname = 'a.example'\n\
         responses_per_subnet = 0\nrecords = {{ www = {{ pool = 'web' }} }}\n\
         [pool.web]\nbalance = 'round_robin'\nendpoints = {endpoints:?}\n"
    );
    folder.file("evenkeel.toml", &text)
}

const TWO: &[&str] = &["10.9.0.1:80", "10.9.0.2:80"];

#[test]
fn an_upgrade_loses_no_query_and_resets_no_connection() {
    let (folder, listen, admin) = (Folder::new("dns-upgrade"), address(), address());
    let with = |workers: u32| {
        let more =
            format!("[runtime]\nworkers = {workers}\ndrain_timeout = '30s'\n[admin]\nhttp = {{ bind = '{admin}' }}");
        file(&folder, &listen, TWO, &more)
    };
    let mut running = Running::start(&["run", "-c", &with(3)]);
    let load = Load::start(&listen, "www.a.example");
    let all_went_on = |before: [u64; 3]| {
        let more = |(now, before): (u64, u64)| now > before + 200;
        load.counts().into_iter().zip(before).all(more).then_some(())
    };
    eventually("answers", || all_went_on([0; 3]));
    // The next one has fewer workers, so that one of them must look after two sockets of each kind.
    with(2);
    running.signal(Signal::USR2);
    let pid = eventually("the other process", || running.successor());
    let _ended = Adopted(pid);
    let before = load.counts();
    eventually("answers of both", || all_went_on(before));
    // What comes new comes to the new process, all of it.
    let (status, metrics) = get(&admin, "/metrics").expect("an answer");
    let queries =
        metrics.lines().find_map(|l| l.strip_prefix("evenkeel_dns_queries_total{listener=\"dns\",type=\"A\"} "));
    let queries: u64 = queries.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{status}: {metrics}"));
    assert!(queries > 200, "{queries} of {before:?} to {:?}", load.counts());
    let wrong = load.end();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", running.said());
    // The connections that it held have ended, so the first process has nothing left to do.
    assert_eq!(running.ends(), Some(0), "{}", running.said());
    assert!(running.said().contains("drained"), "{}", running.said());
    kill_process(pid, Signal::TERM).expect("it runs");
    eventually("its end", || test_kill_process(pid).is_err().then_some(()));
}

#[test]
fn sockets_of_the_service_manager_are_used() {
    let (folder, listen) = (Folder::new("dns-activated"), address());
    let (udp, tcp) = (UdpSocket::bind(&listen).expect("free"), TcpListener::bind(&listen).expect("free"));
    // Who came before anything served is answered too.
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.connect(&listen).expect("an address");
    client.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
    let query = query("www.a.example");
    client.send(&query).expect("sending works");
    let mut stream = TcpStream::connect(&listen).expect("it listens");
    // A shell passes them as number 3 and 4 and names itself, then becomes evenkeel.
    let run = format!(
        "exec 3<&0 4>&1; export LISTEN_PID=$$; exec '{}' run -c '{}' 0</dev/null 1>&2",
        env!("CARGO_BIN_EXE_evenkeel"),
        file(&folder, &listen, TWO, "[runtime]\nworkers = 2")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &run]).env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", "dns:dns");
    shell.stdin(OwnedFd::from(udp)).stdout(OwnedFd::from(tcp));
    let mut running = Running::from_all_of(shell);
    let mut answer = [0; 1500];
    let len = client.recv(&mut answer).expect("an answer");
    assert_eq!(addresses(&query, &answer[..len]).expect("a good answer").len(), 2);
    let answer = ask(&mut stream, &query).expect("an answer");
    assert_eq!(addresses(&query, &answer).expect("a good answer").len(), 2);
    assert!(!running.said().contains("no listener has its address"), "{}", running.said());
    running.signal(Signal::TERM);
    // What has come was answered; the connection ends, and is not reset.
    assert_eq!(stream.read(&mut [0; 1]).expect("an end"), 0);
    drop(stream);
    assert_eq!(running.code(), Some(0), "{}", running.said());
}

#[test]
fn an_address_that_another_process_answers_at_is_in_use() {
    let (folder, listen) = (Folder::new("dns-in-use"), address());
    let file = file(&folder, &listen, TWO, "[runtime]\nworkers = 1");
    let _running = Running::start(&["run", "-c", &file]);
    let second = crate::support::evenkeel(&["run", "-c", &file]);
    let said = crate::support::text(&second.stderr);
    assert!(!second.status.success() && said.contains("listener \"dns\": cannot listen on"), "{said}");
}

#[test]
fn a_reload_that_replaces_all_endpoints_leaves_no_moment_without_an_answer() {
    let (folder, listen) = (Folder::new("dns-replaced"), address());
    let endpoint = |n: u8| format!("10.9.0.{n}:80");
    let running = Running::start(&["run", "-c", &file(&folder, &listen, &[&endpoint(0)], "[runtime]\nworkers = 2")]);
    let load = Load::start(&listen, "www.a.example");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.connect(&listen).expect("an address");
    client.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
    let (query, mut answer) = (query("www.a.example"), [0; 1500]);
    for n in 1..40 {
        file(&folder, &listen, &[&endpoint(n)], "[runtime]\nworkers = 2");
        running.signal(Signal::HUP);
        loop {
            client.send(&query).expect("sending works");
            let len = client.recv(&mut answer).expect("an answer");
            let named = addresses(&query, &answer[..len]).unwrap_or_else(|code| panic!("reload {n}: {code}"));
            let last = |n: u8| named.iter().any(|ip| ip.octets() == [10, 9, 0, n]);
            assert!(last(n) || last(n - 1), "reload {n}: {named:?}");
            if last(n) {
                break;
            }
        }
    }
    let wrong = load.end();
    assert!(wrong.is_empty(), "{wrong:?}");
}
