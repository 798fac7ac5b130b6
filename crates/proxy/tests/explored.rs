//! Exploration: the access log has the probability of drawn endpoints, in every mode, and of no others.

use crate::support::datagrams::{Echo, ask, client};
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, own_addr, wait_until};
use serde_json::Value;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};

const REQUESTS: usize = 1000;

/// Asserts that a fifth of the lines has a probability of 1/3 and that their endpoints are spread; the others are
/// `picked`.
fn check(lines: &[Value], picked: SocketAddr) {
    let explored: Vec<&Value> = lines.iter().filter(|line| line.get("probability").is_some()).collect();
    // Binomial: 200 with a standard deviation of 12.6; six of them, as the seed is not fixed.
    assert!((124..=276).contains(&explored.len()), "{} of {REQUESTS} are explored", explored.len());
    assert!(explored.iter().all(|line| line["probability"] == 1.0 / 3.0));
    let others = lines.iter().filter(|line| line.get("probability").is_none());
    assert!(others.clone().all(|line| line["endpoint"] == picked.to_string()), "the first takes what is not explored");
    let first = explored.iter().filter(|line| line["endpoint"] == picked.to_string()).count();
    // A third of them, within six standard deviations: sqrt(n * 2/9).
    let (fair, deviation) = (explored.len() as f64 / 3.0, (explored.len() as f64 * 2.0 / 9.0).sqrt());
    assert!((first as f64 - fair).abs() < 6.0 * deviation, "{first} of {} are at the first", explored.len());
}

fn three() -> [Endpoint; 3] {
    ["a", "b", "c"].map(Endpoint::saying)
}

fn config(listener: &str, endpoints: &[SocketAddr], pool: &str, log: &Log) -> String {
    let listed: Vec<String> = endpoints.iter().map(|addr| format!("'{addr}'")).collect();
    let balance = if pool.contains("balance") { "" } else { "balance = 'first'" };
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n{listener}\n[pool.web]\n{balance}\n\
         explore = 0.2\nendpoints = [{}]\n{pool}\n{}",
        listed.join(", "),
        log.config()
    )
}

#[test]
fn a_share_of_requests_is_at_a_drawn_endpoint_and_logged_with_its_probability() {
    let (endpoints, log) = (three(), Log::new());
    let addresses = endpoints.each_ref().map(|endpoint| endpoint.addr);
    let proxy = Proxy::start(&config("", &addresses, "", &log));
    let mut client = proxy.client();
    (0..REQUESTS).for_each(|_| assert_eq!(client.get("/").status(), 200));
    wait_until("no request is in flight", || proxy.in_flight() == 0);
    let counted = proxy.pool(|stats| stats.explored.get());
    assert!(proxy.metrics().contains(&format!("evenkeel_pool_explored_total{{pool=\"web\"}} {counted}")));
    let lines = log.lines(proxy);
    check(&lines, addresses[0]);
    let explored = lines.iter().filter(|line| line.get("probability").is_some()).count();
    assert_eq!(explored as u64, counted);
}

#[test]
fn a_reload_turns_it_off() {
    let (endpoints, log) = (three(), Log::new());
    let config = config("", &endpoints.each_ref().map(|endpoint| endpoint.addr), "", &log);
    let mut proxy = Proxy::start(&config);
    proxy.reload(&config.replace("explore = 0.2", "explore = 0")).expect("it is valid");
    (0..100).for_each(|_| assert_eq!(proxy.client().get("/").body_text(), "a"));
    assert!(log.lines(proxy).iter().all(|line| line.get("probability").is_none()));
}

#[test]
fn a_template_has_the_probability_or_a_dash() {
    let (endpoints, log) = (three(), Log::new());
    let config = config("", &endpoints.each_ref().map(|endpoint| endpoint.addr), "", &log);
    let path = log.0.to_str().expect("a name of ours");
    let (front, _) = config.split_once("[telemetry]").expect("it has a log");
    let text =
        format!("{front}[telemetry]\naccess_log = {{ path = {path:?}, format = '%{{endpoint}} %{{probability}}' }}");
    let mut proxy = Proxy::start(&text);
    (0..200).for_each(|_| assert_eq!(proxy.client().get("/").status(), 200));
    wait_until("no request is in flight", || proxy.in_flight() == 0);
    proxy.stop();
    let lines = std::fs::read_to_string(&log.0).expect("the proxy made it");
    let third = format!(" {}", 1.0 / 3.0);
    assert!(lines.lines().all(|line| line.ends_with(" -") || line.ends_with(&third)), "{lines}");
    // Without any of them in 200 requests: 0.8 to the power of 200.
    assert!(lines.lines().any(|line| line.ends_with(&third)), "{lines}");
}

