//! Health checks: which endpoints get requests, and which answers count as healthy.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{Conn, ok, status};
use crate::support::{Client, Endpoint, Proxy, SOON, own_addr, wait_until};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

/// Fast enough for a test, and slow enough that a busy machine does not fail three in a row.
const QUICK: &str = "interval = '100ms', fall = 3, rise = 2";

/// An endpoint that answers with its name, and whose check passes while `well` is true.
struct Site {
    endpoint: Endpoint,
    well: Arc<AtomicBool>,
}

impl Site {
    fn start(name: &'static str, well: bool) -> Site {
        let well = Arc::new(AtomicBool::new(well));
        let is_well = well.clone();
        let endpoint = Endpoint::answering(move |request| match request.line() {
            "GET /healthz HTTP/1.1" if is_well.load(SeqCst) => ok("well"),
            "GET /healthz HTTP/1.1" => status("503 Not Well", "not well"),
            _ => ok(name),
        });
        Site { endpoint, well }
    }

    fn addr(&self) -> SocketAddr {
        self.endpoint.addr
    }

    fn is(&self, well: bool) {
        self.well.store(well, SeqCst);
    }

    /// Number of checks that it has answered.
    fn checks(&self) -> usize {
        self.endpoint.seen().iter().filter(|request| request.line().contains("/healthz")).count()
    }
}

fn config(endpoints: &str, health: &str, more: &str) -> String {
    let http = if health.contains("tcp") || health.contains("http") { "" } else { "http = { path = '/healthz' }, " };
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\n[pool.web]\nbalance = 'round_robin'\n\
         endpoints = [{endpoints}]\nhealth = {{ {http}{health} }}\n{more}\n"
    )
}

fn list(endpoints: &[SocketAddr]) -> String {
    endpoints.iter().map(|addr| format!("'{addr}', ")).collect()
}

