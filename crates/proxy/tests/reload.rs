//! Continuity while the configuration changes: connections, requests, counters, and everything that the change does not
//! name.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Client, Endpoint, Proxy, SOON, noise, own_addr, wait_until};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Configuration of a listener and a pool of these endpoints, with more lines for the pool.
fn config(endpoints: &[SocketAddr], pool: &str) -> String {
    let named: Vec<String> = endpoints.iter().map(|addr| format!("\"{addr}\"")).collect();
    whole("round_robin", &named.join(", "), pool)
}

fn whole(balance: &str, endpoints: &str, pool: &str) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n\
         [pool.web]\nbalance = \"{balance}\"\nendpoints = [{endpoints}]\n{pool}\n"
    )
}

fn names(summary: &[String]) -> Vec<&str> {
    summary.iter().map(String::as_str).collect()
}

#[test]
fn a_kept_connection_goes_to_the_new_endpoints_with_its_next_request() {
    let (a, b) = (Endpoint::saying("a"), Endpoint::saying("b"));
    let mut proxy = Proxy::start(&config(&[a.addr], ""));
    let mut client = proxy.client();
    assert_eq!(client.get("/").body, b"a");
    let summary = proxy.reload(&config(&[b.addr], "")).expect("nothing fails");
    assert_eq!((summary.generation, names(&summary.changed)), (1, vec!["pool web"]));
    assert_eq!(client.get("/").body, b"b");
    wait_until("b counts from zero", || proxy.endpoint(0, |e| e.requests[1].get()) == 1);
    assert_eq!(proxy.listener(|l| l.accepted.get()), 1, "the connection is still the first one");
}

#[test]
fn the_same_plan_changes_nothing() {
    let endpoint = Endpoint::saying("a");
    let mut proxy = Proxy::start(&config(&[endpoint.addr], ""));
    let mut client = proxy.client();
    for generation in 1..=3 {
        assert_eq!(client.get("/").status(), 200);
        let summary = proxy.reload(&config(&[endpoint.addr], "")).expect("nothing fails");
        assert_eq!(summary.to_string(), format!("generation {generation}; no differences"));
        assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 1, "the idle connection stays");
    }
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(endpoint.accepted(), 1);
    wait_until("counts go on", || proxy.ended(200) == 4);
}

#[test]
fn idle_connections_and_counts_follow_an_endpoint_through_a_new_order() {
    let endpoints = [Endpoint::saying("a"), Endpoint::saying("b"), Endpoint::saying("c")];
    let [a, b, c] = [0, 1, 2].map(|i| endpoints[i].addr);
    let mut proxy = Proxy::start(&config(&[a, b], ""));
    let mut client = proxy.client();
    (0..4).for_each(|_| assert_eq!(client.get("/").status(), 200));
    proxy.reload(&config(&[c, b, a], "")).expect("nothing fails");
    (0..6).for_each(|_| assert_eq!(client.get("/").status(), 200));
    assert_eq!([0, 1, 2].map(|i| endpoints[i].accepted()), [1, 1, 1]);
    wait_until("all are counted", || proxy.ended(200) == 10);
    assert_eq!([0, 1, 2].map(|i| proxy.endpoint(i, |e| e.requests[1].get())), [2, 4, 4], "of c, b and a");
    assert_eq!([0, 1, 2].map(|i| proxy.endpoint(i, |e| e.idle.get())), [1, 1, 1]);
}

#[test]
fn weights_apply_at_once() {
    let endpoints = [Endpoint::saying("a"), Endpoint::saying("b")];
    let listed = |weight| {
        let endpoints = format!("{{ addr = '{}', weight = {weight} }}, '{}'", endpoints[0].addr, endpoints[1].addr);
        whole("round_robin", &endpoints, "")
    };
    let mut proxy = Proxy::start(&listed(1));
    proxy.reload(&listed(3)).expect("nothing fails");
    let mut client = proxy.client();
    (0..8).for_each(|_| assert_eq!(client.get("/").status(), 200));
    assert_eq!([0, 1].map(|i| endpoints[i].seen().len()), [6, 2]);
}

