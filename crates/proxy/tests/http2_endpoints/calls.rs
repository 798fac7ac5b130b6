//! Deadlines, retries and load reports of gRPC calls over HTTP/2 on both sides.

use crate::support::endpoint::ok;
use crate::support::h2_server::{Exchange, H2Server};
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, SOON, noise, own_addr, wait_until};
use bytes::Bytes;
use evenkeel_wire::grpc;
use h2::Reason;
use http::HeaderMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const GRPC: (&str, &str) = ("content-type", "application/grpc");

fn before(endpoints: &[SocketAddr], pool: &str) -> Proxy {
    let pool = format!("protocol = 'h2'\noutlier = 'off'\n{pool}");
    Proxy::with(endpoints, "h2c = true", &pool, "")
}

/// Result of a call: status and message from its trailers or head, and its body.
struct Called {
    status: Option<String>,
    message: String,
    body: Vec<u8>,
}

/// Makes a call with these fields, whose body is sent in parts.
async fn call(proxy: &Proxy, fields: &[(&str, &str)], body: &[u8]) -> Called {
    let tcp = tokio::net::TcpStream::connect(proxy.addr()).await.expect("it listens");
    let (client, connection) = h2::client::handshake(tcp).await.expect("it speaks HTTP/2");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let mut request = http::Request::post("http://a/shop.Orders/Get").header(GRPC.0, GRPC.1).header("te", "trailers");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let mut client = client.ready().await.expect("it takes requests");
    let (response, mut send) =
        client.send_request(request.body(()).expect("a good one"), false).expect("it takes one more");
    let mut left = Bytes::copy_from_slice(body);
    // An early end shows in the response, not here.
    let sending = async move {
        while !left.is_empty() {
            send.reserve_capacity(left.len());
            let Some(Ok(room)) = poll_fn(|cx| send.poll_capacity(cx)).await else { return };
            if send.send_data(left.split_to(room.min(left.len())), false).is_err() {
                return;
            }
        }
        let _ = send.send_data(Bytes::new(), true);
    };
    let receiving = async {
        let response = response.await.expect("an answer");
        let field = |fields: &HeaderMap, name| Some(fields.get(name)?.to_str().ok()?.to_string());
        let head = response.headers().clone();
        let (mut body, mut all) = (response.into_body(), Vec::new());
        while let Some(part) = body.data().await {
            let part = part.expect("it goes on");
            body.flow_control().release_capacity(part.len()).expect("it was taken");
            all.extend_from_slice(&part);
        }
        let trailers = body.trailers().await.expect("the end");
        let last = trailers.unwrap_or(head);
        Called {
            status: field(&last, "grpc-status"),
            message: field(&last, "grpc-message").unwrap_or_default(),
            body: all,
        }
    };
    tokio::time::timeout(SOON, async { tokio::join!(sending, receiving).1 }).await.expect("in time")
}

/// Answers with the body of the call.
async fn echo(mut exchange: Exchange) {
    let (body, _) = exchange.read().await;
    exchange.reply(200, &[GRPC], &body, &[("grpc-status", "0")]).await;
}

/// The deadline that an endpoint received.
fn told(text: Option<&str>) -> Duration {
    grpc::timeout(text.expect("it is told").as_bytes()).expect("a deadline")
}

#[tokio::test]
async fn an_endpoint_gets_what_is_left_of_the_deadline() {
    let refuses = H2Server::start(|mut exchange| async move { exchange.reset(Reason::REFUSED_STREAM) });
    let good = H2Server::start(echo);
    let proxy = before(&[refuses.addr, good.addr], "retry = { backoff = '1ms..2ms', budget = 1 }");
    for _ in 0..2 {
        assert_eq!(call(&proxy, &[("grpc-timeout", "30S")], b"").await.status.as_deref(), Some("0"));
    }
    let first = told(refuses.seen()[0].field("grpc-timeout"));
    assert!(first <= Duration::from_secs(30), "{first:?}");
    let least = good.seen().iter().map(|seen| told(seen.field("grpc-timeout"))).min().expect("it was asked");
    assert!(least < Duration::from_secs(30) && !least.is_zero(), "{least:?}");
    // It is there once, and only if the client has sent it.
    assert!(good.seen().iter().all(|seen| seen.headers.get_all("grpc-timeout").iter().count() == 1));
    call(&proxy, &[], b"").await;
    assert!(good.seen().last().is_some_and(|seen| seen.field("grpc-timeout").is_none()));
}

