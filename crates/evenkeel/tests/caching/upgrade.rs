//! Stored responses over an upgrade, with real processes.

use super::Setup;
use crate::support::{Adopted, Endpoint, Running, eventually, get, head};
use rustix::process::{Pid, Signal};
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

/// Upgrades, and waits until the process that takes over has the stored responses. Its id, and what it says of them.
fn upgrade(running: &Running) -> (Pid, String) {
    running.signal(Signal::USR2);
    let pid = eventually("the other process", || running.successor());
    let said = eventually("a handover", || {
        running.said().lines().find(|line| line.contains("the cache took over")).map(str::to_owned)
    });
    (pid, said)
}

#[test]
fn an_upgrade_keeps_what_is_stored() {
    let endpoint = Endpoint::start("one");
    let mut setup = Setup::new("caching-upgrade", &endpoint, "cache = { ttl = { 200 = '10m' } }");
    for i in 0..40 {
        assert_eq!(get(&setup.listen, &format!("/{i}")).expect("an answer").0, 200);
    }
    let purged = setup.command(&["cache", "purge", "--url", "http://test/7"]);
    assert!(purged.contains("1 response removed"), "{purged}");
    setup.command(&["cache", "purge", "--url", "http://test/8", "--soft"]);
    let (pid, said) = upgrade(&setup.running);
    let _ended = Adopted(pid);
    assert!(said.contains("took over 39 responses"), "{said}");
    assert_eq!(setup.running.ends(), Some(0), "{}", setup.running.said());
    assert!(setup.command(&["events"]).contains("the cache took over 39 responses"));
    assert!(setup.command(&["cache"]).contains("39 responses under 39 keys"));
    let before = endpoint.served();
    for i in 0..40 {
        assert_eq!(get(&setup.listen, &format!("/{i}")).expect("an answer").0, 200);
    }
    assert_eq!(endpoint.served() - before, 2, "only what was purged is fetched again, and what was made stale");
    // Purges hold as ever.
    setup.command(&["cache", "purge", "--all"]);
    assert_eq!(get(&setup.listen, "/1").expect("an answer").0, 200);
    assert_eq!(endpoint.served() - before, 3);
}

/// The first process finishes a request as long as the endpoint holds it, and is the other one's partner meanwhile.
#[test]
fn a_purge_during_an_upgrade_holds_in_both_processes() {
    let endpoint = Endpoint::start("one");
    let mut setup = Setup::new("caching-upgrade-purge", &endpoint, "cache = { ttl = { 200 = '10m' } }");
    assert_eq!(get(&setup.listen, "/a").expect("an answer").0, 200);
    let (gate, listen) = (endpoint.hold(), setup.listen.clone());
    let held = std::thread::spawn(move || get(&listen, "/held"));
    eventually("a request at the endpoint", || (endpoint.began() == 2).then_some(()));
    let (pid, _) = upgrade(&setup.running);
    let _ended = Adopted(pid);
    let purged = setup.command(&["cache", "purge", "--all"]);
    assert!(purged.starts_with("everything: 1 response removed"), "{purged}");
    drop(gate);
    // Asked for before the purge, and answered by the first process.
    assert_eq!(held.join().expect("no panic").expect("an answer").0, 200);
    assert_eq!(setup.running.ends(), Some(0), "{}", setup.running.said());
    let before = endpoint.served();
    for path in ["/a", "/held"] {
        assert_eq!(get(&setup.listen, path).expect("an answer").0, 200);
    }
    assert_eq!(endpoint.served() - before, 2);
}

/// An endpoint that halts in its first response: it sends half of the body, and the rest after a message to the sender.
/// Without a message it closes. Later requests get the whole body.
fn halting() -> (String, mpsc::Sender<()>) {
    let (go, gone) = mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        let mut gone = Some(gone);
        for stream in listener.incoming().map_while(Result::ok) {
            let gone = gone.take();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                if head(&mut stream).is_none() {
                    return;
                }
                let stream = stream.get_mut();
                let begin =
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncache-control: max-age=600\r\ncontent-length: 10\r\n\r\n";
                let is_sent = stream.write_all(format!("{begin}01234").as_bytes()).is_ok();
                if is_sent && gone.is_none_or(|gone| gone.recv().is_ok()) {
                    let _ = stream.write_all(b"56789");
                }
            });
        }
    });
    (addr, go)
}

/// Whole or cut: a short body never looks complete.
#[test]
fn a_response_that_is_arriving_at_an_upgrade_reaches_the_clients_of_the_first_process() {
    for is_whole in [true, false] {
        let (endpoint, go) = halting();
        let mut setup = Setup::before("caching-upgrade-arriving", &endpoint, "cache = true");
        let mut clients: Vec<TcpStream> = (0..3)
            .map(|_| {
                let mut client = TcpStream::connect(&setup.listen).expect("it listens");
                client.write_all(b"GET /a HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").expect("it reads");
                let mut seen = Vec::new();
                while !seen.ends_with(b"\r\n\r\n01234") {
                    let mut byte = [0];
                    client.read_exact(&mut byte).expect("half of the response");
                    seen.extend(byte);
                }
                client
            })
            .collect();
        let (pid, _) = upgrade(&setup.running);
        let _ended = Adopted(pid);
        eventually("the first process to drain", || setup.running.said().contains("draining").then_some(()));
        // The other process fetches it itself. A worker of the first may still accept a client after the message, which would
        // have the half of that process.
        eventually("the other process to answer", || {
            let mut client = TcpStream::connect(&setup.listen).ok()?;
            client.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
            client.write_all(b"GET /a HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").ok()?;
            let mut response = String::new();
            let _ = client.read_to_string(&mut response);
            response.ends_with("\r\n\r\n0123456789").then_some(())
        });
        if is_whole {
            go.send(()).expect("the endpoint waits");
        }
        drop(go);
        for client in &mut clients {
            let mut rest = String::new();
            let _ = client.read_to_string(&mut rest);
            assert_eq!(rest, if is_whole { "56789" } else { "" });
        }
        assert_eq!(setup.running.ends(), Some(0), "{}", setup.running.said());
        assert_eq!(get(&setup.listen, "/a").expect("an answer").1, "0123456789");
    }
}