#[test]
fn requests_end_where_they_began_whatever_changes() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let slow = Endpoint::answering(move |_| {
        may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
        ok("slow")
    });
    let fast = Endpoint::saying("fast");
    let mut proxy = Proxy::start(&config(&[slow.addr], ""));
    let mut held: Vec<Client> = Vec::new();
    // Each of these removes something that the running request uses: its endpoint, balancer, pool or route.
    let others = [
        config(&[fast.addr], ""),
        whole("leastconn", &format!("'{}'", fast.addr), ""),
        config(&[fast.addr], "").replace("[pool.web]", "[pool.other]"),
    ];
    for other in others {
        proxy.reload(&config(&[slow.addr], "")).expect("nothing fails");
        let mut client = proxy.client();
        client.send(GET);
        wait_until("it is at the endpoint", || proxy.in_flight() == 1);
        held.push(client);
        proxy.reload(&other).expect("nothing fails");
        assert_eq!(proxy.in_flight(), 0, "nothing runs there");
        assert_eq!(proxy.client().get("/").body, b"fast");
    }
    assert_eq!(proxy.server().now().draining(), 3);
    held.iter().for_each(|_| go_on.send(()).expect("the endpoint waits"));
    for client in &mut held {
        assert_eq!(client.response().body, b"slow");
        assert_eq!(client.get("/").body, b"fast", "the connection goes on");
    }
    wait_until("no earlier generation is in use", || proxy.server().now().draining() == 0);
}

/// A live tunnel once kept all of its plan, 300 to 400 kB with 2,000 endpoints, for each reload that it saw.
#[test]
fn a_live_tunnel_or_session_does_not_keep_its_plan() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
        loop {
            let some = conn.some(100);
            if some.is_empty() {
                return;
            }
            conn.send(some);
        }
    });
    for mode in ["", "mode = 'tcp'\npool = 'web'\n"] {
        let config = |pool: &str| config(&[endpoint.addr], pool).replace("[pool.web]", &format!("{mode}[pool.web]"));
        let mut proxy = Proxy::start(&config(""));
        let plan = std::sync::Arc::downgrade(&proxy.server().plan());
        let mut client = proxy.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
        assert!(client.head().starts_with("HTTP/1.1 101 "));
        proxy.reload(&config("slow_start = '1s'")).expect("nothing fails");
        wait_until("the plan is gone", || plan.upgrade().is_none());
        client.send("still here");
        assert_eq!(client.bytes(10), b"still here");
        assert_eq!(proxy.server().now().draining(), 1, "its generation is in use");
        client.finish_sending();
        client.ends();
    }
}

#[test]
fn an_endpoint_that_left_keeps_no_connections() {
    let (closed, is_closed) = channel();
    let left = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            conn.send(ok("left"));
        }
        closed.send(()).expect("the test waits");
    });
    let stays = Endpoint::saying("stays");
    let mut proxy = Proxy::start(&config(&[left.addr], ""));
    assert_eq!(proxy.client().get("/").body, b"left");
    wait_until("it is idle", || proxy.endpoint(0, |e| e.idle.get()) == 1);
    proxy.reload(&config(&[stays.addr], "")).expect("nothing fails");
    is_closed.recv_timeout(SOON).expect("it is closed");
    // The same for a pool that leaves.
    assert_eq!(proxy.client().get("/").body, b"stays");
    proxy.reload(&config(&[left.addr], "").replace("[pool.web]", "[pool.other]")).expect("nothing fails");
    assert_eq!(proxy.client().get("/").body, b"left");
}

#[test]
fn limits_hold_over_an_algorithm_that_changes() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::answering(move |_| {
        may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
        ok("one")
    });
    let limits = "limits = { requests_per_endpoint = 1 }";
    let listed = format!("'{}'", endpoint.addr);
    let mut proxy = Proxy::start(&whole("round_robin", &listed, limits));
    let mut held = proxy.client();
    held.send(GET);
    wait_until("it is at the endpoint", || proxy.in_flight() == 1);
    proxy.reload(&whole("leastconn", &listed, limits)).expect("nothing fails");
    assert_eq!(proxy.client().get("/").status(), 503, "its place is taken by a request of the old balancer");
    go_on.send(()).expect("the endpoint waits");
    assert_eq!(held.response().status(), 200);
    go_on.send(()).expect("the endpoint waits");
    assert_eq!(proxy.client().get("/").status(), 200);
}

#[test]
fn a_plan_that_cannot_be_listened_for_changes_nothing() {
    let (a, b) = (Endpoint::saying("a"), Endpoint::saying("b"));
    let mut proxy = Proxy::start(&config(&[a.addr], ""));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let free = own_addr();
    let more = format!(
        "[listener.free]\nbind = ['{free}']\n[listener.taken]\nbind = ['{}']\n",
        taken.local_addr().expect("it is bound")
    );
    let refused = proxy.reload(&(config(&[b.addr], "") + &more)).expect_err("an address is in use");
    assert!(refused.to_string().starts_with("listener \"taken\": cannot listen on"), "{refused}");
    assert_eq!(proxy.client().get("/").body, b"a");
    assert_eq!(proxy.server().now().number, 0);
    assert!(TcpStream::connect(free).is_err(), "the address that was free is free again");
    proxy.reload(&config(&[b.addr], "")).expect("nothing fails");
    assert_eq!(proxy.client().get("/").body, b"b");
}

