//! Hedging: a second copy of a slow request helps, within its limits.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{Conn, ok};
use crate::support::log::Log;
use crate::support::message::Message;
use crate::support::{Endpoint, Proxy, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Time for a fast response. A second copy is sent no earlier, so it does not overtake the first on its way.
const FAST: Duration = Duration::from_millis(20);

/// Timeout for tests in which it ends slow requests: many times the delay of a second copy, even on a busy machine.
const RESPONSE: &str = "timeouts = { response = '1s' }";

/// Number of latencies from which the percentile is used.
const ENOUGH: usize = 100;

const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";

/// Endpoints that answer at once, except requests for `/slow`.
struct Endpoints {
    all: Vec<Endpoint>,
    /// Counts of slow requests that came, and of their scripts that ended.
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    came: AtomicUsize,
    ended: AtomicUsize,
}

impl Endpoints {
    /// `slow` handles slow requests, with their number over all endpoints.
    fn start(n: usize, slow: impl Fn(&mut Conn, usize, &Counts) + Clone + Send + Sync + 'static) -> Endpoints {
        let counts = Arc::<Counts>::default();
        let endpoint = |_| {
            let (counts, slow) = (counts.clone(), slow.clone());
            Endpoint::start(move |conn| {
                while let Some(request) = conn.request() {
                    if request.line().contains(" /slow ") {
                        let nth = counts.came.fetch_add(1, SeqCst);
                        slow(conn, nth, &counts);
                        counts.ended.fetch_add(1, SeqCst);
                        return;
                    }
                    std::thread::sleep(FAST);
                    conn.send(ok("fast"));
                }
            })
        };
        let all = (0..n).map(endpoint).collect();
        Endpoints { all, counts }
    }

    /// A proxy that hedges and has seen `seen` fast responses.
    fn proxy(&self, seen: usize, lines: &str, log: &str) -> Proxy {
        let lines = format!("outlier = 'off'\n{lines}");
        let proxy = Proxy::with(&self.all.iter().map(|e| e.addr).collect::<Vec<_>>(), "", &lines, log);
        std::thread::scope(|scope| {
            for at_once in 0..10 {
                let mut client = proxy.client();
                let mine = (seen + at_once) / 10;
                scope.spawn(move || (0..mine).for_each(|_| assert_eq!(client.get("/").body_text(), "fast")));
            }
        });
        proxy
    }

    fn came(&self) -> usize {
        self.counts.came.load(SeqCst)
    }
}

/// No idle connections: a close is then the endpoint's answer to the request, and not a stale connection, which would
/// be replaced.
const UNSHARED: &str = "limits = { idle_per_endpoint = 0 }";

const HEDGING: &str = "retry = { attempts = 0, hedge_after = 'p95', hedge_budget = 1 }";

fn until_both_came(counts: &Counts) {
    wait_until("the second copy comes", || counts.came.load(SeqCst) >= 2);
}

/// Waits until the proxy closes.
fn hold(conn: &mut Conn) {
    conn.rest();
}

/// Numbers of second copies sent, and of those that won.
fn hedges(proxy: &Proxy) -> [u64; 2] {
    [proxy.pool(|pool| pool.hedges.get()), proxy.pool(|pool| pool.hedges_won.get())]
}

fn resets(proxy: &Proxy) -> u64 {
    (0..2).map(|i| proxy.endpoint(i, |e| e.errors[1].get())).sum()
}

fn ask(proxy: &Proxy) -> Message {
    proxy.client().send(SLOW).response()
}

#[test]
fn a_slow_endpoint_is_overtaken_and_let_go_of() {
    let endpoints = Endpoints::start(2, |conn, nth, _| {
        if nth == 0 {
            return hold(conn);
        }
        let name = conn.stream.local_addr().expect("it is connected").to_string();
        conn.send(ok(&name));
    });
    let log = Log::new();
    let proxy = endpoints.proxy(ENOUGH, HEDGING, &log.config());
    let second = ask(&proxy).body_text();
    assert_eq!(hedges(&proxy), [1, 1]);
    wait_until("its connection is closed", || endpoints.counts.ended.load(SeqCst) == 2);
    wait_until("nothing is in flight", || proxy.in_flight() == 0);
    assert_eq!(resets(&proxy), 0, "it did nothing wrong");
    let ended: u64 = (0..2).map(|i| proxy.endpoint(i, |e| e.requests.iter().map(|n| n.get()).sum())).sum();
    assert_eq!(ended, ENOUGH as u64 + 2, "each copy counts as a request that ended");
    let lines = log.lines(proxy);
    let line = lines.last().expect("a line for each");
    assert_eq!((&line["tries"], &line["term"], &line["status"]), (&2.into(), &"--".into(), &200.into()), "{line}");
    assert_eq!(line["endpoint"], second, "{line}");
    let causes: Vec<&str> = (0..2).filter_map(|n| line["attempts"][n]["cause"].as_str()).collect();
    assert_eq!((causes, &line["attempts"][1]["endpoint"]), (vec!["overtaken", "answered"], &second.into()), "{line}");
}

/// The host of an endpoint belongs to its copy, and the fields of the route to both.
#[test]
fn each_copy_has_the_host_of_its_endpoint() {
    let endpoints = Endpoints::start(2, |conn, nth, _| if nth == 0 { hold(conn) } else { conn.send(ok("second")) });
    let route = "[[route]]\npool = 'web'\nmatch = { prefix = '/' }\nsend_host = 'endpoint'\n\
                 request_headers = { set = { X-Set = '{client.ip}' } }\nrewrite = { prefix = '/' }";
    let proxy = endpoints.proxy(ENOUGH, HEDGING, route);
    assert_eq!(ask(&proxy).body_text(), "second");
    assert_eq!(hedges(&proxy), [1, 1]);
    for endpoint in &endpoints.all {
        let own = endpoint.addr.to_string();
        for seen in endpoint.seen() {
            assert_eq!((seen.field("host"), seen.field("x-set")), (Some(&*own), Some("127.0.0.1")), "{}", seen.head);
        }
    }
}

#[test]
fn the_first_may_still_win() {
    let endpoints = Endpoints::start(2, |conn, nth, counts| {
        if nth == 0 {
            until_both_came(counts);
            conn.send(ok("first"));
        } else {
            hold(conn)
        }
    });
    let proxy = endpoints.proxy(ENOUGH, HEDGING, "");
    assert_eq!(ask(&proxy).body_text(), "first");
    assert_eq!((hedges(&proxy), resets(&proxy)), ([1, 0], 0));
    wait_until("the other one is closed", || endpoints.counts.ended.load(SeqCst) == 2);
}

#[test]
fn the_second_continues_when_the_first_closes() {
    let endpoints = Endpoints::start(2, |conn, nth, counts| match nth {
        0 => until_both_came(counts),
        _ => {
            wait_until("the first is over", || counts.ended.load(SeqCst) == 1);
            conn.send(ok("second"));
        }
    });
    let proxy = endpoints.proxy(ENOUGH, &format!("{UNSHARED}\n{HEDGING}"), "");
    assert_eq!(ask(&proxy).body_text(), "second");
    assert_eq!(hedges(&proxy), [1, 1]);
}

#[test]
fn the_first_continues_when_the_second_closes() {
    let endpoints = Endpoints::start(2, |conn, nth, counts| {
        if nth == 0 {
            wait_until("the second is over", || counts.ended.load(SeqCst) == 1);
            conn.send(ok("first"));
        }
    });
    let proxy = endpoints.proxy(ENOUGH, &format!("{UNSHARED}\n{HEDGING}"), "");
    assert_eq!(ask(&proxy).body_text(), "first");
    assert_eq!(hedges(&proxy), [1, 0]);
}

#[test]
fn when_both_close_each_is_counted_and_the_client_gets_an_error() {
    let endpoints = Endpoints::start(2, |_, _, counts| until_both_came(counts));
    let proxy = endpoints.proxy(ENOUGH, &format!("{UNSHARED}\n{HEDGING}"), "");
    let answer = ask(&proxy);
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("closed the connection without a response"), "{}", answer.body_text());
    assert_eq!((hedges(&proxy), resets(&proxy)), ([1, 0], 2));
}