#[tokio::test]
async fn an_endpoint_of_http1_gets_the_deadline_too() {
    let endpoint = Endpoint::answering(|_| ok("x"));
    let proxy = Proxy::with(&[own_addr(), endpoint.addr], "h2c = true", "outlier = 'off'\nretry = { budget = 1 }", "");
    for _ in 0..2 {
        call(&proxy, &[("x-before", "1"), ("grpc-timeout", "30S"), ("x-behind", "2")], b"").await;
    }
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 2);
    for request in seen {
        let text = request.field("grpc-timeout").expect("it is told");
        assert!(text != "30S" && told(Some(text)) <= Duration::from_secs(30), "{text}");
        assert_eq!((request.field("x-before"), request.field("x-behind")), (Some("1"), Some("2")));
    }
}

#[tokio::test]
async fn a_deadline_that_passes_cancels_the_stream_and_the_client_gets_its_status() {
    let code = Arc::new(AtomicU32::new(u32::MAX));
    let noted = code.clone();
    let endpoint = H2Server::start(move |mut exchange| {
        let noted = noted.clone();
        async move {
            let reset = poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
            noted.store(reset.map_or(0, u32::from), SeqCst);
        }
    });
    let proxy = before(&[endpoint.addr], "");
    assert_eq!(call(&proxy, &[("grpc-timeout", "100m")], b"hello").await.status.as_deref(), Some("4"));
    wait_until("the stream is cancelled", || code.load(SeqCst) == u32::from(Reason::CANCEL));
    assert_eq!(endpoint.seen().len(), 1);
}

#[tokio::test]
async fn a_call_is_tried_again_with_all_of_its_body_as_long_as_that_is_kept() {
    let asked = Arc::new(AtomicUsize::new(0));
    let busy = || {
        let asked = asked.clone();
        H2Server::start(move |mut exchange| {
            let asked = asked.clone();
            async move {
                let (body, _) = exchange.read().await;
                match asked.fetch_add(1, SeqCst) {
                    0 => exchange.reply(200, &[GRPC, ("grpc-status", "14")], b"", &[]).await,
                    _ => exchange.reply(200, &[GRPC], &body, &[("grpc-status", "0")]).await,
                }
            }
        })
    };
    let endpoints = [busy(), busy()];
    let pool = "retry = { on = ['grpc:unavailable'], backoff = '1ms..2ms', budget = 1 }";
    let proxy = before(&[endpoints[0].addr, endpoints[1].addr], pool);
    for (size, status, tries) in [(0, "0", 2), (5, "0", 2), (60_000, "0", 2), (200_000, "14", 1)] {
        asked.store(0, SeqCst);
        let body = noise(size);
        let called = call(&proxy, &[], &body).await;
        assert_eq!((called.status.as_deref(), asked.load(SeqCst)), (Some(status), tries), "{size} bytes");
        assert!(status != "0" || called.body == body, "{size} bytes came back as {}", called.body.len());
    }
    assert_eq!(proxy.pool(|pool| pool.retries.get()), 3);
}

#[tokio::test]
async fn a_call_that_ends_before_its_body_came_is_tried_elsewhere_with_it() {
    let busy = H2Server::start(|mut exchange| async move {
        exchange.reply(200, &[GRPC, ("grpc-status", "14")], b"", &[]).await;
    });
    let good = H2Server::start(echo);
    let proxy =
        before(&[busy.addr, good.addr], "retry = { on = ['grpc:unavailable'], backoff = '1ms..2ms', budget = 1 }");
    let body = noise(50_000);
    for _ in 0..8 {
        let called = call(&proxy, &[], &body).await;
        assert_eq!(called.status.as_deref(), Some("0"));
        assert!(called.body == body);
    }
    assert_eq!(good.seen().len(), 8);
    assert_eq!(proxy.pool(|pool| pool.retries.get()), busy.seen().len() as u64);
}