/// This many clients that have sent a request.
fn asking(proxy: &Proxy, n: usize) -> Vec<Client> {
    let one = |_| {
        let mut client = proxy.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    (0..n).map(one).collect()
}

/// Numbers of passed and failed checks of an endpoint.
fn results(proxy: &Proxy, endpoint: SocketAddr) -> (u64, u64) {
    let pools = proxy.server().control().pools();
    let id = evenkeel_balance::EndpointId::of(&endpoint.to_string());
    let counts = pools["web"].history().endpoint(id).expect("an endpoint of the pool").counts;
    (counts.passed, counts.failed)
}

#[test]
fn whoever_fails_its_checks_gets_no_requests_until_it_passes_again() {
    let (a, b) = (Site::start("a", true), Site::start("b", true));
    let proxy = Proxy::start(&config(&list(&[a.addr(), b.addr()]), QUICK, ""));
    proxy.becomes(a.addr(), "up");
    proxy.becomes(b.addr(), "up");
    assert_eq!(proxy.answers(4), ["a", "b"]);
    a.is(false);
    proxy.becomes(a.addr(), "down");
    assert!(results(&proxy, a.addr()).1 >= 3, "not before three have failed");
    assert_eq!(proxy.answers(6), ["b"]);
    a.is(true);
    proxy.becomes(a.addr(), "up");
    assert_eq!(proxy.answers(4), ["a", "b"]);
}

#[test]
fn a_connection_is_check_enough_where_that_is_all_that_is_asked() {
    let a = Site::start("a", false);
    let dead = own_addr();
    let proxy = Proxy::start(&config(&list(&[a.addr(), dead]), "tcp = {}, interval = '100ms'", ""));
    proxy.becomes(dead, "down");
    proxy.becomes(a.addr(), "up");
    assert_eq!(proxy.answers(4), ["a"]);
    assert_eq!(proxy.pool(|pool| pool.retries.get()), 0, "nobody had to find out");
    assert_eq!(a.checks(), 0);
    // The endpoint comes up.
    let listener = TcpListener::bind(dead).expect("still free");
    let _back = Endpoint::on(listener, |conn| {
        while conn.request().is_some() {
            conn.send(ok("back"));
        }
    });
    proxy.becomes(dead, "up");
    wait_until("it serves", || proxy.answers(2).contains(&"back".to_string()));
    drop(proxy);
}

#[test]
fn a_check_sends_the_configured_request() {
    let endpoint = Endpoint::saying("x");
    let http = "http = { path = '/a?b=c', method = 'HEAD', host = 'web.internal:81' }, interval = '100ms'";
    let proxy = Proxy::start(&config(&list(&[endpoint.addr]), http, ""));
    wait_until("it is asked", || !endpoint.seen().is_empty());
    let asked = &endpoint.seen()[0];
    assert_eq!(asked.line(), "HEAD /a?b=c HTTP/1.1");
    assert_eq!((asked.field("host"), asked.field("connection")), (Some("web.internal:81"), Some("close")));
    drop(proxy);
    let proxy = Proxy::start(&config(&list(&[endpoint.addr]), "http = {}, interval = '100ms'", ""));
    wait_until("it is asked again", || endpoint.seen().iter().any(|request| request.line() == "GET / HTTP/1.1"));
    let asked =
        endpoint.seen().into_iter().find(|request| request.line() == "GET / HTTP/1.1").expect("it was waited for");
    assert_eq!(asked.field("host"), Some(endpoint.addr.to_string().as_str()));
    drop(proxy);
}

/// All answers against all expectations; each proxy's first check decides.
#[test]
fn status_and_body_must_be_as_expected() {
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n5\r\n is w\r\n3\r\nell\r\n0\r\n\r\n";
    let until_close = "HTTP/1.0 200 OK\r\n\r\nall is well";
    let (plain, no_content) = ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nall is well", "HTTP/1.1 204 No\r\n\r\n");
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let moved = "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n";
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nall is w";
    for (answer, asked, state) in [
        (plain, "", "up"),
        (no_content, "", "up"),
        (interim, "", "up"),
        (moved, "", "down"),
        (moved, "expect = ['2xx', '300..=303'],", "up"),
        (plain, "expect = [204, '5xx'],", "down"),
        (plain, "body = 'is well',", "up"),
        (chunked, "body = 'all is well',", "up"),
        (until_close, "body = 'is well',", "up"),
        (plain, "body = 'is Well',", "down"),
        (chunked, "body = '3',", "down"),
        (until_close, "body = 'wellness',", "down"),
        (cut, "body = 'is well',", "down"),
        (no_content, "body = 'is well',", "down"),
    ] {
        let endpoint = Endpoint::start(move |conn| {
            conn.request();
            conn.send(answer);
        });
        let health = format!("http = {{ {asked} path = '/' }}, interval = '1s'");
        let proxy = Proxy::start(&config(&list(&[endpoint.addr]), &health, ""));
        wait_until("it is checked", || results(&proxy, endpoint.addr) != (0, 0));
        assert_eq!(proxy.state(endpoint.addr), state, "{asked} {answer}");
    }
}

/// Behaviour of an endpoint on a connection.
type Script = fn(&mut Conn);

/// Answers with `first`, and then with `then` until the proxy closes.
fn flood(conn: &mut Conn, first: &str, then: &str) {
    conn.request();
    conn.send(first);
    while conn.stream.write_all(then.as_bytes()).is_ok() {}
}

#[test]
fn whatever_an_endpoint_does_to_a_check_it_fails_in_time() {
    let scripts: [(&str, Script); 7] = [
        ("hangs", |conn| drop(conn.rest())),
        ("closes", |conn| conn.close()),
        ("resets", |conn| conn.reset_at_end()),
        ("sends garbage", |conn| conn.send("220 mail.example.com ESMTP\r\n")),
        ("never ends its head", |conn| flood(conn, "HTTP/1.1 200 OK\r\n", "A: b\r\n")),
        ("sends interim responses for ever", |conn| flood(conn, "", "HTTP/1.1 100 Continue\r\n\r\n")),
        ("sends a body for ever", |conn| flood(conn, "HTTP/1.1 200 OK\r\n\r\n", "something else")),
    ];
    for (what, script) in scripts {
        let bad = Endpoint::start(script);
        let good = Site::start("good", true);
        let health = "http = { path = '/healthz', body = 'well' }, interval = '300ms'";
        let proxy = Proxy::start(&config(&list(&[bad.addr, good.addr()]), health, ""));
        proxy.becomes(bad.addr, "down");
        proxy.becomes(good.addr(), "up");
        assert_eq!(proxy.answers(2), ["good"], "it {what}");
    }
}

/// The first check passes only when the test lets it, and requests come before that.
#[test]
fn requests_wait_for_the_first_result() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while let Some(request) = conn.request() {
            if request.line().contains("/healthz") && conn.index == 0 {
                may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            }
            conn.send(ok("well"));
        }
    });
    let proxy = Proxy::start(&config(&list(&[endpoint.addr]), "interval = '20s', timeout = '20s'", ""));
    let mut clients = asking(&proxy, 3);
    // On a slow machine the first second, in which they wait, may be over.
    wait_until("all wait", || proxy.waiting() == 3 || proxy.state(endpoint.addr) != "unchecked");
    go_on.send(()).expect("the check waits");
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status(), 200));
}

