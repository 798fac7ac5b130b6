//! Figures of TCP sessions and UDP flows, as commands, the API, the dashboard and metrics show them.

use crate::support::{Endpoint, Folder, Running, address, ask, evenkeel, eventually, get, text};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

struct Setup {
    admin: String,
    file: String,
    _folder: Folder,
    _running: Running,
}

impl Setup {
    /// A listener of this mode before a pool `db` with these endpoints.
    fn new(mode: &str, listen: &str, endpoints: &[&str], more: &str) -> Setup {
        let (folder, admin) = (Folder::new(&format!("sessions-{mode}")), address());
        let text = format!(
            "[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}' }}\n[listener.db]\nbind = ['{listen}']\nmode = '{mode}'\npool = 'db'\n\
             {more}\n[pool.db]\nendpoints = {endpoints:?}\noutlier = 'off'\nbalance = 'round_robin'\n",
            folder.0.join("admin.sock").display(),
        );
        let file = folder.file("evenkeel.toml", &text);
        let running = Running::start(&["run", "-c", &file]);
        Setup { admin, file, _folder: folder, _running: running }
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&get(&self.admin, path).expect("an answer").1).expect("JSON")
    }

    fn listener(&self) -> Value {
        self.json("/v1/status")["listeners"][0].clone()
    }

    /// A field of each endpoint, as a number; 0 where it is absent.
    fn of_endpoints(&self, field: &str) -> Vec<u64> {
        let pool = self.json("/v1/pools/db");
        let endpoints = pool["endpoints"].as_array().expect("a list");
        endpoints.iter().map(|endpoint| endpoint[field].as_u64().unwrap_or_default()).collect()
    }

    fn metric(&self, series: &str) -> u64 {
        let metrics = get(&self.admin, "/metrics").expect("an answer").1;
        let values = metrics.lines().filter(|line| line.starts_with(series));
        values.map(|line| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number") as u64).sum()
    }

    fn page(&self, path: &str) -> String {
        get(&self.admin, path).expect("an answer").1
    }

    fn command(&self, words: &[&str]) -> String {
        let done = evenkeel(&[words, &["-c", &self.file]].concat());
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }
}

#[test]
fn sessions_count_at_their_listener_route_pool_and_endpoint() {
    let (one, refuses, listen) = (Endpoint::start("one"), address(), address());
    let setup = Setup::new("tcp", &listen, &[&one.addr, &refuses], "");
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut received = 0;
    for _ in 0..20 {
        received += ask(&listen, request).expect("a session").len();
    }
    let mut open = TcpStream::connect(&listen).expect("it listens");
    open.write_all(b"GET ").expect("it is relayed");
    eventually("the session that is open", || (setup.of_endpoints("in_flight") == [1, 0]).then_some(()));
    let (requests, failed) = (setup.of_endpoints("requests"), setup.of_endpoints("failed"));
    assert_eq!((requests[0], failed[0]), (21, 0), "an open session counts from its connect on");
    assert!(failed[1] > 0 && requests[1] == failed[1], "each session that it refused went to the other: {failed:?}");
    eventually("bytes both ways", || {
        let (sent, back) = (setup.of_endpoints("bytes_in")[0], setup.of_endpoints("bytes_out")[0]);
        ((sent, back) == ((20 * request.len() + 4) as u64, received as u64)).then_some(())
    });
    let pool = setup.json("/v1/pools/db");
    assert_eq!(pool["modes"], serde_json::json!(["tcp"]));
    let one_shown = &pool["endpoints"][0];
    assert_eq!((one_shown["share"].as_f64(), one_shown["latency"]["responses"].as_u64()), (Some(1.0), Some(21)));
    let listener = setup.listener();
    assert_eq!((listener["connections"].as_u64(), listener["accepted"].as_u64()), (Some(1), Some(21)));

    assert_eq!(setup.metric("evenkeel_upstream_sessions_total{"), 21);
    assert_eq!(setup.metric("evenkeel_upstream_unreached_total{"), failed[1]);
    assert_eq!(setup.metric("evenkeel_upstream_received_bytes_total{"), received as u64);
    assert_eq!(setup.metric("evenkeel_upstream_request_duration_seconds_count{pool=\"db\""), 20);
    eventually("the route and the history", || {
        let route = setup.json("/v1/routes")[0]["at"][0]["requests"].as_u64();
        let spans = setup.json("/v1/history")["spans"].as_array().cloned().unwrap_or_default();
        let total: u64 = spans.iter().filter_map(|span| span["requests"].as_u64()).sum();
        (route == Some(21) && total == 21).then_some(())
    });
    let shown = setup.command(&["status"]);
    assert!(shown.contains("1 connections open") && shown.contains("0 of 21"), "{shown}");
    let page = setup.page("/ui/pools");
    assert!(page.contains(" of 21"), "{page}");
    let overview = setup.page("/ui");
    assert!(overview.contains("Open sessions") && !overview.contains("Requests in flight"), "{overview}");
    drop(open.shutdown(std::net::Shutdown::Both));
    let _ = open.read(&mut [0; 1]);
}

