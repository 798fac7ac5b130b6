//! Responses that are arriving: all clients read them while the endpoint still sends, and none of them holds up others.
//! Long because each of its tests needs the endpoint that takes steps, and the client that reads step by step.

use super::basics::get;
use super::operators::purge;
use crate::support::decoder::Decoder;
use crate::support::h2_client::{ACK, DATA, END_STREAM, Frame, H2Client, HEADERS, PREFACE, RST_STREAM, SETTINGS};
use crate::support::h2_server::H2Server;
use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use evenkeel_view::cache::Purge;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

const FRESH: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\n";

enum Step {
    Send(Vec<u8>),
    Close,
    Next,
}

/// Endpoint whose responses come step by step, as the test says.
struct Stepped {
    endpoint: Endpoint,
    /// Steps of each request, in the order in which they came.
    steps: Arc<Mutex<Vec<Sender<Step>>>>,
}

impl Stepped {
    fn new() -> Stepped {
        let steps: Arc<Mutex<Vec<Sender<Step>>>> = Arc::default();
        let all = steps.clone();
        let endpoint = Endpoint::start(move |conn| {
            while conn.request_if_whole().is_some() {
                let (to, steps) = channel();
                all.lock().expect("no panic").push(to);
                loop {
                    match steps.recv_timeout(SOON) {
                        Ok(Step::Send(bytes)) => conn.send(bytes),
                        Ok(Step::Next) => break,
                        Ok(Step::Close) | Err(_) => return,
                    }
                }
            }
        });
        Stepped { endpoint, steps }
    }

    fn proxy(&self, cache: &str, sections: &str) -> Proxy {
        let route = format!("[[route]]\npool = 'web'\ncache = {cache}\nretry = {{ attempts = 0 }}\n");
        Proxy::with(&[self.endpoint.addr], "h2c = true", "", &format!("{route}{sections}"))
    }

    fn requests(&self) -> usize {
        self.steps.lock().expect("no panic").len()
    }

    fn has_requests(&self, n: usize) {
        wait_until("the request has come", || self.requests() == n);
    }

    /// Takes a step of the response to a request.
    fn step_of(&self, request: usize, step: Step) {
        self.steps.lock().expect("no panic")[request].send(step).expect("the endpoint is there");
    }

    /// Takes a step of the response to the last request.
    fn step(&self, step: Step) {
        self.step_of(self.requests() - 1, step);
    }

