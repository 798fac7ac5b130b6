//! Retries: the failures that allow one, its endpoint, and the number of tries; no request is repeated that must not
//! be.

use crate::support::endpoint::{ok, status};
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, noise, own_addr, wait_until};
use evenkeel_balance::retry::Stop;
use evenkeel_proxy::end::Cause;
use evenkeel_proxy::stats::ErrorKind;
use std::net::SocketAddr;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

/// A proxy with these endpoints and short pauses. Ejection is off, as it has tests of its own.
fn proxy(endpoints: &[SocketAddr], retry: &str) -> Proxy {
    Proxy::with(endpoints, "", &pool(retry), "")
}

fn pool(retry: &str) -> String {
    format!("outlier = 'off'\nretry = {{ backoff = '1ms..2ms', {retry} }}")
}

/// Status of the response to a request on a new connection.
fn answer(proxy: &Proxy, request: &str) -> u16 {
    proxy.client().send(request).response().status()
}

fn retries(proxy: &Proxy) -> u64 {
    proxy.pool(|pool| pool.retries.get())
}

fn refused(proxy: &Proxy, why: Stop) -> u64 {
    proxy.pool(|pool| pool.retries_refused[why as usize].get())
}

fn seen(endpoints: &[Endpoint]) -> usize {
    endpoints.iter().map(|endpoint| endpoint.seen().len()).sum()
}

#[test]
fn a_refused_connection_is_tried_elsewhere_whatever_the_method() {
    let good = Endpoint::saying("good");
    let proxy = proxy(&[own_addr(), good.addr], "");
    for request in [GET, POST, GET, POST] {
        assert_eq!(answer(&proxy, request), 200);
    }
    assert_eq!(good.seen().len(), 4);
    assert!((1..=4).contains(&retries(&proxy)), "{}", retries(&proxy));
}

#[test]
fn when_a_tier_has_no_endpoint_left_to_try_the_next_one_is_asked() {
    for primary in [1, 2] {
        let standby = Endpoint::saying("standby");
        let refusing: String = (0..primary).map(|_| format!("'{}', ", own_addr())).collect();
        let endpoints = format!("{refusing}{{ addr = '{}', priority = 1 }}", standby.addr);
        let proxy = Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n[pool.web]\nendpoints = [{endpoints}]\n{}",
            pool(&format!("attempts = {primary}"))
        ));
        for request in [GET, POST, GET] {
            assert_eq!(answer(&proxy, request), 200, "{primary} refuse");
        }
        assert_eq!((standby.seen().len(), retries(&proxy)), (3, 3 * primary));
    }
}

#[test]
fn a_status_of_the_list_is_tried_again_in_the_next_tier_too() {
    let (busy, standby) = (Endpoint::answering(|_| status("503 Busy", "try another")), Endpoint::saying("standby"));
    let endpoints = format!("'{}', {{ addr = '{}', priority = 1 }}", busy.addr, standby.addr);
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n[pool.web]\nendpoints = [{endpoints}]\n{}",
        pool("on = [503]")
    ));
    assert_eq!([0; 2].map(|_| proxy.client().send(GET).response().body_text()), ["standby"; 2]);
    assert_eq!((busy.seen().len(), standby.seen().len()), (2, 2));
}

#[test]
fn what_was_not_answered_is_tried_again_if_twice_does_no_harm() {
    let (bad, good) = (Endpoint::resetting(), Endpoint::saying("good"));
    let once = proxy(&[bad.addr, good.addr], "");
    assert_eq!([0; 4].map(|_| answer(&once, GET)), [200; 4]);
    let after_gets = retries(&once);
    assert!(after_gets > 0);
    let posts = [0; 4].map(|_| answer(&once, POST));
    let failed = posts.iter().filter(|status| **status == 502).count() as u64;
    assert!((1..4).contains(&failed), "every other one meets each endpoint: {posts:?}");
    assert_eq!((retries(&once), refused(&once, Stop::NotIdempotent)), (after_gets, failed));

    let twice = proxy(&[bad.addr, good.addr], "non_idempotent = true");
    assert_eq!([0; 4].map(|_| answer(&twice, POST)), [200; 4]);
    assert!(retries(&twice) > 0);
}

