//! Sessions that pools share by weight, and listeners whose only route takes every session.

use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, SOON, wait_until};
use evenkeel_view::orders::SplitChanges;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

/// An endpoint that sends `name` at once, and closes when the client does.
fn greeting(name: &'static str) -> Endpoint {
    Endpoint::start(move |conn| {
        conn.send(name);
        conn.rest();
    })
}

/// A listener without a pool of its own, and the pools `a` and `b`.
fn config(routes: &str, [a, b]: [&Endpoint; 2]) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.db]\nbind = ['$BIND']\nmode = 'tcp'\n{routes}\n\
         [pool.a]\nendpoints = ['{}']\n[pool.b]\nendpoints = ['{}']\n",
        a.addr, b.addr
    )
}

fn connect(proxy: &Proxy, from: Option<IpAddr>) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    if let Some(from) = from {
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("an address of this machine");
    }
    socket.connect(&proxy.addr().into()).expect("the proxy accepts");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(SOON)).expect("sockets have timeouts");
    stream
}

/// First byte of the endpoint, which the client waits for without sending anything.
fn greeted(mut stream: &TcpStream) -> char {
    let mut name = [0];
    stream.read_exact(&mut name).expect("the endpoint speaks first");
    name[0].into()
}

fn greetings(proxy: &Proxy, n: usize) -> Vec<char> {
    (0..n).map(|_| greeted(&connect(proxy, None))).collect()
}

fn order(proxy: &Proxy, weights: &[(&str, u32)]) {
    let (numbers, control) = (proxy.server().numbers(), proxy.server().control());
    let changes: SplitChanges = Some(weights.iter().map(|(pool, weight)| ((*pool).into(), Some(*weight))).collect());
    let done =
        numbers.generation.splits.order((numbers.plan(), "db"), &changes, "me", (control.orders(), control.events()));
    done.expect("the route has a split");
}

#[test]
fn a_route_without_host_and_alpn_takes_clients_that_wait_for_the_endpoint() {
    let (a, b) = (greeting("a"), greeting("b"));
    let proxy = Proxy::start(&config("[[route]]\nmatch = { listener = ['db'] }\npool = 'b'", [&a, &b]));
    let mut client = connect(&proxy, None);
    assert_eq!(greeted(&client), 'b');
    client.write_all(b"not TLS").expect("the session is open");
}

#[test]
fn of_two_routes_for_every_session_the_lower_order_wins() {
    let (a, b) = (greeting("a"), greeting("b"));
    let routes = "[[route]]\nmatch = { listener = ['db'] }\npool = 'a'\norder = 2\nname = 'second'\n\
                  [[route]]\nmatch = { listener = ['db'] }\npool = 'b'\norder = 1\nname = 'first'";
    assert_eq!(greetings(&Proxy::start(&config(routes, [&a, &b])), 3), ['b'; 3]);
}

#[test]
fn sessions_are_shared_by_weight_and_each_keeps_its_pool() {
    let (a, b, log) = (greeting("a"), greeting("b"), Log::new());
    let split = |weights| {
        format!("[[route]]\nname = 'db'\nmatch = {{ listener = ['db'] }}\nsplit = {{ weights = {{ {weights} }} }}")
    };
    let mut proxy = Proxy::start(&(config(&split("a = 3, b = 1"), [&a, &b]) + &log.config()));
    // 400 draws with p = 1/4 are 100 with a standard deviation of 8.7: beyond five of them is less likely than 10^-6.
    let to_b = greetings(&proxy, 400).iter().filter(|name| **name == 'b').count();
    assert!((57..=143).contains(&to_b), "{to_b}");

    let mut open = connect(&proxy, None);
    let before = greeted(&open);
    // Orders count from the next session on, and over a reload that writes other weights.
    order(&proxy, &[("a", 0), ("b", 1)]);
    assert_eq!(greetings(&proxy, 20), ['b'; 20]);
    order(&proxy, &[("a", 1), ("b", 0)]);
    proxy.reload(&(config(&split("a = 1, b = 9"), [&a, &b]) + &log.config())).expect("nothing fails");
    assert_eq!(greetings(&proxy, 20), ['a'; 20]);
    open.write_all(b"still there").expect("the session is open");
    drop(open);

    wait_until("all have ended", || proxy.in_flight() == 0);
    let lines = log.lines(proxy);
    assert_eq!(lines.len(), 441);
    assert!(lines.iter().all(|line| line["route"] == "db"), "{lines:?}");
    let kept = lines.iter().find(|line| line["bytes_in"] == 11).expect("the session that stayed open");
    assert_eq!(kept["pool"], before.to_string());
}

#[test]
fn with_a_key_a_client_address_keeps_its_pool() {
    let (a, b) = (greeting("a"), greeting("b"));
    let split = "[[route]]\nmatch = { listener = ['db'] }\nsplit = { weights = { a = 1, b = 1 }, key = 'client-ip' }";
    let proxy = Proxy::start(&config(split, [&a, &b]));
    let mut seen = std::collections::BTreeSet::new();
    // All of 30 addresses have one pool with odds of 2^-29, and the hash is the same in every run.
    for host in 1..=30 {
        let from = Some(IpAddr::from([127, 0, 0, host]));
        let names: Vec<char> = (0..3).map(|_| greeted(&connect(&proxy, from))).collect();
        assert_eq!(names, [names[0]; 3]);
        seen.insert(names[0]);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_pool_whose_endpoints_all_drain_leaves_its_share_to_others() {
    let (a, b) = (greeting("a"), greeting("b"));
    let split = "[[route]]\nmatch = { listener = ['db'] }\nsplit = { weights = { a = 1, none = 1 } }";
    let none = "[pool.none]\nendpoints = [{ addr = '127.0.0.1:9', drain = true }]\n\
                [[route]]\nname = 'b'\nmatch = { listener = ['db'], host = ['b.example'] }\npool = 'b'";
    let proxy = Proxy::start(&(config(split, [&a, &b]) + none));
    let ended = |_: &usize| {
        let mut client = connect(&proxy, None);
        // Another route reads the ClientHello, so that the client has to speak first.
        let sent = client.write_all(b"not TLS");
        sent.is_err() || client.read_exact(&mut [0]).is_err()
    };
    let ended = (0..100).filter(ended).count();
    assert_eq!(ended, 0);
}
