//! UDP flows over real sockets: their endpoints, their ends, and the changes that they survive.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support;
use crate::support::datagrams::{Echo, ask, ask_until_answered, client, client_at, hear};
use crate::support::log::Log;
use crate::support::{Proxy, noise, wait_until};
use evenkeel_balance::algorithms;
use evenkeel_proxy::stats::UdpStats;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Configuration of a UDP listener for these endpoints, with more lines for the listener and for the pool.
fn config(endpoints: &[SocketAddr], listener: &str, pool: &str) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(|addr| format!("\"{addr}\"")).collect();
    let idle = if listener.contains("udp =") { "" } else { "udp = { idle = \"500ms\" }" };
    let balance = if pool.contains("balance") { "" } else { "balance = \"round_robin\"" };
    format!(
        "[runtime]\nworkers = 2\n[listener.echo]\nbind = [\"$BIND\"]\nmode = \"udp\"\npool = \"web\"\n{idle}\n{listener}\n\
         [pool.web]\nendpoints = [{}]\n{balance}\n{pool}\n",
        endpoints.join(", ")
    )
}

fn before(endpoints: &[Echo], listener: &str, pool: &str) -> Proxy {
    let addresses: Vec<SocketAddr> = endpoints.iter().map(|e| e.addr).collect();
    Proxy::start(&config(&addresses, listener, pool))
}

fn three() -> Vec<Echo> {
    NAMES.into_iter().map(Echo::new).collect()
}

fn udp(proxy: &Proxy, what: impl Fn(&UdpStats) -> u64) -> u64 {
    proxy.listener(|l| what(&l.udp))
}

#[test]
fn a_client_keeps_its_endpoint_and_clients_are_spread() {
    let endpoints = three();
    let proxy = before(&endpoints, "", "");
    let clients: Vec<_> = (0..30).map(|_| client(proxy.addr())).collect();
    let first: Vec<_> = clients.iter().map(|client| ask(client, b"1")).collect();
    let second: Vec<_> = clients.iter().map(|client| ask(client, b"1")).collect();
    assert_eq!(first, second);
    // Each of the two workers takes turns on its own, so an endpoint is at most one off per worker.
    for name in NAMES {
        let n = first.iter().filter(|answer| answer[..] == *format!("{name}1").as_bytes()).count();
        assert!((8..=12).contains(&n), "{name} has {n}");
    }
    assert_eq!(udp(&proxy, |u| u.flows.get()), 30);
    assert_eq!([udp(&proxy, |u| u.datagrams_in.get()), udp(&proxy, |u| u.bytes_in.get())], [60, 60]);
    wait_until("all are counted", || udp(&proxy, |u| u.bytes_out.get()) == 120);
    assert_eq!(proxy.in_flight(), 30, "a flow holds its ticket");
    wait_until("they end", || udp(&proxy, |u| u.active.get()) == 0);
    assert_eq!(udp(&proxy, |u| u.ended[0].get()), 30);
}

#[test]
fn every_algorithm_serves_datagrams() {
    let endpoints = three();
    for algorithm in algorithms::ALL.iter().filter(|a| !a.needs.probes) {
        let proxy = before(&endpoints, "", &format!("balance = \"{}\"", algorithm.name));
        for i in 0..20_u8 {
            let client = client_at(&format!("127.0.0.{}:0", i % 5 + 1), proxy.addr());
            assert_eq!(ask(&client, b"x")[1..], *b"x", "{}", algorithm.name);
        }
    }
}

#[test]
fn maglev_keeps_a_client_address_whatever_its_port() {
    let endpoints = three();
    // Flows end at once, as the bounded load of maglev would move clients away from busy endpoints.
    let proxy = before(&endpoints, "udp = { idle = \"1h\", answers = 1 }", "balance = \"maglev\"");
    let mut seen = std::collections::BTreeSet::new();
    for host in 1..=40 {
        let answer = |_| ask(&client_at(&format!("127.0.0.{host}:0"), proxy.addr()), b"");
        let answers: Vec<_> = (0..3).map(answer).collect();
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
        seen.extend(answers);
    }
    // 40 addresses miss one of three endpoints with odds of 3 (2/3)^40 < 10^-6, and the hash is the same in every run.
    assert_eq!(seen.len(), 3);
}

