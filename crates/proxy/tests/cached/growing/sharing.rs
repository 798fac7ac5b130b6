//! All clients read a response while the endpoint still sends it, and none of them holds up others.

use super::stepped::{FRESH, Reads, Step, Stepped, VERSIONS, Version, data, metric};
use crate::cached::basics::get;
use crate::support::decoder::Decoder;
use crate::support::h2_client::{Frame, H2Client, PREFACE, SETTINGS};
use crate::support::h2_server::H2Server;
use crate::support::{Proxy, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug)]
enum First {
    Reads,
    /// Takes nothing of the response.
    TakesNothing,
    LeavesEarly,
    LeavesLate,
}

#[test]
fn all_get_the_first_bytes_while_the_endpoint_holds_the_rest_back_whatever_the_first_client_does() {
    for version in VERSIONS {
        for first in [First::Reads, First::TakesNothing, First::LeavesEarly, First::LeavesLate] {
            // More than sockets hold, if the first client is to hold it up.
            let part = if matches!(first, First::TakesNothing) { 4_000_000 } else { 100_000 };
            let stepped = Stepped::new();
            let proxy = stepped.proxy("true", "");
            let mut leader = Some(Reads::new(&proxy, version, &[]));
            stepped.has_requests(1);
            let mut waiting: Vec<Reads> = (0..8).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])).collect();
            proxy.has_heard();
            if let First::LeavesEarly = first {
                leader.take().expect("it is there").leave();
                wait_until("it was noticed", || metric(&proxy, "evenkeel_cache_unattended_fetches") == 1);
            }
            stepped.send(format!("{FRESH}Content-Length: {}\r\n\r\n", 2 * part));
            stepped.send(vec![b'a'; part]);
            for reads in &mut waiting {
                reads.head();
                assert_eq!(reads.bytes(1)[0], b'a', "{first:?}, {version:?}");
            }
            if let First::LeavesLate = first {
                leader.take().expect("it is there").leave();
            }
            // A client that comes now has the beginning at once, too.
            let mut late = Reads::new(&proxy, version, &[]);
            late.head();
            late.bytes(1);
            waiting.push(late);
            stepped.send(vec![b'b'; part]);
            stepped.step(Step::Next);
            if let (First::Reads, Some(mut leader)) = (first, leader.take()) {
                leader.head();
                assert!(leader.rest(2 * part).1);
            }
            for mut reads in waiting.into_iter().rev() {
                let Reads::H1(client) = &mut reads else {
                    assert!(reads.rest(0).1);
                    continue;
                };
                let rest = client.bytes(2 * part - 1);
                assert!(rest[..part - 1].iter().all(|b| *b == b'a') && rest[part - 1..].iter().all(|b| *b == b'b'));
            }
            assert!(get(&mut proxy.client(), "/p", "").1.starts_with("hit; ttl="));
            assert_eq!(stepped.requests(), 1, "{first:?}, {version:?}");
        }
    }
}

#[test]
fn parts_heads_and_conditions_are_answered_from_what_is_there() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "");
        let mut first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
        first.head();
        first.bytes(5);
        let mut part = Reads::new(&proxy, version, &[("range", "bytes=1-3")]);
        let head = part.head().to_lowercase();
        assert!(
            head.contains("206") && head.contains("content-range: bytes 1-3/10") && head.contains("content-length: 3")
        );
        assert_eq!(part.bytes(3), b"123");
        let mut later = Reads::new(&proxy, version, &[("range", "bytes=-2")]);
        assert!(later.head().to_lowercase().contains("content-range: bytes 8-9/10"));
        let mut same = Reads::new(&proxy, version, &[("if-none-match", "\"a\"")]);
        assert!(same.head().contains("304"));
        let mut behind = Reads::new(&proxy, version, &[("range", "bytes=10-")]);
        assert!(behind.head().contains("416"));
        let mut client = proxy.client();
        client.send("HEAD /p HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.head().to_lowercase().contains("content-length: 10"));
        stepped.send("56789");
        stepped.step(Step::Next);
        assert_eq!(later.bytes(2), b"89");
        assert_eq!(first.bytes(5), b"56789");
        assert_eq!(stepped.requests(), 1, "{version:?}");
    }
}

