//! Violations of RFC 9114 and RFC 9204 by a client: each closes the connection, or resets the stream, with its code.

use super::before;
use crate::support::h3_client::{
    CANCEL_PUSH, CONTROL, DATA, Exchange, GOAWAY, H3Client, HEADERS, MAX_PUSH_ID, PRIORITY_UPDATE, PUSH_PROMISE,
    SETTINGS, block, frame, id_frame, request, varint,
};
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_wire::h3::ErrorCode::{self, *};

/// Types of unidirectional streams.
const PUSH: u64 = 1;
const ENCODER: u64 = 2;
const DECODER: u64 = 3;

fn get() -> Vec<u8> {
    frame(HEADERS, block(&request("GET", "/")))
}

fn settings(pairs: &[(u64, u64)]) -> Vec<u8> {
    let mut payload = Vec::new();
    pairs.iter().for_each(|(id, value)| {
        varint(*id, &mut payload);
        varint(*value, &mut payload);
    });
    frame(SETTINGS, payload)
}

/// Bytes with which a client breaks the rules.
enum Sent {
    /// On unidirectional streams of these types, and the last of them ends if `ends`.
    Uni(Vec<(u64, Vec<u8>)>, bool),
    /// On the stream of a request, which ends if `ends`.
    Request(Vec<u8>, bool),
}

fn control(bytes: Vec<u8>) -> Sent {
    Sent::Uni(vec![(CONTROL, bytes)], false)
}

fn after_settings(bytes: Vec<u8>) -> Sent {
    control([settings(&[]), bytes].concat())
}

fn open(bytes: &[&[u8]]) -> Sent {
    Sent::Request(bytes.concat(), false)
}

fn whole(bytes: &[&[u8]]) -> Sent {
    Sent::Request(bytes.concat(), true)
}