#[test]
fn each_length_goes_through_as_it_is() {
    let endpoints = [Echo::new("")];
    let proxy = before(&endpoints, "", "");
    let client = client(proxy.addr());
    let bytes = noise(65_507);
    for len in [0, 1, 200, 1472, 1473, 9000, 65_507] {
        assert!(ask(&client, &bytes[..len]) == bytes[..len], "{len}");
    }
}

#[test]
fn bursts_of_equal_datagrams_come_as_they_were_sent() {
    let endpoints = [Echo::new("")];
    let proxy = before(&endpoints, "", "");
    let client = client(proxy.addr());
    for burst in [vec![200; 50], vec![200, 200, 10, 200, 0, 0, 300, 300, 299], (1..40).collect()] {
        let datagrams: Vec<Vec<u8>> = burst.iter().enumerate().map(|(i, len)| vec![i as u8; *len]).collect();
        datagrams.iter().for_each(|datagram| _ = client.send(datagram).expect("sending works"));
        let answers: Vec<Vec<u8>> = datagrams.iter().map(|_| hear(&client)).collect();
        assert_eq!(answers, datagrams);
    }
}

#[test]
fn an_endpoint_that_is_gone_is_left_after_its_first_refusal() {
    let (mut endpoints, log) = (three(), Log::new());
    let proxy = Proxy::start(&format!(
        "{}{}",
        config(
            &endpoints.iter().map(|e| e.addr).collect::<Vec<_>>(),
            "udp = { idle = \"3s\" }",
            "outlier = { consecutive_connect = 2 }"
        ),
        log.config()
    ));
    let clients: Vec<_> = (0..30).map(|_| client(proxy.addr())).collect();
    clients.iter().for_each(|client| _ = ask(client, b""));
    let gone = endpoints.remove(1).addr;
    for client in &clients {
        // If the flow was at the endpoint that is gone, the first datagram gets the refusal, and the next one moves.
        assert_ne!(ask_until_answered(client, b""), b"b");
    }
    assert!(udp(&proxy, |u| u.moved.get()) >= 8);
    proxy.becomes(gone, "ejected");
    wait_until("all have ended", || proxy.in_flight() == 0);
    let lines = log.lines(proxy);
    assert_eq!(lines.len(), 30);
    assert!(lines.iter().all(|line| line["proto"] == "UDP" && line["endpoint"] != gone.to_string()), "{lines:?}");
    assert!(lines.iter().filter(|line| line["tries"].as_u64() >= Some(2)).count() >= 8);
}

/// The kernel accepts a datagram to a closed port, which must not count as delivered.
#[test]
fn datagrams_that_a_closed_port_refuses_are_counted() {
    let gone = three().remove(0).addr;
    let proxy = Proxy::start(&config(&[gone], "", "outlier = 'off'"));
    let client = client(proxy.addr());
    let refused = || udp(&proxy, |u| u.lost[7].get());
    for n in 1..=20 {
        client.send(b"x").expect("sending works");
        wait_until("it is counted", || refused() == n);
    }
    assert_eq!(proxy.endpoint(0, |e| e.errors[0].get()), 20);
}

#[test]
fn an_endpoint_that_hangs_loses_its_flows_by_its_check_and_gets_new_ones_when_it_is_back() {
    let endpoints = [Echo::new("a"), Echo::new("b")];
    let health =
        "health = { udp = { send = \"ping\", expect = \"hex:70 69 6e 67\" }, interval = \"50ms\", timeout = \"40ms\" }";
    let proxy = before(&endpoints, "udp = { idle = \"3s\" }", health);
    endpoints.iter().for_each(|e| proxy.becomes(e.addr, "up"));
    let clients: Vec<_> = (0..8).map(|_| client(proxy.addr())).collect();
    clients.iter().for_each(|client| _ = ask(client, b""));
    endpoints[0].hang(true);
    proxy.becomes(endpoints[0].addr, "down");
    clients.iter().for_each(|client| assert_eq!(ask_until_answered(client, b""), b"b"));
    endpoints[0].hang(false);
    proxy.becomes(endpoints[0].addr, "up");
    wait_until("it serves", || ask(&client(proxy.addr()), b"") == b"a");
}

