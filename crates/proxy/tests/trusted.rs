//! The client of a request that came through proxies is the same for the endpoint, the log, the balancer and the
//! limits; over real sockets, with clients at different addresses.

use crate::support::endpoint::ok;
use crate::support::nginx::Directory;
use crate::support::{Client, Endpoint, Proxy, wait_until};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const PROXY_IN_FRONT: [u8; 4] = [127, 0, 0, 2];
const STRANGER: [u8; 4] = [127, 0, 0, 3];
const TRUSTED: &str = "trusted_proxies = [\"127.0.0.2\", \"10.0.0.0/8\"]";

/// An endpoint that answers with the forwarding fields that it got.
fn telling() -> Endpoint {
    Endpoint::answering(|request| {
        let heard = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"]
            .map(|name| request.field(name).unwrap_or("-").to_string());
        ok(&heard.join(" | "))
    })
}

#[track_caller]
fn hears(client: &mut Client, fields: &str) -> String {
    client.send(format!("GET / HTTP/1.1\r\nHost: a:80\r\n{fields}\r\n")).response().body_text()
}

const CLAIMS: &str = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\n\
                      Forwarded: for=192.0.2.1;proto=https;host=b\r\n";

#[test]
fn only_trusted_proxies_are_believed() {
    let endpoint = telling();
    let proxy = Proxy::with(&[endpoint.addr], TRUSTED, "", "");
    let mut stranger = Client::connect_from(STRANGER, proxy.addr());
    assert_eq!(hears(&mut stranger, CLAIMS), "127.0.0.3 | http | a:80 | -");
    let mut trusted = Client::connect_from(PROXY_IN_FRONT, proxy.addr());
    let ours = "for=127.0.0.2;proto=http;host=\"a:80\"";
    let want = format!("192.0.2.1, 127.0.0.2 | https | b | for=192.0.2.1;proto=https;host=b, {ours}");
    assert_eq!(hears(&mut trusted, CLAIMS), want);
    assert_eq!(hears(&mut trusted, ""), "127.0.0.2 | http | a:80 | -", "nothing is made up, nothing is left over");
    let list = "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.1.1.1\r\n";
    assert_eq!(hears(&mut trusted, list), "6.6.6.6, 192.0.2.1, 10.1.1.1, 127.0.0.2 | http | a:80 | -");
    assert_eq!(proxy.listener(|l| l.forwarded_malformed.get()), 0);
    let nonsense =
        "X-Forwarded-For: 192.0.2.1, x\r\nX-Forwarded-Proto: ftp\r\nX-Forwarded-Host: /\r\nForwarded: for\r\n";
    assert_eq!(hears(&mut trusted, nonsense), "127.0.0.2 | http | a:80 | -");
    assert_eq!(proxy.listener(|l| l.forwarded_malformed.get()), 4);
    // Without trusted proxies, no field is believed.
    let proxy = Proxy::before(&[endpoint.addr]);
    assert_eq!(hears(&mut Client::connect_from(PROXY_IN_FRONT, proxy.addr()), CLAIMS), "127.0.0.2 | http | a:80 | -");
}

