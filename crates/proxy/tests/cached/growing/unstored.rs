//! Responses that are not stored: they cost those who wait for them no more than their own requests.

use super::stepped::{FRESH, Reads, Step, Stepped, VERSIONS, Version};
use std::collections::BTreeSet;

/// All of them fail at once, without waiting for each other.
#[test]
fn an_error_that_is_not_stored_is_followed_by_the_stale_response_for_all_who_wait() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("{ collapse = '1h', stale_if_error = '1h' }", "");
    let mut first = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(1);
    stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nold"));
    stepped.step(Step::Next);
    first.head();
    first.bytes(3);
    proxy.server().numbers().skip_cache_time(std::time::Duration::from_secs(61));
    let mut clients = vec![Reads::new(&proxy, Version::H1, &[])];
    stepped.has_requests(2);
    clients.extend((0..5).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])));
    proxy.has_heard();
    stepped.send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    for client in &mut clients {
        assert!(client.head().contains("stale, as the endpoint failed"));
        assert_eq!(client.bytes(3), b"old");
    }
    assert_eq!(stepped.requests(), 2);
}

const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\n\r\n";
const PRIVATE: &str = "HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 6\r\n\r\n";

/// All of them are at the endpoint before any of them has a response, and so are those who come later.
#[test]
fn those_who_wait_for_a_response_that_is_not_stored_send_their_requests_at_once() {
    for (version, head) in [(Version::H1, ERROR), (Version::H2, ERROR), (Version::H1, PRIVATE), (Version::H2, PRIVATE)]
    {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("{ collapse = '1h' }", "");
        let mut first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        let mut clients: Vec<Reads> = (0..4).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])).collect();
        proxy.has_heard();
        stepped.send(format!("{head}num--0"));
        stepped.step_of(0, Step::Next);
        stepped.has_requests(5);
        first.head();
        assert_eq!(first.bytes(6), b"num--0");
        clients.push(Reads::new(&proxy, version, &[]));
        stepped.has_requests(6);
        for request in 1..6 {
            stepped.step_of(request, Step::Send(format!("{head}num--{request}").into()));
        }
        let bodies = clients.iter_mut().map(|client| {
            client.head();
            String::from_utf8(client.bytes(6)).expect("text")
        });
        let bodies: BTreeSet<String> = bodies.collect();
        assert_eq!(bodies, (1..6).map(|n| format!("num--{n}")).collect(), "each has a separate response");
        assert_eq!(stepped.requests(), 6, "{version:?}");
    }
}

#[test]
fn the_head_of_a_response_that_may_be_stored_makes_requests_share_it_again() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("{ collapse = '1h' }", "");
        let mut first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        stepped.send(format!("{ERROR}error!"));
        stepped.step(Step::Next);
        first.head();
        first.bytes(6);
        let mut second = Reads::new(&proxy, version, &[]);
        stepped.has_requests(2);
        let mut third = Reads::new(&proxy, version, &[]);
        stepped.has_requests(3);
        stepped.step_of(1, Step::Send(format!("{FRESH}Content-Length: 6\r\n\r\nnew").into()));
        second.head();
        assert_eq!(second.bytes(3), b"new");
        let mut later: Vec<Reads> = (0..4).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])).collect();
        for reads in &mut later {
            reads.head();
            assert_eq!(reads.bytes(3), b"new");
        }
        stepped.step_of(2, Step::Send(format!("{ERROR}error!").into()));
        assert!(third.head().contains("500"));
        stepped.step_of(1, Step::Send(b"er!".into()));
        for reads in later.iter_mut().chain([&mut second]) {
            assert_eq!(reads.bytes(3), b"er!");
        }
        assert_eq!(stepped.requests(), 3, "{version:?}");
    }
}

/// An endpoint that recovers must not get all requests at once.
#[test]
fn requests_still_wait_for_each_other_after_an_endpoint_that_did_not_respond() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("{ collapse = '1h' }", "");
    let mut first = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(1);
    stepped.step(Step::Close);
    assert!(first.head().contains("502"));
    let mut clients = vec![Reads::new(&proxy, Version::H1, &[])];
    stepped.has_requests(2);
    clients.extend((0..4).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])));
    proxy.has_heard();
    stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
    for client in &mut clients {
        client.head();
        assert_eq!(client.bytes(3), b"new");
    }
    assert_eq!(stepped.requests(), 2);
}