#[test]
fn the_flow_that_is_idle_longest_makes_room() {
    let endpoints = [Echo::new("")];
    let config = config(&[endpoints[0].addr], "limits = { connections = 2 }", "").replace("workers = 2", "workers = 1");
    let proxy = Proxy::start(&config);
    let clients: Vec<_> = (0..3).map(|_| client(proxy.addr())).collect();
    for i in [0, 1, 0, 2, 0] {
        ask(&clients[i], b"");
    }
    let ports = endpoints[0].seen();
    assert_eq!([ports[0], ports[0]], [ports[2], ports[4]], "the first was never idle longest");
    assert_eq!([udp(&proxy, |u| u.active.get()), udp(&proxy, |u| u.ended[2].get())], [2, 1]);
    ask(&clients[1], b"");
    assert_ne!(endpoints[0].seen()[5], ports[1], "its flow is a new one");
}

#[test]
fn a_flow_with_all_its_answers_ends_at_once() {
    let endpoints = [Echo::new("")];
    let proxy = before(&endpoints, "udp = { idle = \"1h\", answers = 1 }", "");
    let client = client(proxy.addr());
    for _ in 0..3 {
        ask(&client, b"");
        wait_until("it has ended", || proxy.in_flight() == 0);
    }
    assert_eq!([udp(&proxy, |u| u.flows.get()), udp(&proxy, |u| u.ended[1].get())], [3, 3]);
}

#[test]
fn what_an_endpoint_that_was_gone_was_asked_is_owed_no_answer() {
    let addr = support::own_addr();
    let proxy = Proxy::start(&config(&[addr], "udp = { idle = \"1h\", answers = 1 }", ""));
    let client = client(proxy.addr());
    client.send(b"").expect("sending works");
    wait_until("it is refused", || proxy.endpoint(0, |e| e.errors[0].get()) == 1);
    let _back = Echo::at(addr, "");
    ask(&client, b"");
    wait_until("its flow has ended", || udp(&proxy, |u| u.ended[1].get()) == 1);
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    let endpoints = [Echo::new("")];
    for any in ["0.0.0.0", "[::]"] {
        let config = config(&[endpoints[0].addr], "", "");
        let free = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|s| s.local_addr()).expect("a port");
        let _proxy = Proxy::start(&config.replace("$BIND", &format!("{any}:{}", free.port())));
        // A connected socket receives only from its peer.
        let mut clients: Vec<_> =
            (1..5).map(|host| client_at("127.0.0.1:0", (Ipv4Addr::new(127, 0, 0, host), free.port()).into())).collect();
        if any == "[::]" {
            clients.push(client_at("[::1]:0", (Ipv6Addr::LOCALHOST, free.port()).into()));
        }
        for client in &clients {
            assert_eq!(ask(client, b"x"), b"x");
            (0..9).for_each(|_| _ = client.send(b"same").expect("sending works"));
            (0..9).for_each(|_| assert_eq!(hear(client), b"same"));
        }
        // One client port may use several local addresses: each is a flow of its own.
        let one = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        one.set_read_timeout(Some(support::SOON)).expect("sockets have timeouts");
        for host in 1..4 {
            let to = SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), free.port()));
            one.send_to(b"y", to).expect("sending works");
            assert_eq!(one.recv_from(&mut [0; 9]).expect("an answer").1, to);
        }
    }
}

#[test]
fn a_change_keeps_flows_that_it_does_not_touch_and_moves_the_others() {
    let endpoints = three();
    let [a, b, c] = [0, 1, 2].map(|i| endpoints[i].addr);
    let mut proxy = Proxy::start(&config(&[a, b], "udp = { idle = \"2s\" }", ""));
    let clients: Vec<_> = (0..8).map(|_| client(proxy.addr())).collect();
    let first: Vec<_> = clients.iter().map(|client| ask(client, b"")).collect();
    let ports = endpoints[0].seen();
    for (balance, listener) in [("leastconn", ""), ("random", "limits = { connections = 100 }")] {
        let pool = format!("balance = \"{balance}\"");
        let listener = format!("udp = {{ idle = \"2s\" }}\n{listener}");
        proxy.reload(&config(&[c, b, a], &listener, &pool)).expect("nothing fails");
        let again: Vec<_> = clients.iter().map(|client| ask(client, b"")).collect();
        assert_eq!(again, first);
    }
    assert_eq!(endpoints[0].seen(), [&ports[..], &ports[..], &ports[..]].concat(), "over the same sockets");
    assert_eq!(udp(&proxy, |u| u.flows.get()), 8);
    proxy.reload(&config(&[b], "udp = { idle = \"2s\" }", "")).expect("nothing fails");
    wait_until("the others are at b", || clients.iter().all(|client| ask_until_answered(client, b"") == b"b"));
    proxy.find(&[a]);
    wait_until("all are at a", || clients.iter().all(|client| ask_until_answered(client, b"") == b"a"));
    assert_eq!(udp(&proxy, |u| u.flows.get()), 8, "they are still the same flows");
}