#[test]
fn the_probability_is_of_the_first_try() {
    let (b, c, log) = (Endpoint::saying("b"), Endpoint::saying("c"), Log::new());
    let pool = "retry = { attempts = 2, on = ['connect'] }\noutlier = 'off'";
    let refusing = own_addr();
    let proxy = Proxy::start(&config("", &[b.addr, c.addr, refusing], pool, &log));
    (0..200).for_each(|_| assert_eq!(proxy.client().get("/").status(), 200));
    let lines = log.lines(proxy);
    let retried: Vec<_> = lines.iter().filter(|line| line["tries"] == 2).collect();
    // A draw leads there with a probability of 1/15: the chance of none in 200 is one in a million.
    assert!(!retried.is_empty());
    for line in retried {
        assert_eq!(
            (&line["probability"], &line["attempts"][0]["endpoint"]),
            (&Value::from(1.0 / 3.0), &Value::from(refusing.to_string()))
        );
    }
}

#[test]
fn sessions_stay_where_they_began() {
    let (endpoints, log) = (three(), Log::new());
    let addresses = endpoints.each_ref().map(|endpoint| endpoint.addr);
    let proxy = Proxy::start(&config("", &addresses, "sticky = { secret = 'sixteen bytes or more' }", &log));
    for _ in 0..20 {
        let began = proxy.client().get("/");
        let cookie = began.field("set-cookie").expect("a new client gets a cookie");
        let cookie = cookie.split(';').next().expect("a part before the first semicolon");
        for _ in 0..5 {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
            let response = proxy.client().send(request).response();
            assert_eq!((response.body_text(), response.field("set-cookie")), (began.body_text(), None));
        }
    }
    let lines = log.lines(proxy);
    let with_cookie = lines.iter().enumerate().filter(|(at, _)| at % 6 > 0);
    assert!(
        with_cookie.clone().count() == 100 && with_cookie.clone().all(|(_, line)| line.get("probability").is_none())
    );
}

#[test]
fn hash_keys_keep_their_endpoint_but_for_the_explored_share() {
    let (endpoints, log) = (three(), Log::new());
    let addresses = endpoints.each_ref().map(|endpoint| endpoint.addr);
    let proxy = Proxy::start(&config("", &addresses, "balance = { maglev = { key = 'client-ip' } }", &log));
    let mut client = proxy.client();
    (0..REQUESTS).for_each(|_| assert_eq!(client.get("/").status(), 200));
    let lines = log.lines(proxy);
    let own = lines.iter().find(|line| line.get("probability").is_none()).expect("most are not explored");
    check(&lines, own["endpoint"].as_str().and_then(|text| text.parse().ok()).expect("an address"));
}

#[test]
fn tcp_sessions_are_explored() {
    let (endpoints, log) = ([0, 1, 2].map(|_| Endpoint::start(|conn| conn.send("x"))), Log::new());
    let addresses = endpoints.each_ref().map(|endpoint| endpoint.addr);
    let proxy = Proxy::start(&config("mode = 'tcp'\npool = 'web'", &addresses, "", &log));
    for _ in 0..REQUESTS {
        let mut text = String::new();
        let read = TcpStream::connect(proxy.addr()).and_then(|mut stream| stream.read_to_string(&mut text));
        assert_eq!(read.ok(), Some(1));
        // Sessions that overlap fill no endpoint, so "first" stays with its first.
        wait_until("the session has ended", || proxy.in_flight() == 0);
    }
    check(&log.lines(proxy), addresses[0]);
}

#[test]
fn udp_flows_are_explored() {
    let (endpoints, log) = (["a", "b", "c"].map(Echo::new), Log::new());
    let addresses = endpoints.each_ref().map(|endpoint| endpoint.addr);
    let listener = "mode = 'udp'\npool = 'web'\nudp = { idle = '100ms' }";
    let proxy = Proxy::start(&config(listener, &addresses, "", &log));
    for _ in 0..200 {
        ask(&client(proxy.addr()), b"1");
    }
    wait_until("the flows have ended", || proxy.listener(|l| l.udp.active.get()) == 0);
    let lines = log.lines(proxy);
    let explored = lines.iter().filter(|line| line["probability"] == 1.0 / 3.0).count();
    assert!((1..100).contains(&explored), "{explored} of 200");
}