#[test]
fn the_log_shows_the_client_and_who_connected_for_it() {
    let endpoint = telling();
    let dir = Directory::new();
    let path = dir.0.join("log");
    let log = format!("[telemetry]\naccess_log = {{ path = {:?} }}", path.to_str().expect("a name of ours"));
    let listener = format!("{TRUSTED}\naccept_proxy_protocol = [\"127.0.0.4\"]");
    let mut proxy = Proxy::with(&[endpoint.addr], &listener, "", &log);
    hears(&mut Client::connect_from(STRANGER, proxy.addr()), CLAIMS);
    hears(&mut Client::connect_from(PROXY_IN_FRONT, proxy.addr()), CLAIMS);
    hears(&mut Client::connect_from(PROXY_IN_FRONT, proxy.addr()), "");
    let announced = |header: &str| {
        let mut client = Client::connect_from([127, 0, 0, 4], proxy.addr());
        hears(client.send(header), CLAIMS);
    };
    announced("PROXY TCP4 192.0.2.5 127.0.0.1 1 2\r\n");
    announced("PROXY TCP4 10.0.0.5 127.0.0.1 1 2\r\n");
    announced("PROXY UNKNOWN\r\n");
    wait_until("all are over", || proxy.ended(200) == 6);
    proxy.stop();
    let lines = std::fs::read_to_string(&path).expect("the proxy made it");
    let line = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
    let seen: Vec<_> = lines.lines().map(line).map(|l| (l["client"].clone(), l["peer"].clone())).collect();
    let want = [
        ("127.0.0.3", None),
        ("192.0.2.1", Some("127.0.0.2")),
        ("127.0.0.2", None),
        ("192.0.2.5", Some("127.0.0.4")),
        ("192.0.2.1", Some("127.0.0.4")),
        ("127.0.0.4", None),
    ];
    assert_eq!(seen, want.map(|(client, peer)| (Value::from(client), Value::from(peer))));
}