#[test]
fn the_condition_of_the_first_client_is_answered_at_the_head() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "");
        let mut first = Reads::new(&proxy, version, &[("if-none-match", "\"a\"")]);
        stepped.has_requests(1);
        stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
        assert!(first.head().contains("304"));
        stepped.send("56789");
        stepped.step(Step::Next);
        wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
        assert_eq!(get(&mut proxy.client(), "/p", "").2, "0123456789");
    }
}

#[test]
fn a_response_that_is_arriving_is_compressed_as_far_as_it_is_there() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true\ncompress = { algorithms = ['gzip'] }", "");
        let text = "a response that is long enough to be compressed. ".repeat(100);
        let first = Reads::new(&proxy, Version::H1, &[("accept-encoding", "gzip")]);
        stepped.has_requests(1);
        let mut second = Reads::new(&proxy, version, &[("accept-encoding", "gzip")]);
        proxy.has_heard();
        stepped.send(format!("{FRESH}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}", 2 * text.len()));
        assert!(second.head().to_lowercase().contains("content-encoding: gzip"));
        let mut decoder = Decoder::new(Some("gzip"));
        let mut seen = 0;
        let chunk = |reads: &mut Reads| match reads {
            Reads::H1(client) => {
                let mut size = Vec::new();
                while !size.ends_with(b"\r\n") {
                    size.extend(client.bytes(1));
                }
                let size = usize::from_str_radix(std::str::from_utf8(&size).expect("text").trim(), 16).expect("a size");
                let mut bytes = client.bytes(size + 2);
                bytes.truncate(size);
                bytes
            }
            Reads::H2(client) => data(client).expect("more of the body").0,
        };
        while seen < text.len() {
            seen += decoder.push(&chunk(&mut second)).len();
        }
        stepped.send(&text);
        stepped.step(Step::Next);
        while seen < 2 * text.len() {
            seen += decoder.push(&chunk(&mut second)).len();
        }
        drop(first);
        assert_eq!(stepped.requests(), 1, "{version:?}");
    }
}

#[test]
fn requests_that_vary_are_fetched_side_by_side_once_it_is_known() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("true", "");
    let head = format!("{FRESH}Vary: Accept-Language\r\nContent-Length: 4\r\n\r\n");
    let of = |language: &'static str| Reads::new(&proxy, Version::H1, &[("accept-language", language)]);
    let mut first = of("de");
    stepped.has_requests(1);
    stepped.send(format!("{head}germ"));
    stepped.step(Step::Next);
    first.head();
    first.bytes(4);
    // The store has one variant: the two others do not wait for each other.
    let (mut second, mut third) = (of("fr"), of("en"));
    stepped.has_requests(3);
    let (mut fourth, mut fifth) = (of("fr"), of("en"));
    proxy.has_heard();
    for request in [1, 2] {
        stepped.step_of(request, Step::Send(format!("{head}some").into()));
    }
    for reads in [&mut second, &mut third, &mut fourth, &mut fifth] {
        reads.head();
        assert_eq!(reads.bytes(4), b"some");
    }
    assert_eq!(stepped.requests(), 3);
}

#[test]
fn a_response_that_makes_no_progress_is_fetched_again() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("{ collapse = '50ms' }", "");
    let mut first = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(1);
    stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
    first.head();
    let mut readers = Vec::new();
    wait_until("another request has gone to the endpoint", || {
        readers.push(Reads::new(&proxy, Version::H1, &[]));
        stepped.requests() == 2
    });
    stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
    wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
    assert_eq!(get(&mut proxy.client(), "/p", "").2, "new");
    stepped.step_of(0, Step::Send(b"56789".into()));
    assert_eq!(first.bytes(10), b"0123456789");
}