    fn send(&self, bytes: impl AsRef<[u8]>) {
        self.step(Step::Send(bytes.as_ref().to_vec()));
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        // The endpoint waits for no further steps.
        self.steps.lock().expect("no panic").clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    H1,
    H2,
}

const VERSIONS: [Version; 2] = [Version::H1, Version::H2];

/// A client that reads the response to a GET as it comes.
enum Reads {
    H1(Client),
    H2(H2Client),
}

impl Reads {
    fn new(proxy: &Proxy, version: Version, fields: &[(&str, &str)]) -> Reads {
        let mut reads = match version {
            Version::H1 => Reads::H1(proxy.client()),
            Version::H2 => Reads::H2(H2Client::connect(proxy.addr())),
        };
        match &mut reads {
            Reads::H1(client) => {
                let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                client.send(format!("GET /p HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
            }
            Reads::H2(client) => {
                let pseudo = [(":method", "GET"), (":scheme", "http"), (":path", "/p"), (":authority", "a")];
                client.head(1, &[&pseudo[..], fields].concat(), true);
            }
        }
        reads
    }

    fn head(&mut self) -> String {
        match self {
            Reads::H1(client) => client.head(),
            Reads::H2(client) => {
                client.next(HEADERS).expect("a head");
                client.head.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
            }
        }
    }

    /// Reads bytes of the body, which must have a length over HTTP/1.
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        match self {
            Reads::H1(client) => client.bytes(n),
            Reads::H2(client) => {
                let mut bytes = Vec::new();
                while bytes.len() < n {
                    bytes.extend(data(client).expect("more of the body").0);
                }
                bytes
            }
        }
    }

    /// Reads the rest of the body, and true if it is whole. Over HTTP/1, `length` is its length.
    fn rest(&mut self, length: usize) -> (Vec<u8>, bool) {
        match self {
            Reads::H1(client) => {
                client.finish_sending();
                let rest = client.rest();
                let is_whole = rest.len() == length;
                (rest, is_whole)
            }
            Reads::H2(client) => {
                let mut rest = Vec::new();
                loop {
                    match data(client) {
                        Some((bytes, ends)) => {
                            rest.extend(bytes);
                            if ends {
                                return (rest, true);
                            }
                        }
                        None => return (rest, false),
                    }
                }
            }
        }
    }

    fn leave(self) {
        match self {
            Reads::H1(client) => client.reset(),
            Reads::H2(client) => {
                client.send(&Frame::new(RST_STREAM, 0, 1, 8_u32.to_be_bytes()));
            }
        }
    }
}

/// Next data of the stream, and true at its end; `None` if it was reset.
fn data(client: &mut H2Client) -> Option<(Vec<u8>, bool)> {
    loop {
        let frame = client.frame()?;
        match frame.kind {
            DATA => {
                if !frame.payload.is_empty() {
                    client.give(0, frame.payload.len() as u32);
                    client.give(1, frame.payload.len() as u32);
                }
                return Some((frame.payload, frame.flags & END_STREAM != 0));
            }
            RST_STREAM => return None,
            SETTINGS if frame.flags & ACK == 0 => {
                client.send(&Frame::new(SETTINGS, ACK, 0, ""));
            }
            _ => {}
        }
    }
}

fn metric(proxy: &Proxy, name: &str) -> u64 {
    let metrics = proxy.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name) && line.as_bytes().get(name.len()) == Some(&b' '));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the metric exists")
}

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
fn a_response_is_stored_although_all_clients_have_left() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "");
        let mut clients: Vec<Reads> = (0..5).map(|_| Reads::new(&proxy, version, &[])).collect();
        stepped.has_requests(1);
        proxy.has_heard();
        stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
        for client in &mut clients {
            client.head();
            client.bytes(5);
        }
        clients.into_iter().for_each(Reads::leave);
        wait_until("all have left", || metric(&proxy, "evenkeel_cache_unattended_fetches") == 1);
        stepped.send("56789");
        stepped.step(Step::Next);
        wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
        assert_eq!(get(&mut proxy.client(), "/p", ""), (200, "hit; ttl=60".into(), "0123456789".into()));
        assert_eq!((stepped.requests(), metric(&proxy, "evenkeel_cache_unattended_fetches")), (1, 0));
    }
}

#[test]
fn a_fetch_ends_with_its_last_client_if_too_many_have_none() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "[cache]\nunattended_fetches_max = 0\n");
        let mut client = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
        client.head();
        client.bytes(5);
        client.leave();
        wait_until("it has ended", || metric(&proxy, "evenkeel_cache_fills") == 0 && proxy.in_flight() == 0);
        stepped.step(Step::Close);
        let mut next = Reads::new(&proxy, version, &[]);
        stepped.has_requests(2);
        stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
        next.head();
        assert_eq!(next.bytes(3), b"new");
    }
}