#[test]
fn a_small_body_is_sent_again_as_it_was() {
    let endpoints = [Endpoint::resetting(), Endpoint::resetting(), Endpoint::resetting()];
    let proxy = proxy(&endpoints.each_ref().map(|e| e.addr), "attempts = 2");
    let body = noise(5000);
    for framing in ["Content-Length: 5000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n1388\r\n"] {
        let end: &[u8] = if framing.starts_with("T") { b"\r\n0\r\n\r\n" } else { b"" };
        let request = [format!("PUT /x HTTP/1.1\r\nHost: a\r\n{framing}").as_bytes(), &body, end].concat();
        assert_eq!(proxy.client().send(request).response().status(), 502);
    }
    for endpoint in &endpoints {
        let seen = endpoint.seen();
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|request| request.line() == "PUT /x HTTP/1.1" && request.body == body));
        assert_eq!(seen, endpoints[0].seen(), "each saw the same bytes");
    }
}

#[test]
fn a_body_that_has_begun_to_leave_is_not_sent_twice() {
    let early = || Endpoint::start(|conn| drop(conn.next_head()));
    let endpoints = [early(), early()];
    let proxy = proxy(&endpoints.each_ref().map(|e| e.addr), "");
    let mut client = proxy.client();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").send(noise(20_000));
    assert_eq!(client.response().status(), 502);
    assert_eq!((retries(&proxy), refused(&proxy, Stop::BodyGone)), (0, 1));
    assert_eq!(endpoints[0].accepted() + endpoints[1].accepted(), 1);
}

#[test]
fn a_body_of_any_size_survives_refused_connections() {
    let good = Endpoint::saying("good");
    let proxy = proxy(&[own_addr(), own_addr(), good.addr], "attempts = 2");
    let body = noise(1_000_000);
    for _ in 0..3 {
        let mut client = proxy.client();
        let sending = client
            .send_aside([b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n".as_slice(), &body].concat());
        assert_eq!(client.response().status(), 200);
        sending.join().expect("no panic").expect("the proxy takes it");
    }
    assert!(retries(&proxy) > 0);
    assert!(good.seen().iter().all(|request| request.body == body));
}

#[test]
fn a_status_of_the_list_is_tried_elsewhere_on_connections_that_are_kept() {
    for on in ["503", "'5xx'", "'500..=503'"] {
        let bad = Endpoint::answering(|_| status("503 Busy", "try another"));
        let good = Endpoint::saying("good");
        let proxy = proxy(&[bad.addr, good.addr], &format!("on = [{on}]"));
        let mut client = proxy.client();
        for _ in 0..4 {
            assert_eq!(client.get("/").body_text(), "good", "{on}");
        }
        assert!(bad.seen().len() >= 2);
        assert_eq!((bad.accepted(), good.accepted()), (1, 1), "{on}");
        assert_eq!(retries(&proxy), bad.seen().len() as u64);
    }
}

/// The cases of Gateway API's conformance test HTTPRouteRetry, whose pool has one endpoint.
#[test]
fn the_only_endpoint_is_asked_again_after_a_status_if_that_is_allowed() {
    for (after, attempts, same_endpoint, want) in
        [(2, 3, true, 200), (4, 3, true, 500), (1, 2, true, 200), (3, 2, true, 500), (1, 2, false, 500)]
    {
        let served = std::sync::atomic::AtomicUsize::new(0);
        let endpoint = Endpoint::answering(move |_| {
            let n = served.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if n < after { status("500 Oops", "original") } else { ok("good") }
        });
        let keys = format!(
            "on = [500], attempts = {attempts}, same_endpoint = {same_endpoint}, budget = 1.0, budget_floor = 1e6"
        );
        let proxy = proxy(&[endpoint.addr], &keys);
        let response = proxy.client().send(GET).response();
        let body = if want == 200 { "good" } else { "original" };
        assert_eq!((response.status(), &*response.body_text()), (want, body), "{after} {keys}");
        let tries = if same_endpoint { attempts.min(after) + 1 } else { 1 };
        assert_eq!(endpoint.seen().len(), tries, "{after} {keys}");
    }
}

#[test]
fn a_status_that_is_not_in_the_list_is_passed_on() {
    let bad = Endpoint::answering(|_| status("503 Busy", "original"));
    let good = Endpoint::saying("good");
    let proxy = proxy(&[bad.addr, good.addr], "on = ['connect', 'reset', 502, 504]");
    let bodies = [0; 4].map(|_| proxy.client().send(GET).response().body_text());
    assert!(bodies.contains(&"original".to_string()), "{bodies:?}");
    assert_eq!(retries(&proxy), 0);
}

#[test]
fn a_refused_response_that_is_not_whole_costs_its_connection() {
    let bad = Endpoint::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\nabc");
        assert_eq!(conn.rest(), b"", "it is closed at once");
    });
    let good = Endpoint::saying("good");
    let proxy = proxy(&[bad.addr, good.addr], "on = [503]");
    assert_eq!([0; 4].map(|_| answer(&proxy, GET)), [200; 4]);
    assert_eq!(bad.accepted(), bad.seen().len());
}

