//! `forward_auth` of routes: a service of its own pool decides about each request, for any protocol of clients, endpoints
//! and the service.

use crate::filters::{Answer, ask_h1, ask_h2, field};
use crate::support::endpoint::ok;
use crate::support::h2_client::{DATA, END_STREAM, Frame, H2Client};
use crate::support::h2_server::H2Server;
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, noise, own_addr, wait_until};
use std::net::SocketAddr;

const H2: &str = "protocol = 'h2'";

/// Status, fields and body of an answer of the service.
type OfService = (u16, Vec<(&'static str, &'static str)>, Vec<u8>);

/// Answer of the service about a request for this path; `None` if it never answers.
fn about(path: &str) -> Option<OfService> {
    Some(match path {
        "/401" => (401, vec![("www-authenticate", "Basic realm=\"a\""), ("content-type", "text/html")], b"who?".into()),
        "/302" => (302, vec![("location", "/login?from=a"), ("set-cookie", "s=1"), ("set-cookie", "t=2")], Vec::new()),
        "/403" => (403, vec![], noise(65_536)),
        "/huge" => (403, vec![], noise(65_537)),
        "/endless" => (200, vec![("x-user", "ann")], noise(200_000)),
        "/500" => (500, vec![], b"broken".into()),
        "/bare" => (204, vec![], Vec::new()),
        "/hang" => return None,
        _ => (200, vec![("x-user", "ann"), ("X-Group", "a"), ("x-group", "b"), ("x-other", "no")], b"fine".into()),
    })
}

/// The service over HTTP/1.
fn service_h1() -> Endpoint {
    Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            let Some((status, fields, body)) = about(request.field("x-forwarded-uri").unwrap_or_default()) else {
                conn.rest();
                return;
            };
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            conn.send(format!(
                "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 {status} X\r\n{lines}{length}Keep-Alive: timeout=9\r\n\r\n"
            ));
            // The proxy closes where it has read enough.
            let _ = std::io::Write::write_all(&mut conn.stream, &body);
        }
    })
}

/// The service over HTTP/2.
fn service_h2() -> H2Server {
    H2Server::start(|mut exchange| async move {
        let path = exchange.request.headers().get("x-forwarded-uri").and_then(|path| path.to_str().ok());
        match about(path.unwrap_or_default()) {
            Some((status, fields, body)) => exchange.reply(status, &fields, &body, &[]).await,
            None => std::future::pending().await,
        }
    })
}

/// An endpoint over HTTP/1 that answers with the fields of the request that matter, and the length of its body.
fn endpoint_h1() -> Endpoint {
    Endpoint::answering(|request| {
        let fields = request.head.lines().filter(|line| line.to_lowercase().starts_with("x-user")).collect::<Vec<_>>();
        let groups = request.head.lines().filter(|line| line.to_lowercase().starts_with("x-group")).count();
        ok(&format!("{} {groups} {}", fields.join(","), request.body.len()).to_lowercase())
    })
}

fn endpoint_h2() -> H2Server {
    H2Server::start(|mut exchange| async move {
        let all = |name: &str| exchange.request.headers().keys().filter(|key| key.as_str().starts_with(name)).count();
        let users: Vec<String> = exchange
            .request
            .headers()
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("x-user") || name.as_str().starts_with("x_user"))
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII")))
            .collect();
        assert!(all("x-group") <= 1);
        let groups = exchange.request.headers().get_all("x-group").iter().count();
        let (body, _) = exchange.read().await;
        exchange.reply(200, &[], format!("{} {groups} {}", users.join(","), body.len()).as_bytes(), &[]).await;
    })
}

fn before(endpoint: (SocketAddr, &str), auth: (SocketAddr, &str), keys: &str, more: &str) -> Proxy {
    Proxy::start(&config(endpoint, auth, keys, more))
}

fn config(endpoint: (SocketAddr, &str), auth: (SocketAddr, &str), keys: &str, more: &str) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\nh2c = true\n{more}\n\
         [[route]]\npool = 'web'\nforward_auth = {{ pool = 'auth', copy_headers = ['X-User', 'X-Group'], {keys} }}\n\
         [pool.web]\nendpoints = ['{}']\n{}\n[pool.auth]\nendpoints = ['{}']\n{}\n",
        endpoint.0, endpoint.1, auth.0, auth.1
    )
}

