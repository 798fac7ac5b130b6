//! `mirror` of routes: another pool gets copies of requests, and clients never wait for it, for any protocol on either
//! side.

use super::parts::post;
use super::{ask_h1, ask_h2, ask_h3, field};
use crate::support::endpoint::{Conn, ok};
use crate::support::h2_client::{DATA, END_STREAM, Frame, H2Client};
use crate::support::h2_server::H2Server;
use crate::support::h3_client::secure;
use crate::support::{Endpoint, Proxy, noise, own_addr, wait_until};
use evenkeel_proxy::stats::PoolStats;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

const H2: &str = "protocol = 'h2'";

/// Heads as the endpoints got them, in lower case without order, and bodies.
type Got = Arc<Mutex<Vec<(String, Vec<String>, Vec<u8>)>>>;

/// Fields that are of a connection, of the framing, or the mark of copies.
const OF_CONNECTION: [&str; 6] =
    ["connection", "content-length", "transfer-encoding", "te", "x-evenkeel-mirror", "expect"];

fn sorted<'f>(fields: impl Iterator<Item = (&'f str, &'f str)>) -> Vec<String> {
    let kept = fields.filter(|(name, _)| !OF_CONNECTION.contains(&&*name.to_lowercase()));
    let mut lines: Vec<String> = kept.map(|(name, value)| format!("{}: {value}", name.to_lowercase())).collect();
    lines.sort();
    lines
}

fn h1() -> (Endpoint, Got) {
    let got = Got::default();
    let all = got.clone();
    let endpoint = Endpoint::answering(move |request| {
        let line = request.line().trim_end_matches(" HTTP/1.1").to_string();
        let fields = sorted(request.head.lines().skip(1).filter_map(|line| line.split_once(": ")));
        all.lock().expect("no panic").push((line, fields, request.body.clone()));
        ok("answer")
    });
    (endpoint, got)
}

fn h2() -> (H2Server, Got) {
    let got = Got::default();
    let all = got.clone();
    let server = H2Server::start(move |mut exchange| {
        let all = all.clone();
        async move {
            let head = &exchange.request;
            let path = head.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            let host = head.uri().authority().map(ToString::to_string).unwrap_or_default();
            let line = format!("{} {path}", head.method());
            let fields = head.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().expect("ASCII")));
            let fields = sorted(fields.chain([("host", &*host)]));
            let (body, _) = exchange.read().await;
            all.lock().expect("no panic").push((line, fields, body));
            exchange.reply(200, &[], b"answer", &[]).await;
        }
    });
    (server, got)
}

fn config(web: (SocketAddr, &str), shadow: (SocketAddr, &str), keys: &str) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\nh2c = true\n{}\
         [[route]]\npool = 'web'\nrewrite = {{ prefix = '/new' }}\nmatch = {{ prefix = '/old' }}\n\
         request_headers = {{ set = {{ X-Set = '{{host}}' }}, remove = ['X-Secret'] }}\n\
         mirror = {{ pool = 'shadow', {keys} }}\n\
         [pool.web]\nendpoints = ['{}']\n{}\n[pool.shadow]\noutlier = 'off'\nendpoints = ['{}']\n{}\n",
        secure("web", ""),
        web.0,
        web.1,
        shadow.0,
        shadow.1
    )
}

/// Sum of a statistic of the pool of copies.
fn shadow(proxy: &Proxy, what: impl Fn(&PoolStats) -> u64) -> u64 {
    proxy.server().stats().iter().map(|worker| what(&worker.pools[1])).sum()
}

fn sent(proxy: &Proxy) -> u64 {
    shadow(proxy, |pool| pool.mirrors.sent.get())
}

/// Requests that were not copied, for the reason with this index.
fn dropped_for(proxy: &Proxy, why: usize) -> u64 {
    shadow(proxy, |pool| pool.mirrors.dropped[why].get())
}

