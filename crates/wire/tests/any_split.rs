//! Independence of results from how a connection's bytes are split into reads. For any messages, valid or not, every
//! split forwards the same bytes, ends messages at the same places and refuses for the same reason.

use crate::wire::{Connection, Relayed, pieces};
use evenkeel_wire::http1::Limits;
use evenkeel_wire::http1::response::RequestContext;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Small enough that messages reach them.
const LIMITS: Limits = Limits { head: 200, fields: 12 };

const REQUEST_LINES: &[&str] = &[
    "GET / HTTP/1.1",
    "POST /a?b=c HTTP/1.1",
    "HEAD / HTTP/1.0",
    "OPTIONS * HTTP/1.1",
    "GET http://a/x HTTP/1.1",
    "\r\n\r\nPUT /x HTTP/1.1",
    "CONNECT a:1 HTTP/1.1",
    "GET / HTTP/2.0",
    "GET  / HTTP/1.1",
];

const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 ",
    "HTTP/1.0 404 Not Found",
    "HTTP/1.1 100 Continue",
    "HTTP/1.1 103 Early Hints",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 101 Switching Protocols",
    "HTTP/1.1 20 OK",
    "\r\nHTTP/1.1 200 OK",
];

const FIELDS: &[&str] = &[
    "Host: a",
    "Host:",
    "A: b",
    "X-Long: 0123456789012345678901234567890123456789012345678901234567890123456789",
    "Connection: close",
    "Connection: x-drop, keep-alive",
    "X-Drop: 1",
    "Connection: upgrade",
    "Upgrade: websocket",
    "X-Forwarded-For: 9",
    "Expect: 100-continue",
    "Content-Length: 3",
    "Content-Length: 3, 3",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
    "A : b",
    " folded",
    "A: \u{e9}",
    "A: b\nC: d",
    "A: \r",
];

const CHUNKS: &[&str] = &[
    "3\r\nabc\r\n",
    "003;x=\"y\";z\r\n\r\n0\r\n",
    "a\r\n0123456789\r\n",
    "1f\r\n3333333333333333333333333333333\r\n",
    "0\r\n\r\n",
    "0;last\r\n\r\n",
    "0\r\nTrailer-A: b\r\nC:\r\n\r\n",
    "0\r\nHost: b\r\n\r\n",
    "g\r\n",
    "2\r\nabc\r\n",
    "3\n",
    "fffffffffffffff\r\n",
];

fn lines(of: &'static [&'static str], max: usize) -> impl Strategy<Value = Vec<&'static str>> {
    vec(select(of), 0..=max)
}

/// A complete message that a peer would send: its framing and its body agree.
fn sound(first: &'static [&'static str], host: &'static str) -> impl Strategy<Value = String> {
    let chunked = lines(&CHUNKS[..4], 4).prop_flat_map(|chunks| {
        select(&CHUNKS[4..7])
            .prop_map(move |last| format!("Transfer-Encoding: chunked\r\n\r\n{}{last}", chunks.concat()))
    });
    let with_length = "[a-z\r\n]{0,60}".prop_map(|b| format!("Content-Length: {}\r\n\r\n{b}", b.len()));
    let body = prop_oneof![chunked, with_length, Just("\r\n".to_string())];
    (select(&first[..3]), lines(&FIELDS[2..11], 3), body).prop_map(move |(line, fields, body)| {
        let fields: String = fields.iter().map(|f| format!("{f}\r\n")).collect();
        format!("{line}\r\n{host}{fields}{body}")
    })
}

/// Lines in a meaningful order, with any content.
fn odd(first: &'static [&'static str]) -> impl Strategy<Value = String> {
    (select(first), lines(FIELDS, 8), lines(CHUNKS, 4)).prop_map(|(line, fields, chunks)| {
        let fields: String = fields.iter().map(|f| format!("{f}\r\n")).collect();
        format!("{line}\r\n{fields}\r\n{}", chunks.concat())
    })
}

/// A flaw of one byte: its value, its position, and true if it replaces another byte.
type Flaw = Option<(u8, Index, bool)>;

fn flaw() -> impl Strategy<Value = Flaw> {
    let byte = prop_oneof![select(&b"\r\n :\0;0a,\x7f\xff"[..]), any::<u8>()];
    proptest::option::weighted(0.3, (byte, any::<Index>(), any::<bool>()))
}

fn with(flaw: Flaw, mut bytes: Vec<u8>) -> Vec<u8> {
    match flaw {
        Some((byte, at, true)) => {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        Some((byte, at, false)) => bytes.insert(at.index(bytes.len()), byte),
        None => {}
    }
    bytes
}

fn connection(first: &'static [&'static str], host: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let message = prop_oneof![3 => sound(first, host), 1 => odd(first)];
    (vec(message, 1..6), flaw()).prop_map(|(messages, flaw)| with(flaw, messages.concat().into_bytes()))
}

/// Compares a single read, reads of one byte, and reads cut at `cuts`.
fn same_in_any_split(bytes: &[u8], cuts: &[usize], new: impl Fn() -> Connection) -> Result<Relayed, TestCaseError> {
    let (whole, cut, finest) = (new().read([bytes]), new().read(pieces(bytes, cuts)), new().read(bytes.chunks(1)));
    prop_assert!(whole.agrees_with(&finest), "whole: {whole:#?}\nbyte by byte: {finest:#?}");
    prop_assert!(cut.agrees_with(&finest), "cut: {cut:#?}\nbyte by byte: {finest:#?}");
    Ok(finest)
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn requests_mean_the_same_in_any_split(
        bytes in connection(REQUEST_LINES, "Host: a\r\n"),
        cuts in vec(any::<usize>(), 0..12),
    ) {
        same_in_any_split(&bytes, &cuts, || Connection::requests(LIMITS))?;
    }

    #[test]
    fn responses_mean_the_same_in_any_split(
        bytes in connection(STATUS_LINES, ""),
        cuts in vec(any::<usize>(), 0..12),
        asked in vec((any::<bool>(), any::<bool>()), 0..6),
    ) {
        let asked: Vec<RequestContext> = asked.into_iter().map(|(head, upgrade)| RequestContext { head, upgrade }).collect();
        same_in_any_split(&bytes, &cuts, || Connection::responses(asked.clone(), LIMITS))?;
    }

    /// Several valid requests on one connection have the combined result of each of them alone.
    #[test]
    fn pipelined_requests_are_those_sent_one_by_one(
        messages in vec(sound(REQUEST_LINES, "Host: a\r\n"), 1..8),
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let together = same_in_any_split(messages.concat().as_bytes(), &cuts, || Connection::requests(LIMITS))?;
        let alone = |message: &String| Connection::requests(LIMITS).read([message.as_bytes()]);
        let alone: Vec<Relayed> = messages.iter().map(alone).collect();
        let refused = |r: &Relayed| !matches!(r.stands, crate::wire::Stands::Head);
        if !alone.iter().any(refused) {
            let mut end = 0;
            let ends: Vec<usize> = messages.iter().map(|m| { end += m.len(); end }).collect();
            prop_assert_eq!(together.ends, ends);
            prop_assert_eq!(together.out, alone.iter().flat_map(|r| r.out.clone()).collect::<Vec<_>>());
        }
    }
}