/// Asks with fields that a client would like the endpoint to believe.
async fn ask(proxy: &Proxy, client: &str, path: &str, body: &str) -> Answer {
    let fields = [
        ("x-user", "root"),
        ("x_user", "root"),
        ("cookie", "s=1"),
        ("x-forwarded-uri", "/pass"),
        ("x-forwarded-method", "HEAD"),
        ("x-private", "1"),
    ];
    match client {
        "h1" => ask_h1(proxy, path, &fields, body),
        _ => ask_h2(proxy, path, &fields, body).await,
    }
}

#[tokio::test]
async fn a_request_passes_with_the_fields_of_the_answer_or_gets_the_answer() {
    let (auth1, auth2, web1, web2) = (service_h1(), service_h2(), endpoint_h1(), endpoint_h2());
    for (auth, auth_pool) in [(auth1.addr, ""), (auth2.addr, H2)] {
        for (web, pool) in [(web1.addr, ""), (web2.addr, H2)] {
            let proxy = before((web, pool), (auth, auth_pool), "", "");
            for client in ["h1", "h2"] {
                let at = format!("client {client}, service {auth_pool}, endpoint {pool}");
                let answer = ask(&proxy, client, "/pass", "").await;
                assert_eq!((answer.0, &*answer.2), (200, "x-user: ann 2 0"), "{at}");
                let answer = ask(&proxy, client, "/pass", "hello").await;
                assert_eq!((answer.0, &*answer.2), (200, "x-user: ann 2 5"), "{at}");
                let answer = ask(&proxy, client, "/bare", "").await;
                assert_eq!((answer.0, &*answer.2), (200, " 0 0"), "those of the client go even so: {at}");
                // Of an answer that lets the request pass, the body does not matter.
                let answer = ask(&proxy, client, "/endless", "").await;
                assert_eq!((answer.0, &*answer.2), (200, "x-user: ann 0 0"), "{at}");

                let answer = ask(&proxy, client, "/401", "hello").await;
                assert_eq!((answer.0, &*answer.2), (401, "who?"), "{at}");
                assert_eq!(field(&answer, "www-authenticate"), Some("Basic realm=\"a\""), "{at}");
                assert_eq!(field(&answer, "content-type"), Some("text/html"), "{at}");
                assert_eq!((field(&answer, "content-length"), field(&answer, "keep-alive")), (Some("4"), None), "{at}");
                let answer = ask(&proxy, client, "/302", "").await;
                let cookies = answer.1.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
                assert_eq!((answer.0, cookies.count()), (302, 2), "{at}");
                assert_eq!((field(&answer, "location"), field(&answer, "content-type")), (Some("/login?from=a"), None));
                let answer = ask(&proxy, client, "/500", "").await;
                assert_eq!((answer.0, &*answer.2), (500, "broken"), "{at}");
            }
            wait_until("all are counted", || proxy.listener(|l| l.forward_auth.iter().map(|n| n.get()).sum()) == 14);
            let counts = |end: usize| proxy.listener(|listener| listener.forward_auth[end].get());
            assert_eq!((counts(0), counts(1), counts(2), counts(3)), (8, 6, 0, 0));
        }
    }
    assert!(auth1.seen().iter().all(|seen| seen.line() == "GET /pass HTTP/1.1" || !seen.line().contains("/pass")));
    let seen = auth1.seen().into_iter().rfind(|seen| seen.line() == "GET /pass HTTP/1.1").expect("one");
    for (name, value) in [
        ("x-forwarded-method", Some("POST")),
        ("x-forwarded-uri", Some("/pass")),
        ("x-forwarded-host", Some("a")),
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("cookie", Some("s=1")),
        ("x-private", None),
        ("x-user", None),
        ("content-length", None),
        ("transfer-encoding", None),
        ("host", Some(&*auth1.addr.to_string())),
    ] {
        assert_eq!(seen.field(name), value, "{name}: {}", seen.head);
        if name != "host" {
            let seen = auth2.seen().into_iter().rfind(|seen| seen.uri.ends_with("/pass")).expect("one");
            assert_eq!(seen.field(name), value, "{name}: {seen:?}");
            assert!(seen.headers.get_all(name).iter().count() <= 1);
        }
    }
    assert!(seen.body.is_empty());
}