/// Requests that were not copied: too large, over the number in flight, incomplete, without endpoint, copies themselves.
fn dropped(proxy: &Proxy) -> [u64; 5] {
    [0, 1, 2, 3, 4].map(|why| shadow(proxy, |pool| pool.mirrors.dropped[why].get()))
}

#[tokio::test]
async fn a_copy_has_what_the_endpoint_gets_between_any_protocols() {
    let ((web1, got1), (web2, got2), (shadow1, seen1), (shadow2, seen2)) = (h1(), h2(), h1(), h2());
    for (web, pool, got) in [(web1.addr, "", &got1), (web2.addr, H2, &got2)] {
        for (to, to_pool, seen) in [(shadow1.addr, "", &seen1), (shadow2.addr, H2, &seen2)] {
            let proxy = Proxy::start(&config((web, pool), (to, to_pool), "share = 1.0"));
            let mut n = 0;
            for client in ["h1", "h2", "h3"] {
                for body in [0, 1, 8_000, 60_000].map(noise) {
                    let text: String = body.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
                    let fields = [("x-secret", "1"), ("x-a", "1"), ("x-a", "2"), ("cookie", "s=1")];
                    let answer = match client {
                        "h1" => ask_h1(&proxy, "/old/p?q=%20", &fields, &text),
                        "h3" => ask_h3(&proxy, "/old/p?q=%20", &fields, &text).await,
                        _ => ask_h2(&proxy, "/old/p?q=%20", &fields, &text).await,
                    };
                    let at = format!("client {client}, endpoint {pool}, copy {to_pool}, {} bytes", text.len());
                    assert_eq!((answer.0, &*answer.2), (200, "answer"), "{at}");
                    assert_eq!(field(&answer, "x-evenkeel-mirror"), None);
                    n += 1;
                    wait_until("the copy is sent", || sent(&proxy) == n && proxy.in_flight() == 0);
                    let (real, copy) = (got.lock().expect("no panic").pop(), seen.lock().expect("no panic").pop());
                    let (real, copy) = (real.expect("a request"), copy.expect("a copy"));
                    assert!(
                        copy.0.ends_with("/new/p?q=%20") && copy.1.contains(&"x-set: a".to_string()),
                        "{at}: {copy:?}"
                    );
                    assert!(real == copy && copy.2 == text.as_bytes(), "{at}: {:?} {:?}", real.1, copy.1);
                }
            }
            assert_eq!((dropped(&proxy), shadow(&proxy, |pool| pool.mirrors.failed.get())), ([0; 5], 0));
            // Of three clients, two are at the first listener.
            assert_eq!(proxy.ended(200), n / 3 * 2, "copies are no requests of the route");
        }
    }
    assert!(shadow1.seen().iter().all(|seen| seen.field("x-evenkeel-mirror") == Some("1")));
    assert!(shadow2.seen().iter().all(|seen| seen.field("x-evenkeel-mirror") == Some("1")));
    assert!(web1.seen().iter().all(|seen| seen.field("x-evenkeel-mirror").is_none()));
}

