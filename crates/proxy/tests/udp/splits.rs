//! Flows that pools share by weight.

use crate::support::datagrams::{Echo, ask, ask_until_answered, client, client_at};
use crate::support::{Proxy, wait_until};
use evenkeel_view::orders::SplitChanges;
use std::net::SocketAddr;

fn config(split: &str, balance: &str, [a, b]: [SocketAddr; 2]) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.syslog]\nbind = ['$BIND']\nmode = 'udp'\nudp = {{ idle = '4s' }}\n\
         [[route]]\nname = 'syslog'\nmatch = {{ listener = ['syslog'] }}\n{split}\n\
         [pool.a]\nendpoints = ['{a}']\nbalance = '{balance}'\n[pool.b]\nendpoints = ['{b}']\nbalance = '{balance}'\n"
    )
}

#[test]
fn flows_are_shared_by_weight_and_each_keeps_its_pool() {
    let (a, b) = (Echo::new("a"), Echo::new("b"));
    let config = |weights: &str, balance: &str| {
        config(&format!("split = {{ weights = {{ {weights} }} }}"), balance, [a.addr, b.addr])
    };
    let mut proxy = Proxy::start(&config("a = 3, b = 1", "random"));
    let clients: Vec<_> = (0..200).map(|_| client(proxy.addr())).collect();
    let answers = || clients.iter().map(|client| ask(client, b"")).collect::<Vec<_>>();
    let first = answers();
    // 200 draws with p = 1/4 are 50 with a standard deviation of 6.1: beyond five of them is less likely than 10^-6.
    let to_b = first.iter().filter(|answer| answer[..] == *b"b").count();
    assert!((20..=80).contains(&to_b), "{to_b}");
    assert_eq!(answers(), first);

    let (numbers, control) = (proxy.server().numbers(), proxy.server().control());
    let changes: SplitChanges = Some([("a".into(), Some(0)), ("b".into(), Some(1))].into());
    let orders = (control.orders(), control.events());
    numbers.generation.splits.order((numbers.plan(), "syslog"), &changes, "me", orders).expect("it has a split");
    (0..20).for_each(|_| assert_eq!(ask(&client(proxy.addr()), b""), b"b"));
    // Not drawn again by a reload either, which makes the pools anew.
    proxy.reload(&config("a = 1, b = 9", "leastconn")).expect("nothing fails");
    assert_eq!(answers(), first);
}

#[test]
fn a_flow_stays_in_its_pool_when_its_endpoint_fails_and_is_drawn_again_when_its_pool_leaves() {
    let (a, b, other) = (Echo::new("a"), Echo::new("b"), Echo::new("o"));
    // Without ejection, which would hide that the flow avoids the endpoint by itself.
    let config = |route: &str, a: &str| {
        config(route, "random", ["127.0.0.1:1".parse().expect("an address"), b.addr])
            .replace("endpoints = ['127.0.0.1:1']", &format!("outlier = 'off'\nendpoints = [{a}]"))
    };
    let (one, two) = (format!("'{}'", a.addr), format!("'{}', '{}'", a.addr, other.addr));
    let mut proxy = Proxy::start(&config("split = { weights = { a = 1, b = 0 } }", &two));
    let clients: Vec<_> = (0..8).map(|_| client(proxy.addr())).collect();
    clients.iter().for_each(|client| assert_ne!(ask(client, b""), b"b"));
    drop(other);
    clients.iter().for_each(|client| assert_eq!(ask_until_answered(client, b""), b"a"));
    let second = "[[route]]\nname = 'a'\norder = 2\nmatch = { listener = ['syslog'] }\npool = 'a'\n";
    proxy.reload(&(config("order = 1\npool = 'b'", &one) + second)).expect("nothing fails");
    wait_until("all are at b", || clients.iter().all(|client| ask_until_answered(client, b"") == b"b"));
}

#[test]
fn with_a_key_a_client_address_keeps_its_pool() {
    let (a, b) = (Echo::new("a"), Echo::new("b"));
    let split = "split = { weights = { a = 1, b = 1 }, key = 'client-ip' }";
    let proxy = Proxy::start(&config(split, "random", [a.addr, b.addr]));
    let mut seen = std::collections::BTreeSet::new();
    // All of 30 addresses have one pool with odds of 2^-29, and the hash is the same in every run.
    for host in 1..=30 {
        let answer = |_| ask(&client_at(&format!("127.0.0.{host}:0"), proxy.addr()), b"");
        let answers: Vec<_> = (0..3).map(answer).collect();
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
        seen.extend(answers);
    }
    assert_eq!(seen.len(), 2);
}