/// Three endpoints with names of their own, and a balancer keyed by the client's address.
#[test]
fn the_balancer_is_keyed_by_the_client_behind_a_proxy() {
    let endpoints = ["one", "two", "three"].map(Endpoint::saying);
    let list: Vec<String> = endpoints.iter().map(|e| format!("\"{}\"", e.addr)).collect();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n{TRUSTED}\n[pool.web]\nendpoints = [{}]\n\
         balance = {{ maglev = {{ key = \"client-ip\" }} }}",
        list.join(",")
    ));
    let mut client = Client::connect_from(PROXY_IN_FRONT, proxy.addr());
    let mut seen = std::collections::HashSet::new();
    for n in 0..40 {
        let field = format!("X-Forwarded-For: 192.0.2.{n}\r\n");
        let first = hears(&mut client, &field);
        assert_eq!(hears(&mut client, &field), first, "a client stays where it is");
        seen.insert(first);
    }
    assert_eq!(seen.len(), 3, "clients spread");
}

fn request_from(from: [u8; 4], to: SocketAddr, field: &str) -> (u16, Option<u64>) {
    let response = Client::connect_from(from, to).send(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n")).response();
    (response.status(), response.field("retry-after").map(|s| s.parse().expect("seconds")))
}

#[test]
fn one_address_gets_its_rate_and_others_theirs() {
    let endpoint = telling();
    // One request in 1000 s, so the rate adds none during the test.
    let limits = "limits = { requests_per_address = 0.001, burst_per_address = 3 }";
    let proxy = Proxy::with(&[endpoint.addr], &format!("{TRUSTED}\n{limits}"), "", "");
    for _ in 0..3 {
        assert_eq!(request_from(STRANGER, proxy.addr(), "").0, 200);
    }
    let (status, again) = request_from(STRANGER, proxy.addr(), "");
    assert_eq!(status, 429);
    assert!((900..=1000).contains(&again.expect("it says when")), "{again:?}");
    // Clients behind a proxy have limits of their own, and the proxy has none.
    for _ in 0..3 {
        assert_eq!(request_from(PROXY_IN_FRONT, proxy.addr(), "X-Forwarded-For: 192.0.2.1\r\n").0, 200);
    }
    assert_eq!(request_from(PROXY_IN_FRONT, proxy.addr(), "X-Forwarded-For: 192.0.2.1\r\n").0, 429);
    assert_eq!(request_from(PROXY_IN_FRONT, proxy.addr(), "X-Forwarded-For: 192.0.2.2\r\n").0, 200);
    for _ in 0..10 {
        assert_eq!(request_from(PROXY_IN_FRONT, proxy.addr(), "").0, 200);
    }
    // A client that claims another address is still limited by its own.
    assert_eq!(request_from(STRANGER, proxy.addr(), "X-Forwarded-For: 192.0.2.3\r\n").0, 429);
    wait_until("all are counted", || proxy.ended(429) == 3);
    assert_eq!(proxy.listener(|l| l.rate_limited.get()), 3);
    // A 429 leaves the connection open.
    let mut client = Client::connect_from(STRANGER, proxy.addr());
    for _ in 0..3 {
        let response = client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").response();
        assert_eq!((response.status(), response.field("connection")), (429, None));
    }
}

#[test]
fn requests_come_again_at_the_rate() {
    let endpoint = telling();
    let limits = "limits = { requests_per_address = 20, burst_per_address = 1 }";
    let proxy = Proxy::with(&[endpoint.addr], limits, "", "");
    let mut client = proxy.client();
    let began = Instant::now();
    let mut passed = 0;
    while passed < 5 {
        passed += u32::from(client.get("/").status() == 200);
    }
    assert!(began.elapsed() >= Duration::from_millis(4 * 50), "{:?}", began.elapsed());
}

#[test]
fn one_address_has_so_many_connections_over_all_workers() {
    let endpoint = telling();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 4\n[listener.web]\nbind = [\"$BIND\"]\n{TRUSTED}\nlimits = {{ connections_per_address = 8 }}\n\
         [pool.web]\nendpoints = [\"{}\"]",
        endpoint.addr
    ));
    let open = |from: [u8; 4]| {
        let mut client = Client::connect_from(from, proxy.addr());
        let _ = std::io::Write::write_all(&mut client.stream, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let is_served = |client: &mut Client| client.response_if_any().is_some_and(|r| r.status() == 200);
    let mut kept: Vec<Client> = (0..8).map(|_| open(STRANGER)).collect();
    assert!(kept.iter_mut().all(is_served));
    for n in 1..=20 {
        assert!(!is_served(&mut open(STRANGER)), "one too many");
        wait_until("it is counted", || proxy.listener(|l| l.rejected[1].get()) == n);
    }
    // Another address, and a proxy with many clients.
    assert!(is_served(&mut open([127, 0, 0, 9])));
    let mut many: Vec<Client> = (0..20).map(|_| open(PROXY_IN_FRONT)).collect();
    assert!(many.iter_mut().all(is_served));
    // A place that was given back can be taken, repeatedly.
    for n in 0..10 {
        let active = || proxy.listener(|l| l.active.get());
        kept.pop();
        wait_until("it is given back", || active() == 7 + 20);
        kept.push(open(STRANGER));
        assert!(is_served(kept.last_mut().expect("just pushed")), "{n}");
    }
    drop((kept, many));
    wait_until("nothing is open", || proxy.listener(|l| l.active.get()) == 0);
}

#[test]
fn connections_of_announced_clients_are_limited_by_client() {
    let endpoint = telling();
    let listener = "accept_proxy_protocol = [\"127.0.0.2\"]\nlimits = { connections_per_address = 2 }";
    let proxy = Proxy::with(&[endpoint.addr], listener, "", "");
    let open = |who: &str| {
        let mut client = Client::connect_from(PROXY_IN_FRONT, proxy.addr());
        let request = format!("PROXY {who}\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let _ = std::io::Write::write_all(&mut client.stream, request.as_bytes());
        let served = client.response_if_any().is_some();
        (client, served)
    };
    let one: Vec<_> = (0..3).map(|_| open("TCP4 192.0.2.1 127.0.0.1 1 2")).collect();
    assert_eq!(one.iter().map(|(_, served)| *served).collect::<Vec<_>>(), [true, true, false]);
    assert!(open("TCP4 192.0.2.2 127.0.0.1 1 2").1);
    let own: Vec<_> = (0..5).map(|_| open("UNKNOWN")).collect();
    assert!(own.iter().all(|(_, served)| *served), "the proxy's own");
    assert_eq!(proxy.listener(|l| l.rejected[1].get()), 1);
}
