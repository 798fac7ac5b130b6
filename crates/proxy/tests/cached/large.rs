//! Large stored responses, to whose memory sockets refer instead of copying it.

use super::basics::{cached, with};
use super::operators::purge;
use crate::support::{Client, Endpoint};
use evenkeel_view::cache::Purge;

const LARGE: usize = 5 << 20;

fn body(path: &str) -> String {
    let unit = format!("{path} is long. ");
    unit.repeat(LARGE / unit.len())
}

/// Begins to read a response, whose connection holds no more than the kernel's buffers.
fn begin(client: &mut Client, path: &str) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(client.head().contains("\r\nContent-Length: "));
}

#[test]
fn a_response_under_way_stays_as_it_was_whatever_takes_its_place() {
    let endpoint = Endpoint::answering(|request| {
        let path = request.head.split(' ').nth(1).expect("it has a target").to_owned();
        with("200 OK", "Cache-Control: max-age=60\r\n", &body(&path))
    });
    let proxy = cached(endpoint.addr, "true");
    let whole = |path: &str| assert!(proxy.client().get(path).body_text() == body(path), "{path}");
    whole("/a");
    let mut under_way: Vec<Client> = (0..4).map(|_| proxy.client()).collect();
    under_way.iter_mut().for_each(|client| begin(client, "/a"));
    assert_eq!(purge(&proxy, &Purge { all: true, ..Purge::default() }).objects, 1);
    for path in ["/b", "/c", "/d", "/e"] {
        whole(path);
        whole(path);
    }
    for client in &mut under_way {
        let all = body("/a");
        assert!(client.bytes(all.len()) == all.as_bytes());
    }
    assert_eq!(endpoint.seen().len(), 5);
}

#[test]
fn parts_of_a_large_response_are_cut_where_they_should_be() {
    let endpoint = Endpoint::answering(|_| with("200 OK", "Cache-Control: max-age=60\r\n", &body("/a")));
    let proxy = cached(endpoint.addr, "true");
    let (mut client, all) = (proxy.client(), body("/a"));
    assert_eq!(client.get("/a").status(), 200);
    for (from, to) in [(0, LARGE / 2), (4095, 4096 * 200), (4097, all.len() - 1), (all.len() - 5000, all.len() - 1)] {
        client.send(format!("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes={from}-{to}\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.status(), 206);
        assert!(response.body_text() == all[from..=to], "{from} to {to}");
    }
    assert_eq!(endpoint.seen().len(), 1);
}