#[test]
fn a_retry_goes_to_neither_of_two_that_failed() {
    let endpoints = Endpoints::start(3, |conn, nth, counts| match nth {
        0 | 1 => until_both_came(counts),
        _ => conn.send(ok("third")),
    });
    let retry = "retry = { hedge_after = 'p95', hedge_budget = 1, backoff = '1ms..1ms' }";
    let proxy = endpoints.proxy(ENOUGH, &format!("{UNSHARED}\n{retry}"), "");
    assert_eq!(ask(&proxy).body_text(), "third");
    assert_eq!((proxy.pool(|pool| pool.retries.get()), endpoints.came()), (1, 3));
    let asked = |endpoint: &Endpoint| endpoint.seen().iter().any(|request| request.line() == "GET /slow HTTP/1.1");
    assert!(endpoints.all.iter().all(asked), "each was asked once");
}

#[test]
fn a_client_that_goes_away_ends_both() {
    let endpoints = Endpoints::start(2, |conn, _, _| hold(conn));
    let log = Log::new();
    let proxy = endpoints.proxy(ENOUGH, HEDGING, &log.config());
    let mut client = proxy.client();
    client.send(SLOW);
    wait_until("both were asked", || endpoints.came() == 2);
    client.reset();
    wait_until("both are closed", || endpoints.counts.ended.load(SeqCst) == 2);
    wait_until("nothing is in flight", || proxy.in_flight() == 0);
    assert_eq!((hedges(&proxy), resets(&proxy)), ([1, 0], 0));
    assert_eq!(log.lines(proxy).last().expect("a line for each")["term"], "CH");
}