/// Rows: name, bytes, code.
fn violations() -> Vec<(&'static str, Sent, ErrorCode)> {
    let critical = |kind: u64, bytes: &[u8]| Sent::Uni(vec![(CONTROL, settings(&[])), (kind, bytes.to_vec())], false);
    let mut rows = vec![
        ("control: DATA first", control(frame(DATA, "x")), MissingSettings),
        ("control: GOAWAY first", control(id_frame(GOAWAY, 0)), MissingSettings),
        ("control: an unknown frame first", control(frame(0x21, "")), MissingSettings),
        ("control: SETTINGS twice", after_settings(settings(&[])), FrameUnexpected),
        ("control: DATA", after_settings(frame(DATA, "x")), FrameUnexpected),
        ("control: HEADERS", after_settings(get()), FrameUnexpected),
        ("control: PUSH_PROMISE", after_settings(id_frame(PUSH_PROMISE, 0)), FrameUnexpected),
        ("settings: repeated", control(settings(&[(6, 1), (6, 1)])), SettingsError),
        ("settings: neither 0 nor 1", control(settings(&[(8, 2)])), SettingsError),
        ("settings: datagram neither 0 nor 1", control(settings(&[(0x33, 2)])), SettingsError),
        ("settings: cut", control(frame(SETTINGS, [6])), FrameError),
        ("settings: cut number", control(frame(SETTINGS, [6, 0x40])), FrameError),
        ("control: GOAWAY without an id", after_settings(frame(GOAWAY, "")), FrameError),
        ("control: GOAWAY with a cut id", after_settings(frame(GOAWAY, [0x40])), FrameError),
        ("control: GOAWAY with more", after_settings(frame(GOAWAY, [0, 0])), FrameError),
        ("control: GOAWAY too long", after_settings(frame(GOAWAY, [0; 9])), FrameError),
        ("control: MAX_PUSH_ID with more", after_settings(frame(MAX_PUSH_ID, [0, 0])), FrameError),
        ("control: CANCEL_PUSH with more", after_settings(frame(CANCEL_PUSH, [0, 0])), FrameError),
        ("control: GOAWAY grows", after_settings([id_frame(GOAWAY, 0), id_frame(GOAWAY, 4)].concat()), IdError),
        (
            "control: MAX_PUSH_ID shrinks",
            after_settings([id_frame(MAX_PUSH_ID, 4), id_frame(MAX_PUSH_ID, 3)].concat()),
            IdError,
        ),
        ("control: CANCEL_PUSH", after_settings(id_frame(CANCEL_PUSH, 0)), IdError),
        ("control: priority of no request", after_settings(frame(PRIORITY_UPDATE, [2, b'u', b'=', b'1'])), IdError),
        ("control: ends", Sent::Uni(vec![(CONTROL, settings(&[]))], true), ClosedCriticalStream),
        (
            "QPACK encoder stream ends",
            Sent::Uni(vec![(CONTROL, settings(&[])), (ENCODER, vec![])], true),
            ClosedCriticalStream,
        ),
        (
            "QPACK decoder stream ends",
            Sent::Uni(vec![(CONTROL, settings(&[])), (DECODER, vec![])], true),
            ClosedCriticalStream,
        ),
        ("a second control stream", critical(CONTROL, &settings(&[])), StreamCreationError),
        (
            "a second encoder stream",
            Sent::Uni(vec![(CONTROL, settings(&[])), (ENCODER, vec![]), (ENCODER, vec![])], false),
            StreamCreationError,
        ),
        (
            "a second decoder stream",
            Sent::Uni(vec![(CONTROL, settings(&[])), (DECODER, vec![]), (DECODER, vec![])], false),
            StreamCreationError,
        ),
        ("a push of the client", critical(PUSH, &[0]), StreamCreationError),
        ("QPACK: capacity above 0", critical(ENCODER, &[0x3f, 0x01]), QpackEncoderStreamError),
        ("QPACK: insert by name of the static table", critical(ENCODER, &[0xc1, 1, b'x']), QpackEncoderStreamError),
        ("QPACK: insert a literal", critical(ENCODER, &[0x41, b'x', 1, b'y']), QpackEncoderStreamError),
        ("QPACK: duplicate", critical(ENCODER, &[0x00]), QpackEncoderStreamError),
        ("QPACK: acknowledges a section", critical(DECODER, &[0x80]), QpackDecoderStreamError),
        ("QPACK: increments by 0", critical(DECODER, &[0x00]), QpackDecoderStreamError),
        ("QPACK: increments", critical(DECODER, &[0x01]), QpackDecoderStreamError),
        ("QPACK: needs entries", open(&[&frame(HEADERS, [1, 0, 0xc1])]), QpackDecompressionFailed),
        ("QPACK: negative base", open(&[&frame(HEADERS, [0, 0x80, 0xc1])]), QpackDecompressionFailed),
        ("QPACK: entry of the dynamic table", open(&[&frame(HEADERS, [0, 0, 0x80])]), QpackDecompressionFailed),
        ("QPACK: name of the dynamic table", open(&[&frame(HEADERS, [0, 0, 0x40, 0])]), QpackDecompressionFailed),
        ("QPACK: entry behind the base", open(&[&frame(HEADERS, [0, 0, 0x10])]), QpackDecompressionFailed),
        ("QPACK: static entry 99", open(&[&frame(HEADERS, [0, 0, 0xff, 36])]), QpackDecompressionFailed),
        ("QPACK: cut string", open(&[&frame(HEADERS, [0, 0, 0x51, 5, b'x'])]), QpackDecompressionFailed),
        ("QPACK: empty block", open(&[&frame(HEADERS, "")]), QpackDecompressionFailed),
        ("QPACK: bad Huffman code", open(&[&frame(HEADERS, [0, 0, 0x51, 0x81, 0])]), QpackDecompressionFailed),
        ("request: DATA first", open(&[&frame(DATA, "x")]), FrameUnexpected),
        (
            "request: DATA after trailers",
            open(&[&get(), &frame(DATA, "x"), &frame(HEADERS, block(&[("a", "b")])), &frame(DATA, "x")]),
            FrameUnexpected,
        ),
        (
            "request: HEADERS after trailers",
            open(&[
                &get(),
                &frame(DATA, "x"),
                &frame(HEADERS, block(&[("a", "b")])),
                &frame(HEADERS, block(&[("a", "b")])),
            ]),
            FrameUnexpected,
        ),
        ("request: cut head", whole(&[&get()[..10]]), FrameError),
        ("request: cut length", whole(&[&get(), &[0, 0x40]]), FrameError),
        ("request: cut data", whole(&[&get(), &frame(DATA, "xy")[..3]]), FrameError),
    ];
    for (name, kind) in [
        ("request: SETTINGS", SETTINGS),
        ("request: CANCEL_PUSH", CANCEL_PUSH),
        ("request: PUSH_PROMISE", PUSH_PROMISE),
        ("request: GOAWAY", GOAWAY),
        ("request: MAX_PUSH_ID", MAX_PUSH_ID),
        ("request: PRIORITY_UPDATE", PRIORITY_UPDATE),
    ] {
        rows.push((name, open(&[&id_frame(kind, 0)]), FrameUnexpected));
        rows.push((name, open(&[&get(), &id_frame(kind, 0)]), FrameUnexpected));
    }
    for (name, kind) in [("PRIORITY", 2), ("PING", 6), ("WINDOW_UPDATE", 8), ("CONTINUATION", 9)] {
        rows.push((name, open(&[&frame(kind, "xxxx")]), FrameUnexpected));
        rows.push((name, after_settings(frame(kind, "xxxx")), FrameUnexpected));
    }
    for id in [0, 2, 3, 4, 5] {
        rows.push(("settings: a setting of HTTP/2", control(settings(&[(id, 1)])), SettingsError));
    }
    rows
}