/// The endpoint that a flow moves to owes no answers to earlier datagrams.
#[test]
fn a_flow_that_moves_is_timed_anew() {
    let [first, quick, slow] = NAMES.map(Echo::new);
    slow.takes(Duration::from_millis(400));
    let text = config(&[first.addr], "udp = { idle = \"800ms\" }", "balance = \"peak_ewma\"");
    let mut proxy = Proxy::start(&text.replace("workers = 2", "workers = 1"));
    let moving = client(proxy.addr());
    ask(&moving, b"");
    proxy.find(&[quick.addr]);
    wait_until("it has moved", || ask_until_answered(&moving, b"") == b"b");
    wait_until("it has ended, long after the last answer", || proxy.in_flight() == 0);
    proxy.find(&[quick.addr, slow.addr]);
    let other = (0..64).find(|_| ask(&client(proxy.addr()), b"") == b"c");
    assert!(other.is_some(), "one that was not measured yet is taken for as quick as the others");
    wait_until("they have ended", || proxy.in_flight() == 0);
    let more: Vec<_> = (0..5).map(|_| client(proxy.addr())).collect();
    assert!(more.iter().all(|client| ask(client, b"") == b"b"), "nobody has seen it take long");
}

#[test]
fn one_address_may_have_so_many_flows_and_begin_them_so_fast() {
    let endpoints = [Echo::new("")];
    let proxy = before(&endpoints, "limits = { connections_per_address = 2 }", "");
    let clients: Vec<_> = (0..3).map(|_| client(proxy.addr())).collect();
    (0..2).for_each(|i| _ = ask(&clients[i], b""));
    clients[2].send(b"").expect("sending works");
    wait_until("it is dropped", || udp(&proxy, |u| u.lost[3].get()) == 1);
    ask(&client_at("127.0.0.2:0", proxy.addr()), b"");
    wait_until("they end", || udp(&proxy, |u| u.active.get()) == 0);
    ask(&clients[2], b"");

    let proxy = before(&endpoints, "limits = { requests_per_address = 0.001, burst_per_address = 2 }", "");
    let clients: Vec<_> = (0..3).map(|_| client(proxy.addr())).collect();
    (0..4).for_each(|i| _ = ask(&clients[i % 2], b""));
    clients[2].send(b"").expect("sending works");
    wait_until("it is dropped", || udp(&proxy, |u| u.lost[4].get()) == 1);
}

#[test]
fn a_pool_without_endpoints_drops_and_counts() {
    let proxy = Proxy::start(&config(
        &[support::own_addr()],
        "",
        "panic = { mode = \"refuse\" }\nhealth = { udp = { send = \"x\" }, interval = \"50ms\" }",
    ));
    wait_until("it is down", || !proxy.server().control().is_checking_first());
    let client = client(proxy.addr());
    client.send(b"").expect("sending works");
    wait_until("it is dropped", || udp(&proxy, |u| u.lost[0].get()) == 1);
}

#[test]
fn draining_lets_flows_go_on_and_takes_no_other() {
    let endpoints = [Echo::new("")];
    let mut proxy = Proxy::start(&config(&[endpoints[0].addr], "", "").replace("workers = 2", "workers = 1"));
    let addr = proxy.addr();
    let (old, new) = (client(addr), client(addr));
    ask(&old, b"");
    proxy.drain_now();
    assert_eq!(ask(&old, b"x"), b"x");
    new.send(b"").expect("sending works");
    wait_until("its flow has ended, and with it the workers", || proxy.server().has_ended());
    assert_eq!(udp(&proxy, |u| u.flows.get()), 1);
    proxy.stop();
}
