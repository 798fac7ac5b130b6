//! Strictness: every row of three tables is sent over real sockets through a worker to an endpoint that records each
//! byte, and is refused or forwarded as the row states. docs/reference/strictness.md is generated from the same rows.
#![allow(clippy::disallowed_types, reason = "a test is no worker: it may lock")]

mod h2;
#[rustfmt::skip] // a row is a line
mod h2_requests;
mod page;
#[rustfmt::skip] // a row is a line
mod requests;
#[rustfmt::skip]
mod responses;
mod underscores;

use crate::support::endpoint::ok;
use crate::support::message::{Message, read_message, without_marks};
use crate::support::{Client, Endpoint, Proxy, text, wait_until};
use evenkeel_wire::http1::Reject;
use requests::Does;
use responses::{Asked, Ends};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Everything that an endpoint received: bytes, requests and connections.
#[derive(Clone, Default)]
struct Seen {
    bytes: Arc<Mutex<Vec<u8>>>,
    requests: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

/// A connection whose read bytes are recorded.
struct Recorded(TcpStream, Seen);

impl Read for Recorded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(buf)?;
        self.1.bytes.lock().expect("no panic while held").extend_from_slice(&buf[..n]);
        Ok(n)
    }
}

impl Seen {
    /// An endpoint that answers each request with its first line.
    fn endpoint(&self) -> Endpoint {
        let seen = self.clone();
        Endpoint::start(move |conn| {
            seen.accepted.fetch_add(1, SeqCst);
            let stream = conn.stream.try_clone().expect("descriptors can be had");
            let mut reader = BufReader::new(Recorded(stream, seen.clone()));
            // Some rows are about messages without an end, so an error ends the loop and not the test.
            while let Ok(Some(request)) = read_message(&mut reader, false) {
                seen.requests.fetch_add(1, SeqCst);
                conn.send(ok(request.line()));
            }
            seen.ended.fetch_add(1, SeqCst);
        })
    }

    /// Requests and bytes that came since the last call, once the proxy has nothing under way. The bytes are without
    /// the `X-Forwarded-*` fields and the `CDN-Loop` mark, as if the proxy were at 192.0.2.1:8080.
    fn take(&self, proxy: &Proxy) -> (usize, String) {
        wait_until("the endpoint has got all", || {
            let (accepted, idle) = (self.accepted.load(SeqCst), proxy.endpoint(0, |e| e.idle.get()) as usize);
            accepted == proxy.endpoint(0, |e| e.connects.get()) as usize && accepted - self.ended.load(SeqCst) == idle
        });
        let bytes = std::mem::take(&mut *self.bytes.lock().expect("no panic while held"));
        let all = String::from_utf8_lossy(&bytes);
        assert!(!all.contains("spoof"), "{all}");
        let all = without_marks(&all).replace(&proxy.addr().to_string(), "192.0.2.1:8080");
        let lines = all.split_inclusive("\r\n").filter(|line| !line.starts_with("X-Forwarded-"));
        (self.requests.swap(0, SeqCst), lines.collect())
    }
}

/// Expands repetitions: `{x*3}` stands for `xxx`.
fn expand(written: &str) -> String {
    let mut text = written.to_string();
    let innermost = |text: &str| {
        text.match_indices('}').find_map(|(end, _)| {
            let from = text[..end].rfind('{')?;
            let star = from + text[from..end].rfind('*')?;
            Some((from..end + 1, text[from + 1..star].repeat(text[star + 1..end].parse().ok()?)))
        })
    };
    while let Some((range, repeated)) = innermost(&text) {
        text.replace_range(range, &repeated);
    }
    text
}

/// Sends bytes, ignoring errors: a proxy that has refused the request may have closed.
fn send(client: &Client, bytes: &str) {
    let _ = (&client.stream).write_all(bytes.as_bytes());
}

fn messages(bytes: &[u8]) -> Vec<Message> {
    let mut rest = bytes;
    std::iter::from_fn(|| read_message(&mut rest, false).expect("whole responses")).collect()
}

#[track_caller]
fn says(response: &Message, status: u16, reject: Reject, shown: &str) {
    assert_eq!(response.status(), status, "{shown}: {}", response.body_text());
    let body = response.body_text();
    let why = body.trim_end().split("; tolerate = ").next().unwrap_or_default();
    assert!(why.ends_with(&reject.to_string()), "{shown}: {body}");
}