#[tokio::test]
async fn several_pools_get_copies_each_by_its_own_share_and_limits() {
    let ((web, got), (a, of_a), (b, of_b), (c, of_c)) = (h1(), h1(), h2(), h1());
    for table in [
        "mirror = [{ pool = 'a' }, { pool = 'b', body_max = '10B' }, { pool = 'c', share = 0 }]",
        "[[route.mirror]]\npool = 'a'\n[[route.mirror]]\npool = 'b'\nbody_max = '10B'\n[[route.mirror]]\npool = 'c'\nshare = 0",
    ] {
        let proxy = Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\nh2c = true\n\
             [pool.web]\nendpoints = ['{}']\n[pool.a]\nendpoints = ['{}']\n[pool.b]\nendpoints = ['{}']\nprotocol = 'h2'\n\
             [pool.c]\nendpoints = ['{}']\n[[route]]\npool = 'web'\n{table}\n",
            web.addr, a.addr, b.addr, c.addr
        ));
        let of = |pool: usize, what: fn(&PoolStats) -> u64| -> u64 {
            proxy.server().stats().iter().map(|worker| what(&worker.pools[pool])).sum()
        };
        let sent = || [1, 2, 3].map(|pool| of(pool, |pool| pool.mirrors.sent.get()));
        for (at, body) in ["", "0123456789", "0123456789a"].into_iter().enumerate() {
            assert_eq!(ask_h1(&proxy, "/", &[("x-a", "1")], body).0, 200);
            let n = at as u64 + 1;
            wait_until("copies are sent", || sent() == [n, n.min(2), 0] && proxy.in_flight() == 0);
            let real = got.lock().expect("no panic").pop().expect("a request");
            assert_eq!(of_a.lock().expect("no panic").pop().as_ref(), Some(&real), "{body}");
            let copy = of_b.lock().expect("no panic").pop();
            assert_eq!(copy.as_ref(), (at < 2).then_some(&real), "{body}");
        }
        assert_eq!(of(2, |pool| pool.mirrors.dropped[0].get()), 1, "too large for this one only");
        assert!(of_c.lock().expect("no panic").is_empty());
    }
}

/// An endpoint that ignores the body of a GET would take it for the next request on its connection.
#[test]
fn a_copy_whose_body_may_be_overlooked_is_the_last_on_its_connection() {
    let (web, copies) = (Endpoint::saying("original"), Endpoint::saying("copy"));
    let proxy = Proxy::start(&config((web.addr, ""), (copies.addr, ""), ""));
    let mut client = proxy.client();
    for (n, method, connection) in [(1, "GET", Some("close")), (2, "DELETE", Some("close")), (3, "POST", None)] {
        client.send(format!("{method} /old/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"));
        assert_eq!(client.response().body_text(), "original");
        wait_until("the copy has come", || copies.seen().len() == n && sent(&proxy) == n as u64);
        let copy = &copies.seen()[n - 1];
        assert_eq!((copy.field("connection"), copy.body_text()), (connection, "hello".into()), "{}", copy.head);
        assert_eq!(copies.accepted(), n, "{method}");
    }
}