#[test]
fn a_session_without_an_endpoint_is_an_error_of_its_route() {
    let (listen, refuses) = (address(), address());
    let setup = Setup::new("tcp", &listen, &[&refuses], "");
    let mut client = TcpStream::connect(&listen).expect("it listens");
    let _ = client.read(&mut [0; 1]);
    eventually("the error", || {
        let at = setup.json("/v1/routes")[0]["at"][0].clone();
        (at["requests"] == 1 && at["errors"] == 1).then_some(())
    });
    assert_eq!(setup.of_endpoints("failed"), setup.of_endpoints("requests"));
}

#[test]
fn flows_count_at_their_listener_route_pool_and_endpoint() {
    let (echo, silent) =
        (UdpSocket::bind("127.0.0.1:0").expect("a port"), UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let addrs = [&echo, &silent].map(|socket| socket.local_addr().expect("bound").to_string());
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((len, from)) = echo.recv_from(&mut bytes) {
            // The client may be gone.
            let _ = echo.send_to(&bytes[..len], from);
        }
    });
    let listen = address();
    let setup = Setup::new("udp", &listen, &[&addrs[0], &addrs[1]], "udp = { answers = 1 }");
    let clients: Vec<UdpSocket> = (0..20).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    for client in &clients {
        client.send_to(b"hello", &listen).expect("it is sent");
    }
    eventually("a flow for each client", || (setup.listener()["accepted"] == 20).then_some(()));
    eventually("flows that end when they are answered", || (setup.of_endpoints("in_flight")[0] == 0).then_some(()));
    let flows = setup.of_endpoints("requests");
    assert_eq!((flows.iter().sum::<u64>(), setup.of_endpoints("failed")), (20, vec![0, 0]));
    assert_eq!(setup.of_endpoints("in_flight"), [0, flows[1]], "those at the silent endpoint are open");
    let bytes = |flows: u64| 5 * flows;
    assert_eq!(setup.of_endpoints("bytes_in"), [bytes(flows[0]), bytes(flows[1])]);
    assert_eq!(setup.of_endpoints("bytes_out"), [bytes(flows[0]), 0]);
    let pool = setup.json("/v1/pools/db");
    let shares: f64 = (0..2).filter_map(|e| pool["endpoints"][e]["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9 && pool["endpoints"][1]["share"].as_f64() > Some(0.0), "{pool}");
    assert_eq!(pool["endpoints"][0]["latency"]["responses"].as_u64(), Some(flows[0]));
    let listener = setup.listener();
    assert_eq!((listener["connections"].as_u64(), listener["bytes_in"].as_u64()), (Some(flows[1]), Some(100)));
    assert_eq!(setup.metric("evenkeel_upstream_sessions_total{"), 20);
    assert_eq!(setup.metric("evenkeel_udp_flow_duration_seconds_count{"), flows[0]);
    eventually("the route", || (setup.json("/v1/routes")[0]["at"][0]["requests"] == 20).then_some(()));
    assert!(setup.command(&["status"]).contains(&format!("{} flows open", flows[1])));
    assert!(setup.page("/ui").contains("Open flows"));
}
