//! Fetches behind requests: clients that come meanwhile read what has arrived.

use super::stepped::{FRESH, Reads, Step, Stepped, VERSIONS, Version, metric};
use crate::cached::basics::get;
use crate::support::{Proxy, wait_until};
use std::time::Duration;

const LENGTH: usize = 3_000_000;

/// Response to a request for a part of the whole.
fn part(range: &str) -> Vec<u8> {
    let head = "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 4\r\n";
    format!("{head}Content-Range: bytes {range}/{LENGTH}\r\n\r\npart").into()
}

/// Asks for a part, so that the whole is fetched behind it, and returns once 100,000 bytes of it were sent.
fn whole_behind(stepped: &Stepped, proxy: &Proxy, version: Version) {
    let mut first = Reads::new(proxy, version, &[("range", "bytes=0-3")]);
    stepped.has_requests(1);
    stepped.send(part("0-3"));
    stepped.step_of(0, Step::Next);
    first.head();
    assert_eq!(first.bytes(4), b"part");
    stepped.has_requests(2);
    stepped.send(format!("{FRESH}Content-Length: {LENGTH}\r\n\r\n"));
    stepped.send(vec![b'a'; 100_000]);
}

#[test]
fn the_whole_that_is_fetched_behind_a_part_is_read_as_it_arrives() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "");
        whole_behind(&stepped, &proxy, version);
        let mut whole = Reads::new(&proxy, version, &[]);
        assert!(whole.head().contains("200"));
        assert_eq!(&whole.bytes(4)[..4], b"aaaa");
        let mut near = Reads::new(&proxy, version, &[("range", "bytes=10-13")]);
        assert!(near.head().to_lowercase().contains(&format!("content-range: bytes 10-13/{LENGTH}")));
        assert_eq!(near.bytes(4), b"aaaa");
        // What would have to wait for megabytes is asked for itself.
        let mut far = Reads::new(&proxy, version, &[("range", "bytes=2000000-2000003")]);
        stepped.has_requests(3);
        stepped.send(part("2000000-2000003"));
        far.head();
        assert_eq!(far.bytes(4), b"part");
        assert_eq!(metric(&proxy, "evenkeel_cache_fetches_behind"), 1);
        let sending = std::thread::spawn(move || {
            let (rest, is_whole) = match &mut whole {
                Reads::H1(client) => (client.bytes(LENGTH - 4), true),
                Reads::H2(_) => whole.rest(0),
            };
            assert!(is_whole);
            rest.len()
        });
        stepped.step_of(1, Step::Send(vec![b'b'; LENGTH - 100_000]));
        stepped.step_of(1, Step::Next);
        assert!(sending.join().expect("no panic") >= LENGTH - 100_000);
        wait_until("it has ended", || metric(&proxy, "evenkeel_cache_fetches_behind") == 0);
        assert!(get(&mut proxy.client(), "/p", "Range: bytes=2000000-2000001\r\n").1.starts_with("hit"));
        assert_eq!(stepped.requests(), 3, "{version:?}");
    }
}

#[test]
fn readers_of_a_fetch_behind_a_request_are_cut_off_with_it_and_counted() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "");
        whole_behind(&stepped, &proxy, version);
        let mut whole = Reads::new(&proxy, version, &[]);
        whole.head();
        whole.bytes(4);
        stepped.step(Step::Close);
        assert!(!whole.rest(LENGTH - 4).1);
        let cut = |reason| metric(&proxy, &format!("evenkeel_cache_cut_readers_total{{reason=\"{reason}\"}}"));
        wait_until("it is counted", || cut("endpoint") == 1);
        assert_eq!([cut("timeout"), cut("slow_client"), cut("stopped")], [0; 3]);
        assert_eq!(metric(&proxy, "evenkeel_cache_fetches_behind") + metric(&proxy, "evenkeel_cache_fills"), 0);
    }
}

#[test]
fn the_whole_is_fetched_although_no_fetch_may_go_without_clients() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("true", "[cache]\nunattended_fetches_max = 0\n");
    whole_behind(&stepped, &proxy, Version::H1);
    let mut reads = Reads::new(&proxy, Version::H1, &[]);
    reads.head();
    reads.bytes(4);
    reads.leave();
    stepped.send(vec![b'b'; LENGTH - 100_000]);
    wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
}