#[test]
fn requests_do_not_wait_for_a_check_that_hangs() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            if request.line().contains("/healthz") {
                return drop(conn.rest());
            }
            conn.send(ok("served"));
        }
    });
    let proxy = Proxy::start(&config(&list(&[endpoint.addr]), "interval = '20s', timeout = '20s'", ""));
    assert_eq!(proxy.client().get("/").body_text(), "served");
    assert_eq!(results(&proxy, endpoint.addr), (0, 0), "there was no result");
}

#[test]
fn other_starts_wait_for_nothing() {
    for (initial, state) in [("healthy", "up"), ("unhealthy", "down")] {
        let endpoint = Endpoint::silent();
        let health = format!("interval = '20s', timeout = '20s', initial = '{initial}'");
        let proxy = Proxy::start(&config(&list(&[endpoint.addr]), &health, ""));
        assert_eq!(proxy.state(endpoint.addr), state);
    }
}

#[test]
fn when_nobody_is_well_everybody_is_used_or_nobody() {
    let sites = [Site::start("a", false), Site::start("b", false)];
    let addrs = sites.each_ref().map(Site::addr);
    let is_flagged = |proxy: &Proxy| proxy.server().control().pools()["web"].history().in_panic();

    let proxy = Proxy::start(&config(&list(&addrs), QUICK, ""));
    addrs.iter().for_each(|addr| proxy.becomes(*addr, "down"));
    assert_eq!((proxy.answers(4), is_flagged(&proxy)), (vec!["a".into(), "b".into()], true));
    sites.iter().for_each(|site| site.is(true));
    wait_until("it is over", || !is_flagged(&proxy));
    drop(proxy);

    sites.iter().for_each(|site| site.is(false));
    let proxy = Proxy::start(&config(&list(&addrs), QUICK, "panic = { mode = 'refuse' }"));
    addrs.iter().for_each(|addr| proxy.becomes(*addr, "down"));
    let refused = proxy.client().get("/");
    assert_eq!(refused.status(), 503);
    let text = refused.body_text();
    assert!(text.contains("pool \"web\"") && text.contains("0 of 2 endpoints eligible (2 unhealthy)"), "{text}");
}

#[test]
fn the_standby_takes_over_and_gives_back() {
    let (active, standby) = (Site::start("active", true), Site::start("standby", true));
    let endpoints = format!("'{}', {{ addr = '{}', priority = 1 }}", active.addr(), standby.addr());
    let proxy = Proxy::start(&config(&endpoints, QUICK, ""));
    assert_eq!(proxy.answers(4), ["active"], "whichever check came back first");
    proxy.becomes(standby.addr(), "up");
    active.is(false);
    proxy.becomes(active.addr(), "down");
    assert_eq!(proxy.answers(4), ["standby"]);
    active.is(true);
    proxy.becomes(active.addr(), "up");
    assert_eq!(proxy.answers(4), ["active"]);
}

#[test]
fn a_zone_that_is_half_down_spills_over() {
    let sites = ["a1", "a2", "b1", "b2"].map(|name| Site::start(name, true));
    let zone = |site: &Site, zone: &str| format!("{{ addr = '{}', zone = '{zone}' }}, ", site.addr());
    let [a1, a2, b1, b2] = &sites;
    let endpoints = [zone(a1, "a"), zone(a2, "a"), zone(b1, "b"), zone(b2, "b")].concat();
    let proxy = Proxy::start(&config(&endpoints, QUICK, "locality = { zone = 'a' }"));
    sites.iter().for_each(|site| proxy.becomes(site.addr(), "up"));
    assert_eq!(proxy.answers(8), ["a1", "a2"]);
    a1.is(false);
    proxy.becomes(a1.addr(), "down");
    assert_eq!(proxy.answers(12), ["a2", "b1", "b2"], "half of the zone is left, below spill_at");
    a1.is(true);
    proxy.becomes(a1.addr(), "up");
    assert_eq!(proxy.answers(8), ["a1", "a2"]);
}