#[test]
fn the_original_response_is_passed_on_when_there_is_no_other_try() {
    let busy =
        || Endpoint::answering(|_| b"HTTP/1.1 503 Busy\r\nX-Why: load\r\nContent-Length: 8\r\n\r\noriginal".into());
    let original = |proxy: &Proxy| {
        let response = proxy.client().send(GET).response();
        assert_eq!((response.status(), response.field("x-why")), (503, Some("load")));
        assert_eq!(response.body_text(), "original");
    };
    let endpoints = [busy(), busy()];
    let addrs = endpoints.each_ref().map(|e| e.addr);

    let alone = proxy(&addrs[..1], "on = [503]");
    original(&alone);
    assert_eq!((retries(&alone), seen(&endpoints)), (0, 1), "there is no other endpoint");

    let both = proxy(&addrs, "on = [503], attempts = 5");
    original(&both);
    assert_eq!((retries(&both), seen(&endpoints)), (1, 3), "each was asked once");

    let attempts = proxy(&addrs, "on = [503], attempts = 0");
    original(&attempts);
    assert_eq!((retries(&attempts), refused(&attempts, Stop::Attempts)), (0, 1));

    let budget = proxy(&addrs, "on = [503], budget = 0, budget_floor = 0");
    original(&budget);
    assert_eq!((retries(&budget), refused(&budget, Stop::Budget)), (0, 1));
    assert_eq!(seen(&endpoints), 5);
}

#[test]
fn the_original_response_is_passed_on_when_every_other_endpoint_is_full() {
    let endpoints = [(); 2].map(|()| {
        Endpoint::start(|conn| {
            while let Some(head) = conn.next_head() {
                if head.starts_with("GET /held") {
                    return drop(conn.rest());
                }
                conn.send(status("503 Busy", "original"));
            }
        })
    });
    let limits = "limits = { requests_per_endpoint = 1 }\n";
    let lines = limits.to_string() + &pool("on = [503]");
    let proxy = Proxy::with(&endpoints.each_ref().map(|e| e.addr), "", &lines, "");
    let mut held = proxy.client();
    held.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("one is full", || proxy.in_flight() == 1);
    assert_eq!(proxy.client().send(GET).response().body_text(), "original");
    assert_eq!(retries(&proxy), 0);
    held.reset();
}

#[test]
fn an_endpoint_that_takes_too_long_is_left_for_another() {
    let (slow, good) = (Endpoint::silent(), Endpoint::saying("good"));
    let proxy = proxy(&[slow.addr, good.addr], "on = ['timeout'], try_timeout = '300ms'");
    assert_eq!([0; 3].map(|_| answer(&proxy, GET)), [200; 3]);
    assert!(retries(&proxy) > 0);
    wait_until("the slow one has read them", || slow.seen().len() as u64 == retries(&proxy));
}