#[test]
fn longer_bodies_are_not_copied_and_reach_the_endpoint() {
    let ((web, got), (shadow, seen)) = (h1(), h1());
    let proxy = Proxy::start(&config((web.addr, ""), (shadow.addr, ""), "body_max = '10KB'"));
    let mut client = proxy.client();
    let body = noise(10_001);
    // With a length, without one, and over HTTP/2 without one.
    client.send(post("Content-Length: 10001", "").replace("/a", "/old")).send(&body);
    assert_eq!(client.response().status(), 200);
    client.send(post("Transfer-Encoding: chunked", "1388\r\n").replace("/a", "/old")).send(&body[..5000]);
    client.send("\r\n1389\r\n").send(&body[5000..]).send("\r\n0\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    let mut over = H2Client::connect(proxy.addr());
    over.head(1, &[(":method", "POST"), (":scheme", "http"), (":path", "/old"), (":authority", "a")], false);
    over.send(&Frame::new(DATA, 0, 1, &body[..5000]));
    over.send(&Frame::new(DATA, END_STREAM, 1, &body[5000..]));
    assert_eq!(over.answer(1).status(), 200);
    wait_until("all are counted", || dropped(&proxy) == [3, 0, 0, 0, 0]);
    assert!(got.lock().expect("no panic").iter().all(|(_, _, got)| *got == body));
    // One byte less is copied, and the connection is still the same.
    client.send(post("Content-Length: 10000", "").replace("/a", "/old")).send(&body[1..]);
    assert_eq!(client.response().status(), 200);
    wait_until("it is copied", || seen.lock().expect("no panic").len() == 1);
    assert_eq!((seen.lock().expect("no panic")[0].2.as_slice(), sent(&proxy)), (&body[1..], 1));
}

/// An endpoint of copies that does not behave, and what keeps it.
fn unkind(kind: &str) -> (SocketAddr, Box<dyn std::any::Any>) {
    let never_ends = match kind {
        "never reads" => {
            // The kernel accepts connections, which are never taken from it.
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            return (listener.local_addr().expect("it is bound"), Box::new(listener));
        }
        kind => kind == "never ends",
    };
    let endpoint = Endpoint::start(move |conn: &mut Conn| {
        // Of a copy whose time is over, not all may have come.
        conn.next_head();
        if !never_ends {
            return drop(conn.rest());
        }
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        // Until the proxy has read enough.
        let chunk = format!("ffff\r\n{}\r\n", "x".repeat(0xffff));
        while conn.stream.write_all(chunk.as_bytes()).is_ok() {}
    });
    (endpoint.addr, Box::new(endpoint))
}

#[test]
fn clients_are_answered_before_the_copies_and_no_more_are_made_than_may_be_in_flight() {
    let (web, _) = h1();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let to = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            // Ends with an error once nothing can be released any more.
            let _ = released.lock().expect("no panic").recv();
            conn.send(ok("late"));
        }
    });
    let proxy = Proxy::start(&config((web.addr, ""), (to.addr, ""), "in_flight_max = 2, timeout = '5m'"));
    let mut client = proxy.client();
    for n in 0..5 {
        client.send(post("Content-Length: 60000", "").replace("/a", "/old")).send(noise(60_000));
        assert_eq!(client.response().status(), 200, "{n}");
        wait_until("the first two are sent", || to.seen().len() == (n + 1).min(2));
    }
    assert_eq!((sent(&proxy), dropped(&proxy), web.accepted()), (2, [0, 3, 0, 0, 0], 1));
    // A copy whose body is still coming is one, too.
    release.send(()).expect("it waits");
    wait_until("one is answered", || proxy.in_flight() == 1);
    let mut slow = proxy.client();
    slow.send(post("Content-Length: 10", "half").replace("/a", "/old"));
    wait_until("the endpoint has a part", || proxy.in_flight() == 2);
    assert_eq!(client.get("/old").status(), 200);
    assert_eq!((sent(&proxy), dropped(&proxy)[1]), (2, 4));
    slow.send(" a bod");
    assert_eq!(slow.response().status(), 200);
    wait_until("it is sent", || sent(&proxy) == 3);
    drop(release);
    wait_until("all are answered", || proxy.in_flight() == 0);
    assert_eq!(client.get("/old").status(), 200);
    wait_until("there is room again", || sent(&proxy) == 4 && proxy.in_flight() == 0);
    assert_eq!(shadow(&proxy, |pool| pool.mirrors.failed.get()), 0);
}

#[test]
fn uploads_that_do_not_continue_keep_no_other_request_from_being_copied() {
    let ((web, _), (to, _)) = (h1(), h1());
    let keys = "in_flight_max = 2, timeout = '1s'";
    let more =
        "[[route]]\npool = 'web'\nmatch = { prefix = '/other' }\nmirror = { pool = 'shadow', in_flight_max = 2 }\n";
    let proxy = Proxy::start(&format!("{}{more}", config((web.addr, ""), (to.addr, ""), keys)));
    let open = [(); 2].map(|()| {
        let mut slow = proxy.client();
        slow.send(post("Content-Length: 10", "half").replace("/a", "/old"));
        slow
    });
    wait_until("the endpoint has a part of each", || proxy.in_flight() == 2);
    let mut client = proxy.client();
    assert_eq!(client.get("/other").status(), 200);
    wait_until("a request of another route is copied", || sent(&proxy) == 1);
    wait_until("the place of a stalled body is used", || {
        assert_eq!(client.get("/old").status(), 200);
        dropped_for(&proxy, 5) > 0 && sent(&proxy) > 1
    });
    for mut slow in open {
        assert_eq!(slow.send("-whole").response().status(), 200);
    }
}