#[tokio::test]
async fn an_answer_larger_than_the_limit_is_a_502_and_one_of_its_size_is_not() {
    let (auth1, auth2, web) = (service_h1(), service_h2(), endpoint_h1());
    for (auth, auth_pool) in [(auth1.addr, ""), (auth2.addr, H2)] {
        let proxy = before((web.addr, ""), (auth, auth_pool), "answer_max = '64KiB'", "");
        for client in ["h1", "h2"] {
            // The body is no text, so only its head is looked at.
            let mut raw = proxy.client();
            let answer = raw.get("/403");
            assert_eq!((answer.status(), answer.body.len()), (403, 65_536), "{client} {auth_pool}");
            let answer = ask(&proxy, client, "/huge", "").await;
            assert_eq!(answer.0, 502, "{client} {auth_pool}");
            assert!(answer.2.contains("pool \"auth\" is larger than answer_max, 65536 bytes"), "{}", answer.2);
        }
        wait_until("both are counted", || proxy.listener(|listener| listener.forward_auth[3].get()) == 2);
    }
    assert!(web.seen().is_empty(), "no such request reaches the endpoint");
}

#[tokio::test]
async fn without_an_answer_in_time_no_request_passes() {
    let (auth1, auth2, web) = (service_h1(), service_h2(), endpoint_h1());
    let nothing = own_addr();
    for (auth, auth_pool, path, why) in [
        (auth1.addr, "", "/hang", "did not answer in time"),
        (auth2.addr, H2, "/hang", "did not answer in time"),
        (nothing, "", "/pass", "cannot connect"),
        (nothing, H2, "/pass", "cannot connect"),
    ] {
        let log = Log::new();
        let proxy = before((web.addr, ""), (auth, auth_pool), "timeout = '50ms'", &log.config());
        for client in ["h1", "h2"] {
            let answer = ask(&proxy, client, path, "hello").await;
            assert_eq!(answer.0, 503, "{client} {auth_pool} {path}");
            assert!(answer.2.contains("forward_auth: pool \"auth\": ") && answer.2.contains(why), "{}", answer.2);
        }
        wait_until("both are counted", || proxy.listener(|listener| listener.forward_auth[2].get()) == 2);
        for line in log.lines(proxy) {
            assert!(line["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{line}");
        }
    }
    assert!(web.seen().is_empty(), "no such request reaches the endpoint");
}

#[test]
fn connections_of_clients_and_of_the_service_are_kept_and_a_body_waits_whole() {
    let (auth, web) = (service_h1(), endpoint_h1());
    let log = Log::new();
    let proxy = before((web.addr, ""), (auth.addr, ""), "", &log.config());
    let mut client = proxy.client();
    for _ in 0..3 {
        client.send("GET /401 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().status(), 401);
        // The body and the next request come while the service is asked.
        client.send("POST /pass HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n").send(noise(100_000));
        client.send("GET /pass HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().body_text(), "x-user: ann 2 100000");
        assert_eq!(client.response().body_text(), "x-user: ann 2 0");
    }
    assert_eq!((auth.accepted(), web.accepted()), (1, 1));
    let refused =
        |line: &serde_json::Value| line["status"] == 401 && line["reason"] == "forward_auth: the service answered 401";
    drop(client);
    assert_eq!(log.lines(proxy).iter().filter(|line| refused(line)).count(), 3);
}

#[test]
fn a_body_over_http2_that_is_still_coming_waits_for_the_decision() {
    let (auth, web) = (service_h2(), endpoint_h2());
    let proxy = before((web.addr, H2), (auth.addr, H2), "", "");
    let mut client = H2Client::connect(proxy.addr());
    client.head(1, &[(":method", "PUT"), (":scheme", "http"), (":path", "/pass"), (":authority", "a")], false);
    for _ in 0..4 {
        client.send(&Frame::new(DATA, 0, 1, vec![b'x'; 10_000]));
    }
    client.send(&Frame::new(DATA, END_STREAM, 1, ""));
    assert_eq!(client.answer(1).body_text(), "x-user: ann 2 40000");
}

#[test]
fn a_path_of_its_own_and_fields_of_its_choice_are_sent() {
    let (auth, web) = (service_h1(), endpoint_h1());
    let keys = "path = '/verify?x=1', request_headers = ['X-Private']";
    let proxy = before((web.addr, ""), (auth.addr, ""), keys, "request_id = true");
    let mut client = proxy.client();
    client.send(
        "DELETE /pass?y=%20 HTTP/1.1\r\nHost: shop.example\r\nCookie: s=1\r\nX-Private: 1\r\nX-Private: 2\r\n\r\n",
    );
    assert_eq!(client.response().status(), 200);
    let seen = &auth.seen()[0];
    assert_eq!((seen.line(), seen.field("x-forwarded-method")), ("GET /verify?x=1 HTTP/1.1", Some("DELETE")));
    assert_eq!((seen.field("x-forwarded-uri"), seen.field("cookie")), (Some("/pass?y=%20"), None));
    assert_eq!(seen.head.matches("X-Private: ").count(), 2, "{}", seen.head);
    let id = web.seen()[0].field("x-request-id").map(str::to_string);
    assert!(id.is_some() && seen.field("x-request-id") == id.as_deref(), "{}", seen.head);
}

#[test]
fn a_service_that_leads_back_to_its_route_is_a_loop() {
    let web = endpoint_h1();
    // Another proxy, which sends everything back to the first.
    let first = std::sync::Arc::new(std::sync::OnceLock::<SocketAddr>::new());
    let to = first.clone();
    let back = Endpoint::answering(move |request| {
        let mut through = crate::support::Client::connect(*to.get().expect("it is set"));
        through.send(request.head.replace("HTTP/1.1\r\n", "HTTP/1.1\r\nVia: 1.1 b\r\n"));
        crate::support::endpoint::status("418 Teapot", &through.response().status().to_string())
    });
    let proxy = before((web.addr, ""), (back.addr, ""), "timeout = '10s'", "");
    first.set(proxy.addr()).expect("it is empty");
    let answer = proxy.client().get("/pass");
    assert_eq!((answer.status(), &*answer.body_text()), (418, "508"));
    wait_until("it is counted", || proxy.listener(|listener| listener.loops.get()) == 1);
    assert!(web.seen().is_empty());
}

#[test]
fn a_client_that_leaves_cancels_the_question() {
    let (auth, web) = (service_h1(), endpoint_h1());
    let proxy = before((web.addr, ""), (auth.addr, ""), "timeout = '5m'", "");
    let mut client = proxy.client();
    client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the service has it", || auth.seen().len() == 1);
    client.reset();
    wait_until("the client is gone", || proxy.listener(|listener| listener.active.get()) == 0);
    let active = || proxy.server().numbers().members(1).stats(0).map(|endpoint| endpoint.active.get()).sum::<u64>();
    wait_until("the service has no request", || active() == 0);
}

#[test]
fn the_pool_of_the_service_is_balanced_retried_and_reloaded_as_others_are() {
    let (auth, web) = (service_h1(), endpoint_h1());
    let nothing = own_addr();
    let of = |list: &str| {
        config((web.addr, ""), (auth.addr, ""), "", "").replace(&format!("endpoints = ['{}']", auth.addr), list)
    };
    let mut proxy = Proxy::start(&of(&format!("endpoints = ['{nothing}', '{}']\nbalance = 'round_robin'", auth.addr)));
    for _ in 0..4 {
        assert_eq!(proxy.client().get("/pass").status(), 200, "one endpoint of the service is down");
    }
    let other = service_h1();
    proxy.reload(&of(&format!("endpoints = ['{}']", other.addr))).expect("a good file");
    assert_eq!(proxy.client().get("/pass").status(), 200);
    assert_eq!(other.seen().len(), 1);
}