#[test]
fn every_request_has_the_result_of_its_row() {
    let seen = Seen::default();
    let endpoint = seen.endpoint();
    let proxy = Proxy::before(&[endpoint.addr]);
    for row in requests::SECTIONS.iter().flat_map(|(_, rows)| *rows) {
        let shown = page::code(row.sent);
        let sent = expand(row.sent);
        let mut client = proxy.client();
        for (at, part) in sent.split('‖').enumerate() {
            if at > 0 {
                wait_until(&shown, || !seen.bytes.lock().expect("no panic while held").is_empty());
            }
            send(&client, part);
        }
        let _ = client.stream.shutdown(Shutdown::Write);
        let got = client.rest();
        let answers = messages(&got);
        let (count, bytes) = seen.take(&proxy);

        let (passed, cut, refused) = match &row.does {
            Does::Answers(answer) => {
                assert_eq!((text(&got), bytes), (text(answer.as_bytes()), String::new()), "{shown}");
                continue;
            }
            Does::Passes(passed) => (*passed, "", None),
            Does::Refuses(reject) => (&[][..], "", Some(*reject)),
            Does::PassesThenRefuses(passed, reject) => (*passed, "", Some(*reject)),
            Does::Cuts(begun, reject) => (&[][..], *begun, Some(*reject)),
        };
        assert_eq!(text(bytes.as_bytes()), text(format!("{}{cut}", passed.concat()).as_bytes()), "{shown}");
        assert_eq!(count, passed.len(), "{shown}: requests at the endpoint");
        assert_eq!(answers.len(), passed.len() + usize::from(refused.is_some()), "{shown}: {answers:?}");
        for (answer, request) in answers.iter().zip(passed) {
            assert_eq!(answer.status(), 200, "{shown}");
            assert_eq!(Some(&*answer.body_text()), request.lines().next(), "{shown}: another request's answer");
        }
        if let Some(reject) = refused {
            let last = answers.last().expect("they were counted");
            says(last, reject.status(), reject, &shown);
            assert_eq!(last.field("connection"), Some("close"), "{shown}");
        }
    }
}

#[test]
fn every_response_has_the_result_of_its_row() {
    let answer = Arc::new(Mutex::new((String::new(), Ends::Keeps)));
    let (current, last_index) = (answer.clone(), Arc::new(AtomicUsize::new(0)));
    let index = last_index.clone();
    let endpoint = Endpoint::start(move |conn| {
        // A proxy that refuses a response may close within the next read.
        while let Ok(Some(head)) = crate::support::message::read_head(&mut conn.stream) {
            index.store(conn.index, SeqCst);
            if head.starts_with("GET /then ") {
                conn.send(ok("then"));
                continue;
            }
            let (sent, ends) = current.lock().expect("no panic while held").clone();
            conn.send(sent);
            if ends == Ends::Closes {
                return;
            }
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    for row in responses::SECTIONS.iter().flat_map(|(_, rows)| *rows) {
        let shown = page::code(row.sent);
        *answer.lock().expect("no panic while held") = (expand(row.sent), row.ends);
        let (method, lines) = match row.asked {
            Asked::Get => ("GET", ""),
            Asked::Head => ("HEAD", ""),
            Asked::Post => ("POST", "Content-Length: 5\r\n"),
            Asked::Switch => ("GET", "Connection: upgrade\r\nUpgrade: websocket\r\n"),
        };
        let mut client = proxy.client();
        send(&client, &format!("{method} /row HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        if let responses::Does::Passes(want) | responses::Does::PassesLast(want) = row.does {
            assert_eq!(text(&client.bytes(want.len())), text(want.as_bytes()), "{shown}");
        }
        match row.does {
            responses::Does::Cuts(begun) => {
                let got = client.rest();
                assert!(got.starts_with(begun.as_bytes()) && !got.ends_with(b"0\r\n\r\n"), "{shown}: {}", text(&got));
            }
            responses::Does::Refuses(reject) => {
                let last = std::iter::repeat_with(|| client.response()).find(|response| response.status() >= 200);
                says(&last.expect("it goes on until then"), 502, reject, &shown);
            }
            responses::Does::Passes(_) | responses::Does::PassesLast(_) => {}
        }
        let _ = client.stream.shutdown(Shutdown::Write);
        client.ends();

        let used = last_index.load(SeqCst);
        let next = proxy.client().get("/then");
        assert_eq!(text(next.head.as_bytes()) + &next.body_text(), text(&ok("then")), "{shown}: the next request");
        let kept = last_index.load(SeqCst) == used;
        assert_eq!(kept, matches!(row.does, responses::Does::Passes(_)), "{shown}: the endpoint's connection");
    }
}

#[test]
fn every_reason_to_refuse_has_a_row() {
    let by_request = requests::SECTIONS.iter().flat_map(|(_, rows)| *rows).filter_map(|row| match row.does {
        Does::Passes(_) | Does::Answers(_) => None,
        Does::Refuses(reject) | Does::PassesThenRefuses(_, reject) | Does::Cuts(_, reject) => Some(reject),
    });
    let by_response = responses::SECTIONS.iter().flat_map(|(_, rows)| *rows).filter_map(|row| match row.does {
        responses::Does::Refuses(reject) => Some(reject),
        _ => None,
    });
    let shown: Vec<Reject> = by_request.chain(by_response).collect();
    // `Protocol` is for extended CONNECT, which HTTP/1 does not have; a row of HTTP/2 covers it.
    let of_http1 = Reject::ALL.iter().filter(|reject| **reject != Reject::Protocol);
    let missing: Vec<&Reject> = of_http1.filter(|reject| !shown.contains(reject)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_committed_page_is_the_generated_one() {
    crate::committed::same_as_committed(&[("docs/reference/strictness.md".into(), page::write())]);
}