#[tokio::test]
async fn a_grpc_call_is_copied_if_it_has_one_message_and_a_stream_is_not_waited_for() {
    let ((web, _), (shadow, seen)) = (h2(), h2());
    let proxy = Proxy::start(&config((web.addr, H2), (shadow.addr, H2), "in_flight_max = 1"));
    let head = [(":method", "POST"), (":scheme", "http"), (":path", "/old/call"), (":authority", "a")];
    let head = [&head[..], &[("content-type", "application/grpc"), ("te", "trailers")]].concat();
    let message = |len: u8| [&[0, 0, 0, 0, len][..], &vec![b'm'; len.into()]].concat();
    let client = H2Client::connect(proxy.addr());
    client.head(1, &head, false);
    client.send(&Frame::new(DATA, 0, 1, message(3)));
    client.send(&Frame::new(DATA, 0, 1, message(4)));
    wait_until("it is a stream", || dropped_for(&proxy, 6) == 1);
    // Its place is free, although it is open.
    client.head(3, &head, false);
    client.send(&Frame::new(DATA, END_STREAM, 3, message(5)));
    wait_until("the other is copied", || sent(&proxy) == 1 && seen.lock().expect("no panic").len() == 1);
    assert_eq!(seen.lock().expect("no panic")[0].2, message(5));
}

#[test]
fn no_client_waits_for_a_pool_that_never_reads_never_answers_or_never_ends() {
    for kind in ["never answers", "never ends", "never reads"] {
        let ((web, _), (to, _kept)) = (h1(), unkind(kind));
        // An answer that never ends is cut by its size: a busy machine must not have its time pass before.
        let timeout = if kind == "never ends" { "10s" } else { "100ms" };
        let keys = format!("in_flight_max = 2, timeout = '{timeout}', body_max = '1MB'");
        let proxy = Proxy::start(&config((web.addr, ""), (to, ""), &keys));
        let mut client = proxy.client();
        // One connection carries all requests, while copies are in flight or are not made at all.
        for n in 0..5 {
            client.send(post("Content-Length: 900000", "").replace("/a", "/old")).send(noise(900_000));
            assert_eq!(client.response().status(), 200, "{kind} {n}");
        }
        wait_until("their time is over", || proxy.in_flight() == 0);
        let counted = || shadow(&proxy, |pool| pool.mirrors.sent.get()) + dropped(&proxy).iter().sum::<u64>();
        wait_until("all are counted", || counted() == 5);
        assert_eq!((web.accepted(), proxy.ended(200)), (1, 5), "{kind}");
        let failed = shadow(&proxy, |pool| pool.mirrors.failed.get());
        assert_eq!(failed > 0, kind != "never ends", "{kind}: what is read of an answer is bounded");
    }
}

#[test]
fn a_pool_that_is_down_costs_the_copy_only() {
    let ((web, _), nothing) = (h1(), own_addr());
    for pool in ["", H2] {
        let proxy = Proxy::start(&config((web.addr, ""), (nothing, pool), "share = 1"));
        let mut client = proxy.client();
        for _ in 0..3 {
            assert_eq!(client.get("/old").status(), 200);
        }
        wait_until("they have failed", || shadow(&proxy, |pool| pool.mirrors.failed.get()) == 3);
    }
}

