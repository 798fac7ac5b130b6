//! Streams that an endpoint refuses, or whose connection it ends without processing them: the requests wait and are
//! sent again.

use super::{before, post};
use crate::support::Proxy;
use crate::support::h2_client::HEADERS;
use crate::support::h2_frames::{H2Frames, data, go_away, head};
use crate::support::h2_server::H2Server;
use h2::Reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// No retries: a request is sent again only if the endpoint has stated that it did not process it.
const ALONE: &str = "retry = { attempts = 0, budget = 0, budget_floor = 0 }";

const CLIENTS: usize = 40;

/// Sends `requests` requests from each of [`CLIENTS`] clients at a time, and returns the responses other than 200.
fn failed(proxy: &Proxy, requests: usize) -> Vec<String> {
    std::thread::scope(|scope| {
        let ask = || {
            let mut client = proxy.client();
            let answers = (0..requests).map(|_| client.send(post("/", b"hello")).response());
            answers.filter(|answer| answer.status() != 200).map(|answer| answer.body_text()).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    })
}

/// An endpoint that answers `most` requests of a connection, and then sends GOAWAY with the last one.
fn ending_after(most: u32) -> H2Frames {
    H2Frames::start(move |conn, frame| {
        if frame.kind != HEADERS || conn.requests > most {
            return;
        }
        let mut frames = vec![head(frame.stream, "200", &[], false), data(frame.stream, "done", true)];
        frames.extend((conn.requests == most).then(|| go_away(frame.stream, 0)));
        conn.send(&frames);
    })
}

#[test]
fn an_endpoint_that_takes_few_streams_on_a_connection_loses_none() {
    for most in [1, 2, 7, 50] {
        let endpoint = ending_after(most);
        let proxy = before(&[endpoint.addr], ALONE);
        assert_eq!(failed(&proxy, 25), Vec::<String>::new(), "{most} streams on a connection");
        let needed = CLIENTS * 25 / most as usize;
        // The limit is known only after the first connections, and some are opened that prove unnecessary.
        assert!(endpoint.accepted() <= 2 * needed + CLIENTS, "{} connections for {needed}", endpoint.accepted());
        assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|c| c.get()).sum()), 0);
    }
}

#[test]
fn an_endpoint_that_takes_fewer_streams_at_a_time_than_it_states_loses_none() {
    let (inside, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = refused.clone();
    let endpoint = H2Server::start(move |mut exchange| {
        let (inside, refused) = (inside.clone(), counted.clone());
        async move {
            if inside.fetch_add(1, SeqCst) >= 4 {
                refused.fetch_add(1, SeqCst);
                exchange.reset(Reason::REFUSED_STREAM);
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
                exchange.reply(200, &[], b"done", &[]).await;
            }
            inside.fetch_sub(1, SeqCst);
        }
    });
    let proxy = before(&[endpoint.addr], ALONE);
    assert_eq!(failed(&proxy, 25), Vec::<String>::new());
    assert!(refused.load(SeqCst) > 0, "it has refused some");
    assert_eq!(proxy.state(endpoint.addr), "up", "a limit is not a fault");
}

#[test]
fn an_endpoint_that_refuses_each_stream_is_asked_a_few_times() {
    let endpoint = H2Server::start(|mut exchange| async move { exchange.reset(Reason::REFUSED_STREAM) });
    let proxy = before(&[endpoint.addr], &format!("{ALONE}\noutlier = 'off'"));
    let answer = proxy.client().get("/");
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("refused the stream"), "{}", answer.body_text());
    let asked = endpoint.seen().len();
    assert!((2..=20).contains(&asked), "{asked} times");
}

#[test]
fn an_endpoint_that_looks_at_no_stream_is_asked_a_few_times() {
    let endpoint = H2Frames::start(|conn, frame| {
        if frame.kind == HEADERS {
            conn.send(&[go_away(0, 0)]);
        }
    });
    let proxy = before(&[endpoint.addr], &format!("{ALONE}\noutlier = 'off'"));
    let answer = proxy.client().get("/");
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("before it read the request"), "{}", answer.body_text());
    assert!((2..=20).contains(&endpoint.accepted()), "{} times", endpoint.accepted());
}

#[test]
fn a_refused_stream_goes_to_another_endpoint_without_an_attempt_or_a_budget() {
    let refuses = H2Server::start(|mut exchange| async move { exchange.reset(Reason::REFUSED_STREAM) });
    let good = H2Server::saying("good");
    let proxy = before(&[refuses.addr, good.addr], &format!("{ALONE}\noutlier = 'off'"));
    for _ in 0..4 {
        assert_eq!(proxy.client().send(post("/", b"hello")).response().body_text(), "good");
    }
    assert!(!refuses.seen().is_empty());
}