#[test]
fn all_are_cut_off_where_the_endpoint_cuts_the_response_off() {
    for version in VERSIONS {
        for framing in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
            let stepped = Stepped::new();
            let proxy = stepped.proxy("true", "");
            let first = Reads::new(&proxy, version, &[]);
            stepped.has_requests(1);
            let mut clients = vec![first];
            clients.extend((0..4).map(|_| Reads::new(&proxy, version, &[])));
            proxy.has_heard();
            let is_chunked = framing.contains("chunked");
            stepped.send(format!("{FRESH}{framing}\r\n\r\n{}", if is_chunked { "5\r\n01234\r\n" } else { "01234" }));
            clients.iter_mut().for_each(|client| _ = client.head());
            stepped.step(Step::Close);
            for mut client in clients {
                let (rest, is_whole) = client.rest(if is_chunked { 15 } else { 10 });
                let rest = String::from_utf8(rest).expect("text");
                assert!(
                    rest.contains("01234") && !rest.contains("\r\n0\r\n") && !is_whole,
                    "{framing}, {version:?}: {rest}"
                );
            }
            let mut next = Reads::new(&proxy, version, &[]);
            stepped.has_requests(2);
            stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
            next.head();
            assert_eq!(next.bytes(3), b"new", "{framing}, {version:?}");
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
fn a_purge_ends_the_sharing_of_a_response_that_is_arriving() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("true", "");
    let mut before = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(1);
    stepped.send(format!("{FRESH}Content-Length: 6\r\n\r\nold"));
    before.head();
    before.bytes(3);
    purge(&proxy, &Purge { all: true, ..Purge::default() });
    let mut after = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(2);
    stepped.step_of(1, Step::Send(format!("{FRESH}Content-Length: 3\r\n\r\nnew").into()));
    after.head();
    assert_eq!(after.bytes(3), b"new");
    stepped.step_of(0, Step::Send(b"old".into()));
    assert_eq!(before.bytes(3), b"old", "those who have begun get all of it");
    wait_until("both have ended", || metric(&proxy, "evenkeel_cache_fills") == 0);
    assert_eq!(get(&mut proxy.client(), "/p", "").2, "new");
}

/// Its length is not known, so that it turns out late.
#[test]
fn a_response_that_turns_out_too_large_reaches_those_who_read_it_and_is_not_stored() {
    const PIECE: usize = 1 << 20;
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "[cache]\nobject_max = '2MiB'\n");
        let first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        let mut clients = vec![first, Reads::new(&proxy, version, &[])];
        proxy.has_heard();
        stepped.send(format!("{FRESH}Transfer-Encoding: chunked\r\n\r\n"));
        clients.iter_mut().for_each(|client| _ = client.head());
        let readers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                std::thread::spawn(move || match &mut client {
                    Reads::H1(http1) => {
                        let mut all = 0;
                        loop {
                            let mut size = Vec::new();
                            while !size.ends_with(b"\r\n") {
                                size.extend(http1.bytes(1));
                            }
                            let size = std::str::from_utf8(&size).expect("text").trim();
                            let size = usize::from_str_radix(size, 16).expect("a size");
                            http1.bytes(size + 2);
                            all += size;
                            if size == 0 {
                                return all;
                            }
                        }
                    }
                    Reads::H2(_) => {
                        let (rest, is_whole) = client.rest(0);
                        assert!(is_whole);
                        rest.len()
                    }
                })
            })
            .collect();
        for _ in 0..8 {
            stepped.send(format!("{PIECE:x}\r\n"));
            stepped.send(vec![b'x'; PIECE]);
            stepped.send("\r\n");
        }
        stepped.send("0\r\n\r\n");
        stepped.step(Step::Next);
        for reader in readers {
            assert_eq!(reader.join().expect("it has read"), 8 * PIECE, "{version:?}");
        }
        assert_eq!((metric(&proxy, "evenkeel_cache_objects"), stepped.requests()), (0, 1), "{version:?}");
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

/// The first client has a window of a byte, so that it takes next to nothing.
#[test]
fn two_hundred_clients_are_one_fetch_and_read_at_the_pace_of_the_endpoint() {
    const PART: usize = 50_000;
    let stepped = Stepped::new();
    let proxy = stepped.proxy("true", "");
    let leader = H2Client::silent(proxy.addr());
    leader.send_bytes(PREFACE);
    leader.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0, 0, 0, 1]));
    leader.get(1, "/p");
    stepped.has_requests(1);
    let mut clients: Vec<Reads> = (0..200).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])).collect();
    proxy.has_heard();
    stepped.send(format!("{FRESH}Content-Length: {}\r\n\r\n", 10 * PART));
    for client in &mut clients {
        assert!(client.head().contains("200"));
    }
    let mut seen = vec![0; clients.len()];
    for step in 1..=10 {
        stepped.send(vec![b'x'; PART]);
        for (client, seen) in clients.iter_mut().zip(&mut seen) {
            *seen += client.bytes(step * PART - *seen).len();
        }
    }
    stepped.step(Step::Next);
    assert!(seen.iter().all(|seen| *seen == 10 * PART));
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
fn if_too_many_have_no_client_the_oldest_who_waits_fetches_the_response_next() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("{ collapse = '1h' }", "[cache]\nunattended_fetches_max = 0\n");
        let first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        let mut others: Vec<Reads> = (0..5).map(|_| Reads::new(&proxy, version, &[])).collect();
        proxy.has_heard();
        first.leave();
        stepped.has_requests(2);
        stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
        for client in &mut others {
            client.head();
            assert_eq!(client.bytes(3), b"new", "{version:?}");
        }
        assert_eq!(stepped.requests(), 2, "{version:?}");
    }
}

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