#[tokio::test]
async fn a_call_that_was_refused_is_tried_elsewhere_though_its_body_was_sent() {
    let refuses = H2Server::start(|mut exchange| async move {
        exchange.read().await;
        exchange.reset(Reason::REFUSED_STREAM);
    });
    let good = H2Server::start(echo);
    let proxy = before(&[refuses.addr, good.addr], "retry = { backoff = '1ms..2ms', budget = 1 }");
    let body = noise(20_000);
    for _ in 0..2 {
        let called = call(&proxy, &[], &body).await;
        assert_eq!(called.status.as_deref(), Some("0"));
        assert!(called.body == body);
    }
    assert_eq!(good.seen().len(), 2);
    assert!(!refuses.seen().is_empty());
}

#[tokio::test]
async fn a_call_that_has_an_answer_already_is_not_tried_again() {
    let endpoint = || {
        H2Server::start(|mut exchange| async move {
            exchange.read().await;
            exchange.reply(200, &[GRPC], b"some", &[("grpc-status", "14")]).await;
        })
    };
    let endpoints = [endpoint(), endpoint()];
    let pool = "retry = { on = ['grpc:unavailable'], backoff = '1ms..2ms', budget = 1 }";
    let proxy = before(&[endpoints[0].addr, endpoints[1].addr], pool);
    let called = call(&proxy, &[], b"hello").await;
    assert_eq!((called.status.as_deref(), &called.body[..]), (Some("14"), &b"some"[..]));
    assert_eq!(proxy.pool(|pool| pool.retries.get()), 0);
}

#[tokio::test]
async fn load_reports_of_calls_are_taken_in_each_form() {
    // `cpu_utilization` 0.5: field 1, a double.
    const REPORTS: [(&str, &str); 3] = [
        ("endpoint-load-metrics-bin", "CQAAAAAAAOA/"),
        ("endpoint-load-metrics", "TEXT cpu_utilization=0.5"),
        ("endpoint-load-metrics", "JSON {\"cpu_utilization\": 0.5}"),
    ];
    let asked = Arc::new(AtomicUsize::new(0));
    let endpoint = H2Server::start(move |mut exchange| {
        let asked = asked.clone();
        async move {
            let report = REPORTS[asked.fetch_add(1, SeqCst) % REPORTS.len()];
            exchange.reply(200, &[GRPC], b"body", &[("grpc-status", "0"), report]).await;
        }
    });
    let proxy = before(&[endpoint.addr], "load_reports = true");
    for n in 1..=REPORTS.len() as u64 {
        assert_eq!(call(&proxy, &[], b"").await.status.as_deref(), Some("0"));
        wait_until("it is taken", || proxy.pool(|pool| pool.reports.iter().map(|c| c.get()).sum()) == n);
    }
}

/// Sends the head and a message, and then nothing until the client ends the call.
async fn falls_silent(mut exchange: Exchange) {
    let head = http::Response::builder().status(200).header(GRPC.0, GRPC.1).body(()).expect("a good head");
    let mut send = exchange.respond.send_response(head, false).expect("the stream is open");
    let _ = send.send_data("some".into(), false);
    let _ = poll_fn(|cx| send.poll_reset(cx)).await;
}

