//! Relay of sessions: each direction to its own end, resets included, and another endpoint if one cannot be connected
//! to.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, SOON, noise, own_addr, wait_until};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

/// A proxy in TCP mode, with more lines for the listener and for the pool.
fn passing(endpoints: &[SocketAddr], listener: &str, pool: &str) -> Proxy {
    let mut list = String::new();
    for addr in endpoints {
        write!(list, "\"{addr}\",").unwrap();
    }
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n{listener}\n\
         [pool.web]\nbalance = \"round_robin\"\nendpoints = [{list}]\n{pool}"
    ))
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.addr()).expect("the proxy accepts");
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream
}

fn rest(mut stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).map(|_| all)
}

fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
}

/// An endpoint that echoes until the end.
fn echo() -> Endpoint {
    Endpoint::start(|conn| {
        loop {
            let some = conn.some(64 * 1024);
            if some.is_empty() {
                return;
            }
            conn.send(some);
        }
    })
}

/// An endpoint that sends `name` and closes.
fn saying(name: &'static str) -> Endpoint {
    Endpoint::start(move |conn| conn.send(name))
}

fn ends(proxy: &Proxy, cause: evenkeel_proxy::end::Cause) -> u64 {
    proxy.listener(|l| l.ends[cause as usize].get())
}

#[test]
fn the_one_who_speaks_first_may_be_the_endpoint() {
    let endpoint = Endpoint::start(|conn| {
        conn.send("ready\n");
        assert_eq!(conn.bytes(3), b"go\n");
        conn.send("gone\n");
    });
    let proxy = passing(&[endpoint.addr], "", "");
    let mut client = connect(&proxy);
    let mut ready = [0; 6];
    client.read_exact(&mut ready).unwrap();
    client.write_all(b"go\n").unwrap();
    assert_eq!(rest(&client).unwrap(), b"gone\n");
}

#[test]
fn each_way_ends_by_itself() {
    let endpoint = Endpoint::start(|conn| {
        // The client's end arrives before the answer.
        let asked = conn.rest();
        conn.send(format!("{} bytes", asked.len()));
    });
    let proxy = passing(&[endpoint.addr], "", "");
    let mut client = connect(&proxy);
    client.write_all(&noise(100_000)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&client).unwrap(), b"100000 bytes");

    let (told, tells) = std::sync::mpsc::channel();
    let endpoint = Endpoint::start(move |conn| {
        conn.send("no more from here");
        conn.finish_sending();
        told.send(conn.rest().len()).unwrap();
    });
    let proxy = passing(&[endpoint.addr], "", "");
    let mut client = connect(&proxy);
    assert_eq!(rest(&client).unwrap(), b"no more from here");
    client.write_all(&noise(100_000)).unwrap();
    drop(client);
    assert_eq!(tells.recv_timeout(SOON).unwrap(), 100_000);
    wait_until("it ended", || ends(&proxy, evenkeel_proxy::end::Cause::Normal) == 1);
}

#[test]
fn a_gigabyte_arrives_whole_both_ways_at_once() {
    let len = 1 << 30;
    let endpoint = echo();
    let proxy = passing(&[endpoint.addr], "", "");
    let client = connect(&proxy);
    let block = noise(1 << 20);
    let (mut sending, sent) = (client.try_clone().unwrap(), block.clone());
    let upload = std::thread::spawn(move || {
        for at in 0..len >> 20 {
            // Blocks differ, so that one that is lost, doubled or moved is found.
            sending.write_all(&(at as u64).to_le_bytes()).unwrap();
            sending.write_all(&sent[8..]).unwrap();
        }
        sending.shutdown(Shutdown::Write).unwrap();
    });
    let (mut got, mut reader) = (vec![0; 1 << 20], &client);
    for at in 0..len >> 20 {
        reader.read_exact(&mut got).unwrap();
        assert!(got[..8] == (at as u64).to_le_bytes() && got[8..] == block[8..], "block {at}");
    }
    assert_eq!(rest(&client).unwrap(), b"");
    upload.join().unwrap();
    wait_until("it is counted", || proxy.listener(|l| l.bytes_out.get()) == len as u64);
    assert_eq!(proxy.listener(|l| l.bytes_in.get()), len as u64);
}