#[test]
fn a_copy_that_comes_back_is_not_copied_and_a_body_that_is_cut_is_not_sent() {
    let (shadow, seen) = h1();
    let web = Endpoint::start(|conn| {
        while let Some(head) = conn.next_head() {
            if head.starts_with("POST") {
                return drop(conn.rest());
            }
            conn.send(ok("answer"));
        }
    });
    let proxy = Proxy::start(&config((web.addr, ""), (shadow.addr, ""), "share = 1"));
    let mut client = proxy.client();
    client.send("GET /old HTTP/1.1\r\nHost: a\r\nX-Evenkeel-Mirror: 1\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    assert_eq!(dropped(&proxy), [0, 0, 0, 0, 1]);
    client.send(post("Content-Length: 10", "half").replace("/a", "/old"));
    wait_until("the endpoint has a part", || proxy.in_flight() == 1);
    client.reset();
    wait_until("it is counted", || dropped(&proxy) == [0, 0, 1, 0, 1]);
    wait_until("it is over", || proxy.in_flight() == 0);
    assert_eq!((web.accepted(), seen.lock().expect("no panic").len()), (1, 0));
}

#[test]
fn a_pool_that_leads_back_to_the_route_is_a_loop_and_ends() {
    let (web, _) = h1();
    let first = Arc::new(std::sync::OnceLock::<SocketAddr>::new());
    let to = first.clone();
    let back = Endpoint::answering(move |request| {
        let mut through = crate::support::Client::connect(*to.get().expect("it is set"));
        // Even without the mark of copies, that of the route is seen.
        let head = request.head.replace("X-Evenkeel-Mirror: 1\r\n", "Via: 1.1 b\r\n").replace("/new", "/old");
        through.send(head);
        crate::support::endpoint::status(&through.response().status().to_string(), "")
    });
    let proxy = Proxy::start(&config((web.addr, ""), (back.addr, ""), "timeout = '5s'"));
    first.set(proxy.addr()).expect("it is empty");
    assert_eq!(proxy.client().get("/old").status(), 200);
    wait_until("it came back", || proxy.listener(|listener| listener.loops.get()) == 1);
    wait_until("it is over", || proxy.in_flight() == 0);
    assert_eq!((sent(&proxy), web.seen().len()), (1, 1));
}

#[test]
fn a_share_is_drawn_and_switches_of_protocols_are_not_copied() {
    let ((web, _), (shadow, seen)) = (h1(), h1());
    let proxy = Proxy::start(&config((web.addr, ""), (shadow.addr, ""), "share = 0.5"));
    let mut client = proxy.client();
    for _ in 0..200 {
        assert_eq!(client.get("/old").status(), 200);
    }
    // 200 draws: more than 7 deviations from 100 are a chance of 1 in 10^11.
    wait_until("copies are answered", || proxy.in_flight() == 0);
    assert!((50..150).contains(&sent(&proxy)), "{}", sent(&proxy));
    drop(proxy);
    let proxy = Proxy::start(&config((web.addr, ""), (shadow.addr, ""), "share = 1"));
    let before = seen.lock().expect("no panic").len();
    let mut client = proxy.client();
    client.send("GET /old HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    wait_until("it is over", || proxy.in_flight() == 0);
    assert_eq!((sent(&proxy), dropped(&proxy), seen.lock().expect("no panic").len()), (0, [0; 5], before));
}

#[test]
fn a_reload_lets_copies_in_flight_end_within_their_time() {
    let (web, _) = h1();
    let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let end = ended.clone();
    let to = Endpoint::start(move |conn| {
        conn.request();
        conn.rest();
        end.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    let mut proxy = Proxy::start(&config((web.addr, ""), (to.addr, ""), "timeout = '300ms'"));
    let mut client = proxy.client();
    assert_eq!(client.get("/old").status(), 200);
    wait_until("it is sent", || to.seen().len() == 1);
    let plain = format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nh2c = true\n[pool.web]\nendpoints = ['{}']\n",
        web.addr
    );
    proxy.reload(&plain).expect("a good file");
    assert_eq!(client.get("/old").status(), 200);
    wait_until("its time is over", || ended.load(std::sync::atomic::Ordering::SeqCst));
    assert_eq!(web.accepted(), 1, "clients keep their connections, and the endpoint its own");
}