#[test]
fn a_new_plan_keeps_what_is_known_and_starts_only_checks_that_are_new() {
    let sites = [Site::start("a", true), Site::start("b", false), Site::start("c", true)];
    let [a, b, c] = sites.each_ref().map(Site::addr);
    // So rare that an endpoint that is checked again within the test must have been restarted.
    let seldom = "interval = '1h', jitter = 0.0, timeout = '20s'";
    let mut proxy = Proxy::start(&config(&list(&[a, b]), seldom, ""));
    proxy.becomes(a, "up");
    proxy.becomes(b, "down");
    proxy.reload(&config(&list(&[b, c, a]), seldom, "queue = { max = 3 }")).expect("nothing fails");
    assert_eq!((proxy.state(a), proxy.state(b)), ("up", "down"));
    proxy.becomes(c, "up");
    assert_eq!(sites.each_ref().map(Site::checks), [1, 1, 1]);

    // A changed check runs at once, but one result does not yet overrule the known state.
    proxy.reload(&config(&list(&[a, b, c]), &seldom.replace("1h", "2h"), "")).expect("nothing fails");
    assert_eq!((proxy.state(a), proxy.state(b)), ("up", "down"));
    wait_until("all are checked again", || sites.each_ref().map(Site::checks) == [2, 2, 2]);
}

/// Endpoints that require the header fail checks without it.
#[test]
fn checks_of_endpoints_that_expect_it_begin_with_a_header_for_nobody() {
    for version in ["v1", "v2"] {
        let (told, heard) = channel::<bool>();
        let told = Mutex::new(told);
        let endpoint = Endpoint::start(move |conn| {
            let nobodys = if version == "v1" {
                let mut line = conn.bytes(8);
                while !line.ends_with(b"\n") {
                    line.extend(conn.bytes(1));
                }
                line == b"PROXY UNKNOWN\r\n"
            } else {
                let fixed = conn.bytes(16);
                assert_eq!(fixed[..12], *b"\r\n\r\n\0\r\nQUIT\n");
                let rest = conn.bytes(usize::from(u16::from_be_bytes([fixed[14], fixed[15]])));
                fixed[12] == 0x20 && rest.is_empty()
            };
            let request = conn.request().expect("a request behind the header");
            let is_check = request.line().contains("/healthz");
            let _ = told.lock().expect("no panic").send(is_check == nobodys);
            conn.send(ok("well"));
            conn.rest();
        });
        let proxy = Proxy::start(&config(
            &list(&[endpoint.addr]),
            "interval = '100ms'",
            &format!("proxy_protocol = '{version}'"),
        ));
        proxy.becomes(endpoint.addr, "up");
        assert_eq!(proxy.answers(1), ["well"]);
        for _ in 0..2 {
            assert!(heard.recv_timeout(SOON).expect("it is asked"), "{version}");
        }
    }
}

#[test]
fn whoever_comes_back_has_its_share_bit_by_bit() {
    let (a, b) = (Site::start("a", true), Site::start("b", true));
    let slow = "slow_start = { window = '6s', min_weight = 0.1 }";
    let proxy = Proxy::start(&config(&list(&[a.addr(), b.addr()]), QUICK, slow));
    proxy.becomes(a.addr(), "up");
    a.is(false);
    proxy.becomes(a.addr(), "down");
    a.is(true);
    proxy.becomes(a.addr(), "ramping");
    let of_a = (0..44).filter(|_| proxy.client().get("/").body_text() == "a").count();
    // The ramp begins at a tenth of the weight: 4 of 44 requests. Half of the ramp, 3 s later, would be 15.
    assert!((1..15).contains(&of_a), "{of_a}");
    proxy.becomes(a.addr(), "up");
    let of_a = (0..20).filter(|_| proxy.client().get("/").body_text() == "a").count();
    assert!((8..=12).contains(&of_a), "{of_a}");
}
