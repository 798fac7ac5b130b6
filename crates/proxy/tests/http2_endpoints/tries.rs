//! Retries, hedges and sticky sessions at HTTP/2 endpoints, as with HTTP/1.

use super::{before, post};
use crate::support::h2_server::H2Server;
use crate::support::wait_until;
use evenkeel_proxy::stats::ErrorKind;
use h2::Reason;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

fn refusing(reason: Reason) -> H2Server {
    H2Server::start(move |mut exchange| async move { exchange.reset(reason) })
}

fn addrs(endpoints: &[&H2Server]) -> Vec<SocketAddr> {
    endpoints.iter().map(|endpoint| endpoint.addr).collect()
}

const POOL: &str = "outlier = 'off'\nretry = { backoff = '1ms..2ms', budget = 1 }";

#[test]
fn a_refused_stream_is_tried_elsewhere_whatever_the_method() {
    let (refuses, good) = (refusing(Reason::REFUSED_STREAM), H2Server::saying("good"));
    let proxy = before(&addrs(&[&refuses, &good]), POOL);
    for _ in 0..4 {
        let answer = proxy.client().send(post("/", b"hello")).response();
        assert_eq!((answer.status(), answer.body_text().as_str()), (200, "good"));
    }
    assert_eq!(good.seen().len(), 4);
    assert!(proxy.endpoint(0, |e| e.errors[ErrorKind::Refused as usize].get()) >= 1);
}

#[test]
fn a_reset_is_tried_elsewhere_only_where_that_does_no_harm() {
    let (resets, good) = (refusing(Reason::INTERNAL_ERROR), H2Server::saying("good"));
    let proxy = before(&addrs(&[&resets, &good]), POOL);
    for _ in 0..4 {
        assert_eq!(proxy.client().get("/").status(), 200);
    }
    let statuses: Vec<u16> = (0..4).map(|_| proxy.client().send(post("/", b"hello")).response().status()).collect();
    assert!(statuses.contains(&502) && statuses.contains(&200), "{statuses:?}");
}

#[test]
fn a_status_is_tried_elsewhere_with_the_body() {
    let busy = H2Server::start(|mut exchange| async move { exchange.reply(503, &[], b"busy", &[]).await });
    let good = H2Server::start(|mut exchange| async move {
        let (body, _) = exchange.read().await;
        exchange.reply(200, &[], &body, &[]).await;
    });
    let pool = "outlier = 'off'\nretry = { on = ['503'], backoff = '1ms..2ms', budget = 1 }";
    let proxy = before(&addrs(&[&busy, &good]), pool);
    for _ in 0..4 {
        let put = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        let answer = proxy.client().send(put).response();
        assert_eq!((answer.status(), answer.body_text().as_str()), (200, "hello"));
    }
    assert!(proxy.pool(|pool| pool.retries.get()) >= 1);
}

#[test]
fn a_slow_request_is_sent_twice_and_the_first_answer_counts() {
    let slow = Arc::new(AtomicBool::new(false));
    let cancelled = Arc::new(AtomicUsize::new(0));
    let endpoint = || {
        let (slow, cancelled) = (slow.clone(), cancelled.clone());
        H2Server::start(move |mut exchange| {
            let (slow, cancelled) = (slow.clone(), cancelled.clone());
            async move {
                if exchange.path() == "/slow" && !slow.swap(true, SeqCst) {
                    let _ = std::future::poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
                    cancelled.fetch_add(1, SeqCst);
                    return;
                }
                exchange.reply(200, &[], b"fast", &[]).await;
            }
        })
    };
    let endpoints = [endpoint(), endpoint()];
    let pool = "outlier = 'off'\nretry = { attempts = 0, hedge_after = 'p95', hedge_budget = 1 }";
    let proxy = before(&addrs(&[&endpoints[0], &endpoints[1]]), pool);
    let mut client = proxy.client();
    for _ in 0..200 {
        assert_eq!(client.get("/").status(), 200);
    }
    assert_eq!(client.get("/slow").body_text(), "fast");
    // On a busy machine, the second copy may arrive first, and the first one be answered.
    assert!(proxy.pool(|pool| pool.hedges.get()) >= 1);
    wait_until("the other one is cancelled", || cancelled.load(SeqCst) == 1);
}

#[test]
fn a_session_stays_at_its_endpoint() {
    let endpoints = [H2Server::saying("one"), H2Server::saying("two")];
    let pool = "sticky = { secret = '0123456789abcdef' }";
    let proxy = before(&addrs(&[&endpoints[0], &endpoints[1]]), pool);
    let first = proxy.client().get("/");
    let cookie = first.field("set-cookie").expect("it says where the session is").split(';').next().expect("a token");
    for _ in 0..5 {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
        assert_eq!(proxy.client().send(request).response().body_text(), first.body_text());
    }
}

#[test]
fn loads_are_reported_in_heads_and_in_trailers() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let report = ("endpoint-load-metrics", "TEXT rps_fractional=1, application_utilization=0.5");
        match exchange.path() {
            "/head" => exchange.reply(200, &[report], b"", &[]).await,
            _ => exchange.reply(200, &[], b"body", &[report]).await,
        }
    });
    let proxy = before(&[endpoint.addr], "load_reports = true");
    for path in ["/head", "/trailers"] {
        let answer = proxy.client().get(path);
        assert_eq!((answer.status(), answer.field("endpoint-load-metrics")), (200, None), "it is for the proxy");
    }
    wait_until("both are taken", || proxy.pool(|pool| pool.reports.iter().map(|c| c.get()).sum()) == 2);
}