/// With full jitter up to a minute, a pause below 10 ms, before which the client might not leave, has odds of 1 in
/// 6000.
#[test]
fn a_client_that_leaves_before_another_try_is_noticed_at_once() {
    let (bad, log) = (Endpoint::resetting(), Log::new());
    let lines = "outlier = 'off'\nretry = { backoff = '1m..1m' }\ntimeouts = { request = 'off' }";
    let proxy = Proxy::with(&[bad.addr], "", lines, &log.config());
    let mut client = proxy.client();
    client.send(GET);
    wait_until("it has failed once", || proxy.endpoint(0, |e| e.errors[ErrorKind::Reset as usize].get()) == 1);
    client.reset();
    wait_until("the client is gone", || proxy.listener(|l| l.ends[Cause::Client as usize].get()) == 1);
    assert_eq!((bad.seen().len(), retries(&proxy)), (1, 0));
    let lines = log.lines(proxy);
    assert_eq!((&lines[0]["term"], &lines[0]["tries"]), (&"CH".into(), &1.into()), "{}", lines[0]);
}

#[test]
fn every_endpoint_is_tried_before_one_is_tried_twice() {
    for (attempts, tries) in [(0, 1), (1, 2), (2, 3), (5, 6)] {
        let endpoints = [Endpoint::resetting(), Endpoint::resetting(), Endpoint::resetting()];
        let proxy = proxy(&endpoints.each_ref().map(|e| e.addr), &format!("attempts = {attempts}"));
        assert_eq!(answer(&proxy, GET), 502);
        assert_eq!((seen(&endpoints), retries(&proxy)), (tries, attempts), "{attempts}");
        let tried = endpoints.iter().filter(|e| !e.seen().is_empty()).count();
        assert_eq!(tried, tries.min(3), "{attempts}");
        assert_eq!(refused(&proxy, Stop::Attempts), 1);
    }
}

#[test]
fn when_all_fail_the_load_grows_by_no_more_than_the_budget() {
    let endpoints = [Endpoint::resetting(), Endpoint::resetting()];
    let addrs = endpoints.each_ref().map(|e| e.addr);
    let share = proxy(&addrs, "budget = 0.2, budget_floor = 0");
    (0..50).for_each(|_| assert_eq!(answer(&share, GET), 502));
    let again = retries(&share);
    assert!((1..=10).contains(&again), "{again}");
    assert_eq!((again + refused(&share, Stop::Budget), seen(&endpoints) as u64), (50, 50 + again));
}

#[test]
fn the_deadline_of_the_whole_request_ends_its_tries() {
    let slow = Endpoint::silent();
    let log = Log::new();
    let lines = pool("on = ['timeout'], attempts = 5") + "\ntimeouts = { request = '100ms' }";
    let proxy = Proxy::with(&[slow.addr], "", &lines, &log.config());
    assert_eq!(answer(&proxy, GET), 504);
    assert_eq!((retries(&proxy), refused(&proxy, Stop::Deadline)), (0, 1));
    let lines = log.lines(proxy);
    assert_eq!((&lines[0]["term"], &lines[0]["tries"]), (&"sH".into(), &1.into()), "{}", lines[0]);
}

#[test]
fn the_log_counts_tries_and_names_the_endpoint_that_ended_it() {
    let (bad, good, log) = (Endpoint::resetting(), Endpoint::answering(|_| ok("good")), Log::new());
    let mut proxy = Proxy::with(&[bad.addr, good.addr], "", &pool(""), &log.config());
    for _ in 0..2 {
        assert_eq!(answer(&proxy, GET), 200);
    }
    wait_until("both are counted", || proxy.ended(200) == 2);
    let only_bad = format!("[listener.web]\nbind = ['$BIND']\n[pool.web]\nendpoints = ['{}']\n{}", bad.addr, pool(""));
    proxy.reload(&(format!("[runtime]\nworkers = 1\n{only_bad}\n") + &log.config())).expect("nothing fails");
    assert_eq!(answer(&proxy, GET), 502);
    let lines = log.lines(proxy);
    assert!(lines.iter().any(|line| line["tries"] == 2 && line["status"] == 200), "{lines:#?}");
    for line in lines.iter().filter(|line| line["status"] == 200) {
        assert_eq!((&line["endpoint"], &line["term"]), (&good.addr.to_string().into(), &"--".into()), "{line}");
    }
    let last = lines.last().expect("three lines");
    assert_eq!((&last["tries"], &last["term"], &last["status"]), (&2.into(), &"SH".into(), &502.into()), "{last}");
}
