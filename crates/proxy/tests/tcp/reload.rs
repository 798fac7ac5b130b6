//! Lifetime of sessions: they survive reloads that do not concern them, end with the drain timeout if their listener or
//! endpoint has left, and survive the death of other endpoints.

use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, SOON, own_addr, wait_until};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// An endpoint that echoes until the end.
fn echo() -> Endpoint {
    Endpoint::start(|conn| {
        loop {
            let some = conn.some(1024);
            if some.is_empty() {
                return;
            }
            conn.send(some);
        }
    })
}

fn config(listener: &str, endpoints: &[SocketAddr], pool: &str) -> String {
    let mut list = String::new();
    for addr in endpoints {
        write!(list, "\"{addr}\",").unwrap();
    }
    format!(
        "[runtime]\nworkers = 1\ndrain_timeout = \"300ms\"\n[listener.{listener}]\nbind = [\"$BIND\"]\nmode = \"tcp\"\n\
         pool = \"web\"\n[pool.web]\nendpoints = [{list}]\n{pool}"
    )
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("the proxy accepts");
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn echoes(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0])
}

#[test]
fn a_session_survives_reloads_that_do_not_concern_it() {
    let (endpoint, other) = (echo(), echo());
    let mut proxy = Proxy::start(&config("web", &[endpoint.addr], ""));
    let mut session = connect(proxy.addr());
    echoes(&mut session).unwrap();
    for (endpoints, pool) in [
        (&[endpoint.addr, other.addr][..], ""),
        (&[endpoint.addr], "balance = \"leastconn\""),
        (&[endpoint.addr], "limits = { requests_per_endpoint = 1 }"),
    ] {
        proxy.reload(&config("web", endpoints, pool)).unwrap();
        echoes(&mut session).unwrap();
        assert_eq!(proxy.in_flight(), 1);
    }
    drop(session);
    wait_until("it has ended", || proxy.in_flight() == 0);
}

#[test]
fn a_session_whose_endpoint_or_listener_has_left_ends_when_the_time_to_drain_is_over() {
    let (endpoint, other) = (echo(), echo());
    let mut proxy = Proxy::start(&config("web", &[endpoint.addr], ""));
    let mut session = connect(proxy.addr());
    echoes(&mut session).unwrap();
    proxy.reload(&config("web", &[other.addr], "")).unwrap();
    // The session continues until the drain timeout.
    echoes(&mut session).unwrap();
    assert_eq!(session.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);

    // The same for an endpoint that discovery removes.
    let (mut session, found) = (connect(proxy.addr()), echo());
    echoes(&mut session).unwrap();
    proxy.find(&[found.addr, other.addr]);
    echoes(&mut session).unwrap();
    proxy.find(&[found.addr]);
    echoes(&mut session).unwrap();
    assert_eq!(session.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.find(&[other.addr]);

    let mut session = connect(proxy.addr());
    echoes(&mut session).unwrap();
    proxy.reload(&config("renamed", &[other.addr], "")).unwrap();
    echoes(&mut session).unwrap();
    assert_eq!(session.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    echoes(&mut connect(proxy.addr())).unwrap();
}

#[test]
fn draining_lets_sessions_end_and_stopping_resets_them() {
    let endpoint = echo();
    let mut proxy = Proxy::start(&config("web", &[endpoint.addr], ""));
    let mut session = connect(proxy.addr());
    echoes(&mut session).unwrap();
    let mut stays = connect(proxy.addr());
    echoes(&mut stays).unwrap();
    proxy.drain();
    echoes(&mut session).unwrap();
    drop(session);
    wait_until("one has ended", || proxy.in_flight() == 1);
    assert!(!proxy.server().has_ended());
    proxy.stop();
    assert_eq!(stays.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn endpoints_that_die_and_come_back_under_load_cost_only_their_own_sessions() {
    let (stays, dies) = (echo(), own_addr());
    let pool = "balance = \"round_robin\"\nretry = { budget = 1, budget_floor = 1000 }\n\
                outlier = { consecutive_connect = 2, eject = \"200ms\", eject_max = \"200ms\" }";
    let proxy = Proxy::start(&config("web", &[stays.addr, dies], pool));
    let (over, served, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    match echoes(&mut connect(proxy.addr())) {
                        Ok(()) => served.fetch_add(1, SeqCst),
                        Err(_) => failed.fetch_add(1, SeqCst),
                    };
                }
            });
        }
        for _ in 0..3 {
            let before = served.load(SeqCst);
            wait_until("it is ejected and the others go on", || {
                proxy.state(dies) == "ejected" && served.load(SeqCst) > before + 20
            });
            let seen = Arc::new(AtomicU64::new(0));
            let count = seen.clone();
            let alive = Endpoint::on(TcpListener::bind(dies).expect("nobody took the port"), move |conn| {
                count.fetch_add(1, SeqCst);
                let some = conn.some(16);
                conn.send(some);
            });
            wait_until("it serves again", || seen.load(SeqCst) > 5);
            drop(alive);
        }
        over.store(true, SeqCst);
    });
    // At most the sessions that the endpoint had accepted when it died.
    assert!(failed.load(SeqCst) <= 12, "{} of {} failed", failed.load(SeqCst), served.load(SeqCst));
    wait_until("nothing is in flight", || proxy.in_flight() == 0 && proxy.listener(|l| l.active.get()) == 0);
}

#[test]
fn an_endpoint_that_hangs_costs_no_more_than_the_time_to_connect() {
    // With a full backlog, further connects get no answer.
    let hangs = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    hangs.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    hangs.listen(0).unwrap();
    let addr = hangs.local_addr().unwrap().as_socket().unwrap();
    let _fills = TcpStream::connect(addr).unwrap();
    let well = echo();
    let pool = "balance = \"round_robin\"\ntimeouts = { connect = \"100ms\" }\nretry = { budget = 1, budget_floor = 1000 }\n\
                outlier = \"off\"";
    let proxy = Proxy::start(&config("web", &[addr, well.addr], pool));
    for _ in 0..4 {
        echoes(&mut connect(proxy.addr())).unwrap();
    }
    assert!(proxy.endpoint(0, |e| e.errors[2].get()) >= 1, "timeouts");
}

#[test]
fn each_session_leaves_a_line_with_its_end() {
    let log = Log::new();
    let endpoint = echo();
    let proxy = Proxy::start(&format!("{}\n{}", log.config(), config("web", &[endpoint.addr], "")));
    let mut session = connect(proxy.addr());
    echoes(&mut session).unwrap();
    drop(session);
    let lines = log.lines(proxy);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    for (key, value) in [("proto", "TCP"), ("listener", "web"), ("route", "web"), ("pool", "web"), ("term", "--")] {
        assert_eq!(line[key], value, "{line}");
    }
    assert_eq!((&line["bytes_in"], &line["bytes_out"], &line["method"]), (&1.into(), &1.into(), &().into()));
    assert!(line["t_connect"].as_f64() <= line["t_total"].as_f64() && line["t_ttfb"].is_number(), "{line}");
}