#[test]
fn a_validation_behind_a_stale_response_is_read_as_it_arrives() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("{ stale_while_revalidate = '1m' }", "");
        let mut first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nold"));
        stepped.step(Step::Next);
        first.head();
        first.bytes(3);
        proxy.server().numbers().skip_cache_time(Duration::from_secs(61));
        let mut stale = Reads::new(&proxy, version, &[]);
        stale.head();
        assert_eq!(stale.bytes(3), b"old");
        stepped.has_requests(2);
        stepped.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 6\r\n\r\nnew");
        wait_until("its head has arrived", || metric(&proxy, "evenkeel_cache_fills") == 1);
        let mut still_stale = Reads::new(&proxy, version, &[]);
        still_stale.head();
        assert_eq!(still_stale.bytes(3), b"old", "it is whole");
        // No longer to be served.
        proxy.server().numbers().skip_cache_time(Duration::from_secs(60));
        let mut late = Reads::new(&proxy, version, &[]);
        late.head();
        assert_eq!(late.bytes(3), b"new");
        stepped.send("er!");
        stepped.step(Step::Next);
        assert_eq!(late.bytes(3), b"er!");
        assert_eq!(get(&mut proxy.client(), "/p", "").2, "newer!");
        assert_eq!((stepped.requests(), metric(&proxy, "evenkeel_cache_fetches_behind")), (2, 0), "{version:?}");
    }
}

/// A proxy whose stored response is validated for a client that waits, and whose endpoint has other content.
fn anew(stepped: &Stepped, version: Version) -> (Proxy, Reads) {
    let proxy = stepped.proxy("true", "");
    let mut first = Reads::new(&proxy, version, &[]);
    stepped.has_requests(1);
    stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nold"));
    stepped.step(Step::Next);
    first.head();
    first.bytes(3);
    proxy.server().numbers().skip_cache_time(Duration::from_secs(61));
    let waits = Reads::new(&proxy, version, &[]);
    stepped.has_requests(2);
    stepped.send("HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\n\r\n");
    stepped.step(Step::Next);
    stepped.has_requests(3);
    (proxy, waits)
}

#[test]
fn a_response_that_is_fetched_anew_is_read_as_it_arrives() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let (proxy, mut waits) = anew(&stepped, version);
        let mut second = Reads::new(&proxy, version, &[]);
        stepped.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"b\"\r\nContent-Length: 6\r\n\r\nnew");
        for reads in [&mut waits, &mut second] {
            assert!(reads.head().contains("200"));
            assert_eq!(reads.bytes(3), b"new");
        }
        stepped.send("er!");
        stepped.step(Step::Next);
        for reads in [&mut waits, &mut second] {
            assert_eq!(reads.bytes(3), b"er!");
        }
        assert_eq!(get(&mut proxy.client(), "/p", "").2, "newer!");
        assert_eq!(stepped.requests(), 3, "{version:?}");
    }
}

#[test]
fn a_response_that_is_fetched_anew_and_not_stored_is_for_its_client_alone() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let (proxy, mut waits) = anew(&stepped, version);
        let mut second = Reads::new(&proxy, version, &[]);
        proxy.has_heard();
        stepped.send("HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 6\r\n\r\nfor");
        assert!(waits.head().contains("private"));
        assert_eq!(waits.bytes(3), b"for");
        stepped.has_requests(4);
        stepped.send("HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 6\r\n\r\nsecond");
        second.head();
        assert_eq!(second.bytes(6), b"second");
        stepped.step_of(2, Step::Send(b"one".into()));
        assert_eq!(waits.bytes(3), b"one");
        wait_until("it has ended", || metric(&proxy, "evenkeel_cache_fills") == 0);
        assert_eq!(stepped.requests(), 4, "{version:?}");
    }
}

/// Its end would look like a whole body, if the rest did not come.
#[test]
fn a_client_over_http10_gets_a_response_of_unknown_length_once_it_is_whole() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("true", "");
    let mut first = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(1);
    stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nold"));
    stepped.step(Step::Next);
    first.head();
    first.bytes(3);
    proxy.server().numbers().skip_cache_time(Duration::from_secs(61));
    let mut client = proxy.client();
    client.send("GET /p HTTP/1.0\r\nHost: a\r\n\r\n");
    stepped.has_requests(2);
    stepped.send("HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\n\r\n");
    stepped.step(Step::Next);
    stepped.has_requests(3);
    stepped.send(format!("{FRESH}Transfer-Encoding: chunked\r\n\r\n3\r\nnew\r\n"));
    stepped.send("3\r\ner!\r\n0\r\n\r\n");
    stepped.step(Step::Next);
    assert!(client.head().to_lowercase().contains("content-length: 6"));
    assert_eq!(client.rest(), b"newer!");
}
