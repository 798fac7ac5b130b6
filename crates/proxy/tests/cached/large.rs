//! Large stored responses, to whose memory sockets refer instead of copying it.

use super::basics::{cached, with};
use super::operators::purge;
use crate::support::h2_client::{Frame, H2Client, RST_STREAM, SETTINGS};
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

#[test]
fn streams_of_a_connection_get_each_its_own_body_while_another_is_reset() {
    let endpoint = Endpoint::answering(|request| {
        let path = request.head.split(' ').nth(1).expect("it has a target").to_owned();
        with("200 OK", "Cache-Control: max-age=60\r\n", &body(&path)[..LARGE / 8])
    });
    let proxy = cached(endpoint.addr, "true");
    for path in ["/a", "/b"] {
        assert_eq!(proxy.client().get(path).status(), 200);
    }
    let mut client = H2Client::connect(proxy.addr());
    // More than the sockets hold: parts of bodies wait between their frames.
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0, 0xff, 0xff, 0xff]));
    client.give(0, 1 << 24);
    let paths = ["/a", "/b", "/a", "/b", "/a", "/b", "/a", "/b"];
    let streams: Vec<u32> = (1..).step_by(2).take(paths.len()).collect();
    for (stream, path) in streams.iter().zip(paths) {
        client.get(*stream, path);
    }
    client.get(99, "/a");
    client.send(&Frame::new(RST_STREAM, 0, 99, 8_u32.to_be_bytes()));
    assert_eq!(purge(&proxy, &Purge { all: true, ..Purge::default() }).objects, 2);
    for (answer, path) in client.answers(&streams).into_iter().zip(paths) {
        assert!(answer.body_text() == body(path)[..LARGE / 8], "{path}: {}", answer.shown());
    }
}