/// These get no second copy, however slow they are; the response timeout ends them.
#[test]
fn some_requests_are_never_sent_twice() {
    let retry = |more: &str| format!("{RESPONSE}\nretry = {{ attempts = 0, {more} }}");
    let hedging = "hedge_after = 'p95', hedge_budget = 1";
    let post = "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    let not_idempotent = format!("{hedging}, non_idempotent = true");
    let cases = [
        ("its method is not idempotent", ENOUGH, post, retry(&not_idempotent)),
        ("too little is known", ENOUGH - 1, SLOW, retry(hedging)),
        ("there is no budget", ENOUGH, SLOW, retry("hedge_after = 'p95', hedge_budget = 0")),
        ("it is not configured", ENOUGH, SLOW, retry("")),
    ];
    std::thread::scope(|scope| {
        for (why, seen, request, retry) in cases {
            scope.spawn(move || {
                let endpoints = Endpoints::start(2, |conn, _, _| hold(conn));
                let proxy = endpoints.proxy(seen, &retry, "");
                assert_eq!(proxy.client().send(request).response().status(), 504, "{why}");
                wait_until("it came", || endpoints.came() > 0);
                assert_eq!((hedges(&proxy), endpoints.came()), ([0, 0], 1), "{why}");
            });
        }
    });
}

#[test]
fn a_hedge_that_the_budget_denies_leaves_the_turns_of_the_endpoints_alone() {
    let endpoint = |name: &'static str| {
        Endpoint::start(move |conn| {
            while let Some(request) = conn.request() {
                if request.line().contains(" /slow ") {
                    // Later than the second copy would be sent.
                    std::thread::sleep(8 * FAST);
                }
                std::thread::sleep(FAST);
                conn.send(ok(name));
            }
        })
    };
    let all = [endpoint("a"), endpoint("b")];
    let lines = "outlier = 'off'\nretry = { attempts = 0, hedge_after = 'p95', hedge_budget = 0 }";
    let proxy = Proxy::with(&all.each_ref().map(|e| e.addr), "", lines, "");
    let mut client = proxy.client();
    (0..ENOUGH).for_each(|_| assert_eq!(client.get("/").status(), 200));
    let mut before = client.get("/").body_text();
    for path in ["/slow", "/", "/slow", "/slow", "/"] {
        let now = client.get(path).body_text();
        assert_ne!(now, before, "each endpoint has its turn");
        before = now;
    }
    assert_eq!(hedges(&proxy), [0, 0]);
}

#[test]
fn when_all_are_slow_there_are_no_more_copies_than_the_budget_has() {
    let endpoints = Endpoints::start(2, |conn, _, _| hold(conn));
    let lines = format!("{RESPONSE}\nretry = {{ attempts = 0, hedge_after = 'p95', hedge_budget = 0.02 }}");
    let proxy = endpoints.proxy(ENOUGH, &lines, "");
    let requests = 8;
    std::thread::scope(|scope| {
        (0..requests).for_each(|_| _ = scope.spawn(|| assert_eq!(ask(&proxy).status(), 504)));
    });
    // A fiftieth of 108 requests, less the decay of the budget.
    let [sent, _] = hedges(&proxy);
    assert!((1..=2).contains(&sent), "{sent}");
    wait_until("all of them came", || endpoints.came() == requests + sent as usize);
}