/// Asserts that the proxy serves other clients.
async fn is_well(proxy: &Proxy) {
    assert_eq!(H3Client::connect(proxy.addr()).await.get("/").await.status(), 200);
}

#[tokio::test]
async fn each_violation_closes_the_connection_with_its_code() {
    let endpoint = Endpoint::start(|conn| {
        while conn.request_if_whole().is_some() {
            conn.send(crate::support::endpoint::ok("hello"));
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut wrong = Vec::new();
    let mut counts = [0; ErrorCode::NAMES.len()];
    for (name, sent, expected) in violations() {
        let client = H3Client::silent(proxy.addr()).await;
        let mut streams = Vec::new();
        let mut exchange: Option<Exchange> = None;
        match sent {
            Sent::Uni(all, ends) => {
                for (kind, bytes) in all {
                    streams.push(client.uni(kind, bytes).await);
                }
                if ends {
                    let _ = streams.last_mut().expect("a stream").finish();
                }
            }
            Sent::Request(bytes, ends) => {
                streams.push(client.uni(CONTROL, settings(&[])).await);
                let begun = exchange.insert(client.open(bytes).await);
                if ends {
                    let _ = begun.send.finish();
                }
            }
        }
        let code = tokio::time::timeout(std::time::Duration::from_secs(5), client.quic.closed()).await;
        let code = code.ok().and_then(|why| crate::support::h3_client::code(&why));
        if code != Some(expected as u64) {
            wrong.push(format!("{name}: {code:x?} instead of {expected:?}"));
        }
        counts[ErrorCode::index(expected as u64).expect("a known code")] += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (index, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let name = ErrorCode::NAMES[index];
        wait_until(name, || proxy.listener(|l| l.http3.errors[index].get()) == count);
    }
    is_well(&proxy).await;
}

#[tokio::test]
async fn malformed_requests_are_reset_and_the_connection_stays() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let with = |more: &[(&'static str, &'static str)]| -> Vec<(&'static str, &'static str)> {
        request("GET", "/").into_iter().chain(more.iter().copied()).collect()
    };
    let without = |name: &str| -> Vec<(&'static str, &'static str)> {
        request("GET", "/").into_iter().filter(|(n, _)| *n != name).collect()
    };
    let rows: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("no method", without(":method")),
        ("no scheme", without(":scheme")),
        ("no path", without(":path")),
        ("no authority", without(":authority")),
        ("two methods", with(&[(":method", "GET")])),
        ("an unknown pseudo field", with(&[(":x", "y")])),
        ("a pseudo field of responses", with(&[(":status", "200")])),
        ("a pseudo field behind others", with(&[("a", "b"), (":path", "/")])),
        ("an upper-case name", with(&[("X-A", "b")])),
        ("connection", with(&[("connection", "close")])),
        ("keep-alive", with(&[("keep-alive", "1")])),
        ("proxy-connection", with(&[("proxy-connection", "close")])),
        ("transfer-encoding", with(&[("transfer-encoding", "chunked")])),
        ("upgrade", with(&[("upgrade", "websocket")])),
        ("te", with(&[("te", "gzip")])),
        ("a line end in a value", with(&[("a", "b\r\nc: d")])),
        ("a zero in a value", with(&[("a", "b\0")])),
        ("a space in a name", with(&[("a b", "c")])),
        ("an empty name", with(&[("", "c")])),
        ("another host", with(&[("host", "b")])),
        ("a length without a body", with(&[("content-length", "5")])),
        ("no number as length", with(&[("content-length", "x")])),
        ("two lengths", with(&[("content-length", "0"), ("content-length", "1")])),
    ];
    let mut wrong = Vec::new();
    for (name, fields) in &rows {
        let answer = client.ask(fields).await;
        if (answer.status(), answer.reset) != (0, Some(MessageError as u64)) {
            wrong.push(format!("{name}: {answer:?}"));
        }
        // Requests that succeed pay for those that are wasted.
        assert_eq!(client.get("/").await.body_text(), "hello", "after {name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let sent = ErrorCode::index(MessageError as u64).expect("a known code");
    wait_until("all are counted", || proxy.listener(|l| l.http3.resets_sent[sent].get()) == rows.len() as u64);
    assert_eq!(endpoint.seen().len(), rows.len(), "none of them reached the endpoint");
}

#[tokio::test]
async fn bodies_that_differ_from_their_length_are_reset() {
    let endpoint = Endpoint::start(|conn| while conn.request_if_whole().is_some() {});
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let head = [&request("POST", "/")[..], &[("content-length", "5")]].concat();
    for (body, ends) in [("1234", true), ("123456", false)] {
        let mut exchange = client.begin(&head).await;
        exchange.data(body).await;
        if ends {
            let _ = exchange.send.finish();
        }
        let answer = exchange.answer().await;
        assert!(answer.reset == Some(MessageError as u64) || answer.status() == 400, "{body}: {answer:?}");
    }
    let mut exchange = client.open("").await;
    let _ = exchange.send.finish();
    assert_eq!(exchange.answer().await.reset, Some(RequestIncomplete as u64));
    assert_eq!(endpoint.seen().len(), 0);
    wait_until("nothing is under way", || proxy.in_flight() == 0);
}

#[tokio::test]
async fn unknown_streams_frames_and_settings_are_ignored() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::silent(proxy.addr()).await;
    let mut held = vec![client.uni(CONTROL, [settings(&[(0x21, 7), (0x4a4a, 1)]), frame(0x21, "xx")].concat()).await];
    held.push(client.uni(ENCODER, [0x20]).await);
    held.push(client.uni(DECODER, [0x40]).await);
    let unknown = client.uni(0x21, "whatever").await;
    let stopped = crate::support::h3_client::soon(unknown.stopped()).await.expect("a stop");
    assert_eq!(stopped.map(|code| code.into_inner()), Some(StreamCreationError as u64));
    let mut exchange = client.open([frame(0x21, "xx"), get(), frame(0x5f, ""), frame(DATA, "body")].concat()).await;
    let _ = exchange.send.finish();
    assert_eq!(exchange.answer().await.body_text(), "hello");
    assert_eq!(endpoint.seen()[0].body_text(), "body");
}

#[tokio::test]
async fn a_client_that_stops_the_control_stream_of_the_proxy_is_closed() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let mut control = crate::support::h3_client::soon(client.quic.accept_uni()).await.expect("a control stream");
    control.stop(0u8.into()).expect("it is open");
    assert_eq!(client.closed().await, Some(ClosedCriticalStream as u64));
}