/// The first client has a window of a byte, so that it takes next to nothing, and another client resets.
#[test]
fn two_hundred_clients_are_one_fetch_and_read_at_the_pace_of_the_endpoint() {
    const LENGTH: usize = 8_000_000;
    const PART: usize = 10_000;
    let stepped = Stepped::new();
    let proxy = stepped.proxy("true", "");
    let leader = H2Client::silent(proxy.addr());
    leader.send_bytes(PREFACE);
    leader.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0, 0, 0, 1]));
    leader.get(1, "/p");
    stepped.has_requests(1);
    let mut clients: Vec<Reads> = (0..200).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])).collect();
    proxy.has_heard();
    stepped.send(format!("{FRESH}Content-Length: {LENGTH}\r\n\r\n"));
    for client in &mut clients {
        assert!(client.head().contains("200"));
    }
    clients.swap_remove(100).leave();
    let mut seen = vec![0; clients.len()];
    for step in 1..=10 {
        // No client has to wait for more than the endpoint has sent.
        stepped.send(vec![b'x'; PART]);
        for (client, seen) in clients.iter_mut().zip(&mut seen) {
            *seen += client.bytes(step * PART - *seen).len();
        }
    }
    // The rest is read by a few, as all of it would be gigabytes.
    clients.truncate(4);
    stepped.send(vec![b'x'; LENGTH - 10 * PART]);
    for (client, seen) in clients.iter_mut().zip(seen) {
        assert!(seen + client.bytes(LENGTH - seen).len() >= LENGTH);
    }
    stepped.step(Step::Next);
    drop(clients);
    wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
    assert!(get(&mut proxy.client(), "/p", "").1.starts_with("hit"));
    assert_eq!(stepped.requests(), 1);
}

#[test]
fn a_response_over_http2_is_read_as_it_arrives_and_stored_without_its_first_client() {
    for version in VERSIONS {
        let (rest, asked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (held, count) = (rest.clone(), asked.clone());
        let endpoint = H2Server::start(move |mut exchange| {
            let held = held.clone();
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                exchange.read().await;
                let head =
                    http::Response::builder().header("cache-control", "max-age=60").header("content-length", "10");
                let mut send =
                    exchange.respond.send_response(head.body(()).expect("a head"), false).expect("it listens");
                send.send_data("01234".into(), false).expect("it listens");
                held.notified().await;
                let _ = send.send_data("56789".into(), true);
            }
        });
        let route = "[[route]]\npool = 'web'\ncache = true\n";
        let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "protocol = 'h2'", route);
        let mut first = Reads::new(&proxy, version, &[]);
        first.head();
        assert_eq!(first.bytes(5), b"01234");
        let mut second = Reads::new(&proxy, version, &[]);
        second.head();
        assert_eq!(second.bytes(5), b"01234");
        first.leave();
        second.leave();
        wait_until("both have left", || metric(&proxy, "evenkeel_cache_unattended_fetches") == 1);
        rest.notify_one();
        wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
        assert_eq!(get(&mut proxy.client(), "/p", "").2, "0123456789");
        assert_eq!((asked.load(Ordering::SeqCst), proxy.in_flight()), (1, 0), "{version:?}");
    }
}

#[test]
fn clients_that_read_a_response_as_it_arrives_get_its_trailers() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "");
        let mut first = Reads::new(&proxy, version, &[("te", "trailers")]);
        stepped.has_requests(1);
        stepped.send(format!("{FRESH}Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n"));
        first.head();
        let mut second = Reads::new(&proxy, Version::H2, &[("te", "trailers")]);
        second.head();
        assert_eq!(second.bytes(5), b"01234");
        stepped.send("0\r\nX-Sum: 9\r\n\r\n");
        stepped.step(Step::Next);
        let is_sum = |fields: &[(String, String)]| fields == [("x-sum".to_owned(), "9".to_owned())];
        for reads in [&mut first, &mut second] {
            let (rest, is_whole) = reads.rest(0);
            match reads {
                Reads::H1(_) => assert!(String::from_utf8_lossy(&rest).contains("X-Sum: 9\r\n\r\n")),
                Reads::H2(client) => assert!(is_whole && is_sum(&client.head), "{:?}", client.head),
            }
        }
        assert_eq!(get(&mut proxy.client(), "/p", "").2, "01234");
    }
}