#[test]
fn a_reset_is_passed_on_as_one() {
    use evenkeel_proxy::end::Cause;
    let endpoint = Endpoint::start(|conn| {
        conn.send("half an ans");
        conn.bytes(3);
        conn.reset_at_end();
    });
    let proxy = passing(&[endpoint.addr], "", "");
    let mut client = connect(&proxy);
    let mut begun = [0; 11];
    client.read_exact(&mut begun).unwrap();
    client.write_all(b"bye").unwrap();
    assert_eq!(rest(&client).unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait_until("it is counted", || ends(&proxy, Cause::Endpoint) == 1);
    assert_eq!(proxy.listener(|l| l.resets[1].get()), 1);

    let (told, tells) = std::sync::mpsc::channel();
    let endpoint = Endpoint::start(move |conn| {
        conn.send("hello");
        let mut byte = [0];
        told.send(conn.stream.read(&mut byte).map_err(|e| e.kind())).unwrap();
    });
    let proxy = passing(&[endpoint.addr], "", "");
    let mut client = connect(&proxy);
    client.read_exact(&mut [0; 5]).unwrap();
    reset(client);
    assert_eq!(tells.recv_timeout(SOON).unwrap(), Err(ErrorKind::ConnectionReset));
    wait_until("it is counted", || ends(&proxy, Cause::Client) == 1);
    assert_eq!(proxy.listener(|l| l.resets[0].get()), 1);
}

#[test]
fn a_client_that_resets_while_its_endpoint_does_not_read_is_noticed() {
    let (told, tells) = std::sync::mpsc::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let endpoint = Endpoint::start(move |conn| {
        wait.lock().unwrap().recv().unwrap();
        told.send(conn.rest().len()).unwrap();
    });
    let proxy = passing(&[endpoint.addr], "", "");
    let client = connect(&proxy);
    client.set_nonblocking(true).unwrap();
    let block = noise(1 << 20);
    // Until nobody takes any more, which is assumed when nothing has moved for a while. If that is too early, less is
    // in flight and the assertions are the same.
    let (mut sent, mut stuck) = (0, 0);
    while stuck < 200 {
        match (&client).write(&block) {
            Ok(n) => (sent, stuck) = (sent + n, 0),
            Err(_) => {
                stuck += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
    assert!(sent > 0);
    reset(client);
    wait_until("the reset is noticed", || proxy.listener(|l| l.resets[0].get()) == 1);
    go.send(()).unwrap();
    tells.recv_timeout(SOON).unwrap();
}

#[test]
fn a_connection_that_is_refused_is_tried_elsewhere_with_the_same_bytes() {
    let endpoint = echo();
    let proxy =
        passing(&[own_addr(), endpoint.addr], "", "retry = { budget = 1, budget_floor = 1000 }\noutlier = \"off\"");
    for n in 0..20 {
        let mut client = connect(&proxy);
        client.write_all(format!("number {n}").as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(&client).unwrap(), format!("number {n}").as_bytes());
    }
    assert!(proxy.pool(|p| p.retries.get()) >= 5);
    assert!(proxy.endpoint(0, |e| e.errors[0].get()) >= 5);
}

#[test]
fn where_nobody_accepts_the_client_is_reset() {
    let proxy = passing(&[own_addr()], "", "");
    let client = connect(&proxy);
    assert_eq!(rest(&client).unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait_until("it is counted", || ends(&proxy, evenkeel_proxy::end::Cause::Endpoint) == 1);
}

/// With full jitter up to a minute, a pause below 10 ms, before which the client might not leave, has odds of 1 in
/// 6000.
#[test]
fn a_client_that_leaves_before_another_try_is_noticed_at_once() {
    use evenkeel_proxy::end::Cause;
    use evenkeel_proxy::stats::ErrorKind;
    let retry = "outlier = 'off'\nretry = { attempts = 2, backoff = '1m..1m' }";
    let proxy = passing(&[own_addr(), own_addr()], "", retry);
    let client = connect(&proxy);
    (&client).write_all(b"x").unwrap();
    let failed = || [0, 1].map(|i| proxy.endpoint(i, |e| e.errors[ErrorKind::Connect as usize].get()));
    wait_until("both have refused", || failed() == [1, 1]);
    reset(client);
    wait_until("the client is gone", || ends(&proxy, Cause::Client) == 1);
    assert_eq!((failed(), proxy.pool(|pool| pool.retries.get())), ([1, 1], 1));
}

#[test]
fn failed_connects_in_a_row_eject_an_endpoint_and_it_comes_back() {
    let endpoint = saying("well");
    let dead = own_addr();
    let pool = "retry = { budget = 1, budget_floor = 1000 }\noutlier = { consecutive_connect = 3, eject = \"1s\" }";
    let proxy = passing(&[dead, endpoint.addr], "", pool);
    wait_until("it is ejected", || {
        assert_eq!(rest(&connect(&proxy)).unwrap(), b"well");
        proxy.state(dead) == "ejected"
    });
    let listener = TcpListener::bind(dead).expect("nobody took the port");
    let _revived = Endpoint::on(listener, |conn| conn.send("revived"));
    wait_until("it serves again", || rest(&connect(&proxy)).unwrap() == b"revived");
}

#[test]
fn sessions_wait_for_a_place_and_the_rest_is_refused() {
    let endpoint = echo();
    let pool = "limits = { requests_per_endpoint = 1 }\nqueue = { max = 1, timeout = \"10s\" }";
    let proxy = passing(&[endpoint.addr], "", pool);
    let mut first = connect(&proxy);
    first.write_all(b"a").unwrap();
    first.read_exact(&mut [0]).unwrap();
    let mut second = connect(&proxy);
    second.write_all(b"b").unwrap();
    wait_until("it waits", || proxy.waiting() == 1);
    assert_eq!(rest(&connect(&proxy)).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(first);
    second.read_exact(&mut [0]).unwrap();
    assert_eq!(proxy.pool(|p| p.queue_rejected[0].get()), 1);
}

#[test]
fn connections_over_the_limits_are_closed_at_once() {
    let endpoint = echo();
    let proxy = passing(&[endpoint.addr], "limits = { connections_per_address = 1 }", "");
    let mut first = connect(&proxy);
    first.write_all(b"a").unwrap();
    first.read_exact(&mut [0]).unwrap();
    let second = connect(&proxy);
    assert_eq!(rest(&second).unwrap_or_default(), b"");
    assert_eq!(proxy.listener(|l| l.rejected[1].get()), 1);
    drop(first);
}

#[test]
fn a_session_without_a_byte_for_too_long_is_reset() {
    let endpoint = Endpoint::start(|conn| {
        conn.rest();
    });
    let proxy = passing(&[endpoint.addr], "", "timeouts = { idle = \"300ms\" }");
    let client = connect(&proxy);
    assert_eq!(rest(&client).unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait_until("it is counted", || ends(&proxy, evenkeel_proxy::end::Cause::ClientSlow) == 1);
}

/// Such a session once kept its place at the endpoint for all of `idle`.
#[test]
fn a_session_of_which_one_half_is_open_ends_after_a_time_of_its_own() {
    use evenkeel_proxy::end::Cause;
    let (let_go, may_let_go) = std::sync::mpsc::channel::<()>();
    let may_let_go = std::sync::Mutex::new(may_let_go);
    let endpoint = Endpoint::start(move |conn| {
        if conn.bytes(1) == b"e" {
            conn.finish_sending();
        } else {
            assert_eq!(conn.rest(), b"lient's half");
        }
        // The endpoint does not end its side. The deadline is for a failed assertion below, which waits for this
        // script.
        let _ = may_let_go.lock().unwrap().recv_timeout(SOON);
    });
    let timeouts = "timeouts = { idle = \"1h\", half_closed = \"300ms\" }";
    let proxy = passing(&[endpoint.addr], "", timeouts);
    let mut first = connect(&proxy);
    first.write_all(b"client's half").unwrap();
    wait_until("it is open", || proxy.in_flight() == 1);
    first.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&first).unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait_until("its place is free", || proxy.in_flight() == 0);
    wait_until("it is counted", || ends(&proxy, Cause::EndpointSlow) == 1);

    let mut second = connect(&proxy);
    second.write_all(b"e").unwrap();
    assert_eq!(rest(&second).unwrap(), b"", "the end is passed on");
    wait_until("its place is free", || proxy.in_flight() == 0);
    wait_until("it is counted", || ends(&proxy, Cause::ClientSlow) == 1);
    drop(let_go);
}

/// `half_closed` limits silence only: a response may take any time.
#[test]
fn a_half_that_still_moves_is_not_cut() {
    let endpoint = Endpoint::start(|conn| {
        conn.rest();
        for _ in 0..20 {
            conn.send("x");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let proxy = passing(&[endpoint.addr], "", "timeouts = { half_closed = \"1s\" }");
    let client = connect(&proxy);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&client).unwrap(), [b'x'; 20]);
}

#[test]
fn an_endpoint_learns_who_the_client_is() {
    let endpoint = Endpoint::start(|conn| {
        let line = conn.next_line();
        conn.send(line);
    });
    let proxy = passing(&[endpoint.addr], "accept_proxy_protocol = [\"127.0.0.0/8\"]", "proxy_protocol = \"v1\"");
    let mut client = connect(&proxy);
    client.write_all(b"PROXY TCP4 192.0.2.1 192.0.2.9 1234 5432\r\nfirst bytes").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&client).unwrap(), b"PROXY TCP4 192.0.2.1 192.0.2.9 1234 5432\r\n");
    // Without bytes of the client, the header is sent at once.
    let mut silent = connect(&proxy);
    silent.write_all(b"PROXY TCP4 192.0.2.2 192.0.2.9 1 2\r\n").unwrap();
    assert_eq!(rest(&silent).unwrap(), b"PROXY TCP4 192.0.2.2 192.0.2.9 1 2\r\n");
}

#[test]
fn leastconn_counts_sessions_until_both_ways_have_ended() {
    let (one, other) = (echo(), echo());
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n\
         [pool.web]\nbalance = \"leastconn\"\nendpoints = [\"{}\", \"{}\"]",
        one.addr, other.addr
    ));
    let active = |i| proxy.endpoint(i, |e| e.active.get());
    let mut open: Vec<_> = (0..4).map(|_| connect(&proxy)).collect();
    wait_until("all are open", || active(0) + active(1) == 4);
    assert_eq!(active(0), 2);
    // A half-closed session still counts.
    open[0].shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&open[0]).unwrap(), b"");
    wait_until("one has ended", || active(0) + active(1) == 3);
    open.push(connect(&proxy));
    wait_until("they are even", || active(0) == 2 && active(1) == 2);
}

#[test]
fn the_log_has_the_reason_why_a_session_reached_no_endpoint() {
    let gone = own_addr();
    for (keys, reason, term) in [
        (format!("\"{gone}\""), format!("pool \"web\": cannot connect to endpoint {gone}: "), "SC"),
        (format!("{{ addr = \"{gone}\", drain = true }}"), "0 of 1 endpoints eligible (1 draining)".into(), "PR"),
    ] {
        let log = Log::new();
        let proxy = Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n\
             [pool.web]\nendpoints = [{keys}]\nretry = {{ attempts = 1 }}\n{}",
            log.config()
        ));
        assert!(rest(&connect(&proxy)).is_err(), "a session that got nowhere is reset");
        let lines = log.lines(proxy);
        assert!(lines[0]["reason"].as_str().is_some_and(|said| said.contains(&reason)), "{lines:?}");
        assert_eq!(lines[0]["term"], term);
    }
}