#[test]
fn listeners_come_and_go() {
    let endpoint = Endpoint::saying("a");
    let mut proxy = Proxy::start(&config(&[endpoint.addr], ""));
    let other = own_addr();
    let two = config(&[endpoint.addr], "") + &format!("[listener.other]\nbind = ['{other}']\n");
    let summary = proxy.reload(&two).expect("nothing fails");
    assert_eq!(names(&summary.added), ["listener other"]);
    let (mut stays, mut idle) = (proxy.client(), Client::connect(other));
    assert_eq!((stays.get("/").status(), idle.get("/").status()), (200, 200));

    let summary = proxy.reload(&config(&[endpoint.addr], "")).expect("nothing fails");
    assert_eq!(names(&summary.removed), ["listener other"]);
    idle.ends();
    assert!(TcpStream::connect(other).is_err());
    assert_eq!(stays.get("/").status(), 200);

    proxy.reload(&two).expect("nothing fails");
    assert_eq!(Client::connect(other).get("/").status(), 200);
}

#[test]
fn an_address_that_changes_its_listener_is_never_closed() {
    let (a, b) = (Endpoint::saying("a"), Endpoint::saying("b"));
    let pools = format!("[pool.a]\nendpoints = ['{}']\n[pool.b]\nendpoints = ['{}']\n", a.addr, b.addr);
    let to = |listener: &str| {
        format!(
            "[runtime]\nworkers = 1\n[listener.{listener}]\nbind = [\"$BIND\"]\n{pools}\
             [[route]]\nmatch = {{ listener = ['{listener}'] }}\npool = '{listener}'\n"
        )
    };
    let mut proxy = Proxy::start(&to("a"));
    let mut old = proxy.client();
    assert_eq!(old.get("/").body, b"a");
    // The first listener accepts it, or the second: it is served in any case.
    let mut between = proxy.client();
    proxy.reload(&to("b")).expect("nothing fails");
    assert_eq!(proxy.client().get("/").body, b"b");
    assert_eq!(between.get("/").status(), 200);
    old.ends();
}

#[test]
fn connections_of_a_listener_that_left_end_with_their_request_or_with_its_time() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while let Some(head) = conn.next_head() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
            conn.send(&noise(100_000)[..50_000]);
            if head.starts_with("GET /stuck") {
                return drop(conn.rest());
            }
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            conn.send(&noise(100_000)[50_000..]);
        }
    });
    let other = own_addr();
    let short = config(&[endpoint.addr], "").replace("workers = 1", "workers = 1\ndrain_timeout = '2s'");
    let two = short.clone() + &format!("[listener.other]\nbind = ['{other}']\n");
    let mut proxy = Proxy::start(&two);
    let mut clients = [Client::connect(other), Client::connect(other), proxy.client()];
    for (client, path) in clients.iter_mut().zip(["stuck", "finished", "elsewhere"]) {
        client.send(GET.replace("GET /", &format!("GET /{path}")));
        assert!(client.head().contains("Content-Length: 100000"));
        assert_eq!(client.bytes(50_000), noise(100_000)[..50_000]);
    }
    proxy.reload(&short).expect("nothing fails");
    assert_eq!(proxy.server().now().draining(), 1);
    let [stuck, finished, elsewhere] = &mut clients;
    go_on.send(()).expect("an endpoint waits");
    go_on.send(()).expect("an endpoint waits");
    assert_eq!(finished.rest(), noise(100_000)[50_000..], "then it is closed");
    stuck.ends();
    assert_eq!(elsewhere.bytes(50_000), noise(100_000)[50_000..]);
    wait_until("nothing runs by the old rules", || proxy.server().now().draining() == 0);
    assert_eq!(proxy.in_flight(), 0);
    elsewhere.is_quiet();
}

#[test]
fn changes_that_need_a_restart_are_reported() {
    let endpoint = Endpoint::saying("a");
    let mut proxy = Proxy::start(&config(&[endpoint.addr], ""));
    let more =
        config(&[endpoint.addr], "[telemetry]\nmetrics = { buckets = [1, 2] }").replace("workers = 1", "workers = 2");
    let summary = proxy.reload(&more).expect("nothing fails");
    assert_eq!(summary.at_restart, ["runtime.workers", "telemetry.metrics.buckets"]);
    assert!(summary.to_string().contains("only a restart changes runtime.workers"), "{summary}");
    assert_eq!(proxy.client().get("/").status(), 200);
    assert_eq!(proxy.server().stats().len(), 1);
}