#[tokio::test]
async fn a_call_that_is_cut_has_a_status_and_a_reason_that_names_the_key() {
    let endpoint = H2Server::start(falls_silent);
    let cases = [
        ("timeouts = { idle = '100ms' }", &[][..], "14", "timeouts.idle"),
        ("timeouts = { request = '200ms' }", &[], "4", "timeouts.request"),
        ("", &[("grpc-timeout", "200m")], "4", "grpc-timeout"),
    ];
    for (pool, fields, status, key) in cases {
        let log = Log::new();
        let pool = format!("protocol = 'h2'\noutlier = {{ consecutive_gateway = 1 }}\n{pool}");
        let listener = "h2c = true\nerrors = 'detailed'";
        let proxy = Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n{listener}\n[pool.web]\nendpoints = ['{}']\n\
             {pool}\n{}",
            endpoint.addr,
            log.config()
        ));
        let called = call(&proxy, fields, b"hello").await;
        assert_eq!((called.status.as_deref(), &called.body[..]), (Some(status), &b"some"[..]), "{key}");
        assert!(called.message.contains(key), "{}", called.message);
        let lines = log.lines(proxy);
        let name = if status == "4" { "deadline-exceeded" } else { "unavailable" };
        assert_eq!(
            (lines[0]["status"].as_u64(), lines[0]["grpc_status"].as_str()),
            (Some(200), Some(name)),
            "{}",
            lines[0]
        );
        assert!(lines[0]["reason"].as_str().is_some_and(|reason| reason.contains(key)), "{}", lines[0]);
    }
}

#[tokio::test]
async fn a_deadline_that_has_passed_bothers_no_endpoint_and_a_short_one_ejects_none() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let _ = poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
    });
    let pool = "protocol = 'h2'\noutlier = { consecutive_gateway = 1 }";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", pool, "");
    for limit in ["0n", "1n", "0S"] {
        let called = call(&proxy, &[("grpc-timeout", limit)], b"").await;
        assert_eq!(called.status.as_deref(), Some("4"), "{limit}: {}", called.message);
    }
    assert_eq!(endpoint.seen().len(), 0);
    for _ in 0..5 {
        assert_eq!(call(&proxy, &[("grpc-timeout", "150m")], b"").await.status.as_deref(), Some("4"));
    }
    assert_eq!(endpoint.seen().len(), 5);
    assert_eq!((proxy.state(endpoint.addr), proxy.endpoint(0, |e| e.errors.iter().map(|c| c.get()).sum())), ("up", 0));
}

#[tokio::test]
async fn a_deadline_that_is_longer_than_the_time_for_a_response_counts() {
    let endpoint = H2Server::start(|mut exchange| async move {
        exchange.read().await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        exchange.reply(200, &[GRPC], b"late", &[("grpc-status", "0")]).await;
    });
    let proxy = before(&[endpoint.addr], "timeouts = { response = '100ms' }");
    assert_eq!(call(&proxy, &[], b"").await.status.as_deref(), Some("4"));
    let called = call(&proxy, &[("grpc-timeout", "20S")], b"").await;
    assert_eq!((called.status.as_deref(), &called.body[..]), (Some("0"), &b"late"[..]));
}

#[tokio::test]
async fn a_client_may_be_silent_between_its_messages_for_as_long_as_a_call_may() {
    let endpoint = H2Server::start(echo);
    let pool = "protocol = 'h2'\noutlier = 'off'\ntimeouts = { idle = '20s' }";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true\ntimeouts = { client_body = '50ms' }", pool, "");
    let tcp = tokio::net::TcpStream::connect(proxy.addr()).await.expect("it listens");
    let (client, connection) = h2::client::handshake(tcp).await.expect("it speaks HTTP/2");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let mut client = client.ready().await.expect("it takes requests");
    let request = http::Request::post("http://a/shop.Orders/Put").header(GRPC.0, GRPC.1).body(()).expect("a good one");
    let (response, mut send) = client.send_request(request, false).expect("it takes one more");
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        send.send_data("some".into(), false).expect("the stream is open");
    }
    send.send_data(Bytes::new(), true).expect("the stream is open");
    let response = tokio::time::timeout(SOON, response).await.expect("in time").expect("an answer");
    assert_eq!((response.status().as_u16(), response.headers().get("grpc-status")), (200, None));
}
