//! Behaviour of both sides of a connection by RFC 9113.

use super::frame::{flag, kind, write};
use super::*;
use crate::head::Table;
use proptest::prelude::*;

#[path = "ended_tests.rs"]
mod ended;
#[path = "flood_tests.rs"]
mod floods;

type Fields<'a> = &'a [(&'a str, &'a str)];

const GET: Fields<'static> = &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
const POST: Fields<'static> = &[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

/// Events and error of a side, as text.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Heard {
    events: Vec<String>,
    error: Option<ErrorCode>,
}

fn pairs<'f>(fields: &'f [(&'f str, &'f str)]) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn table(table: &Table) -> String {
    table.iter().map(|(name, value)| format!(" {}={}", name.escape_ascii(), value.escape_ascii())).collect()
}

fn say(event: &Event, bytes: &[u8]) -> String {
    match event {
        Event::Head { stream, head } => format!(
            "{stream} head {}{} {}{} ends={}{}",
            head.method,
            head.status,
            String::from_utf8_lossy(&head.authority),
            head.path,
            head.ends,
            table(&head.fields)
        ),
        Event::Data { stream, range, ends, .. } => {
            format!("{stream} data {} ends={ends}", bytes[range.clone()].escape_ascii())
        }
        Event::Refused(refused) => {
            let Refused { head, why, status } = &**refused;
            format!("refused {} {}: {why}, {status:?}", head.method, head.path)
        }
        Event::Trailers { stream, table: fields } => format!("{stream} trailers{}", table(fields)),
        other => format!("{other:?}"),
    }
}

/// Feeds bytes to a side in pieces, as a driver does: bytes that are not used are passed again.
fn feed(side: &mut Connection, bytes: &[u8], cuts: &mut impl FnMut() -> usize) -> Heard {
    let (mut heard, mut held, mut at) = (Heard::default(), Vec::new(), 0);
    while at < bytes.len() {
        let next = (at + cuts().max(1)).min(bytes.len());
        held.extend_from_slice(&bytes[at..next]);
        at = next;
        loop {
            match side.receive(&held, 0) {
                Err(error) => {
                    heard.error = Some(error.code);
                    return heard;
                }
                Ok(Received { used: 0, event: None }) => break,
                Ok(Received { used, event }) => {
                    if let Some(event) = event {
                        heard.events.push(say(&event, &held));
                        if let Event::Data { stream, flow, .. } = event {
                            side.consumed(stream, flow as usize);
                        }
                    }
                    held.drain(..used);
                }
            }
        }
    }
    heard
}

fn all(side: &mut Connection, bytes: &[u8]) -> Heard {
    feed(side, bytes, &mut || usize::MAX / 2)
}

/// Frames in the output of a side: type, stream, and the first four bytes of the payload as a number.
fn written(side: &mut Connection) -> Vec<(u8, StreamId, u32)> {
    let out = std::mem::take(side.output());
    let mut bytes = out.strip_prefix(PREFACE).unwrap_or(&out);
    let mut frames = Vec::new();
    while let Some(front) = frame::Front::read(bytes) {
        let payload = &bytes[frame::LEN..frame::LEN + front.len];
        frames.push((front.kind, front.stream, frame::number(payload).unwrap_or(0)));
        bytes = &bytes[frame::LEN + front.len..];
    }
    frames
}

/// A server that a client has connected to. The client's first bytes are consumed.
fn server() -> Connection {
    server_with(Config::default())
}

fn server_with(config: Config) -> Connection {
    let mut server = Connection::server(config, 0);
    let mut bytes = PREFACE.to_vec();
    write(kind::SETTINGS, 0, 0, &[], &mut bytes);
    write(kind::SETTINGS, flag::ACK, 0, &[], &mut bytes);
    assert_eq!(all(&mut server, &bytes).error, None);
    server.output().clear();
    server
}

fn block(fields: Fields<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    // Without references to a table, so that each block stands alone.
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

fn headers(stream: StreamId, fields: Fields<'_>, ends: bool) -> Vec<u8> {
    let mut out = Vec::new();
    write(kind::HEADERS, flag::END_HEADERS | u8::from(ends), stream, &block(fields), &mut out);
    out
}

fn frame(kind: u8, flags: u8, stream: StreamId, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write(kind, flags, stream, payload, &mut out);
    out
}

#[test]
fn a_request_and_its_response_pass() {
    let (mut client, mut server) = (Connection::client(Config::default(), 0), Connection::server(Config::default(), 0));
    let id = client.open(pairs(POST), false).expect("it may");
    client.send_data(id, b"hello", false);
    client.send_trailers(id, pairs(&[("x-sum", "5")]));
    let bytes = std::mem::take(client.output());
    let heard = all(&mut server, &bytes);
    let requests: Vec<&str> = heard.events.iter().map(String::as_str).filter(|e| e.starts_with('1')).collect();
    assert_eq!(requests, ["1 head POST0 a/ ends=false", "1 data hello ends=false", "1 trailers x-sum=5"]);
    server.send_head(1, pairs(&[(":status", "103"), ("link", "x")]), false);
    server.send_head(1, pairs(&[(":status", "200"), ("X-Upper", "x")]), false);
    server.send_data(1, b"world", true);
    let bytes = std::mem::take(server.output());
    let heard = all(&mut client, &bytes);
    let responses: Vec<&str> = heard.events.iter().map(String::as_str).filter(|e| e.starts_with('1')).collect();
    let expected = ["1 head 103  ends=false link=x", "1 head 200  ends=false x-upper=x", "1 data world ends=true"];
    assert_eq!((responses, heard.error), (expected.to_vec(), None));
    assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
}

#[test]
fn each_way_to_break_the_rules_of_heads_costs_its_stream() {
    let long = "x".repeat(100);
    let base = |more: (&'static str, &'static str)| [GET, &[more]].concat();
    let rows: Vec<Vec<(&str, &str)>> = vec![
        base(("X-Upper", "1")),
        base(("", "1")),
        base(("a b", "1")),
        base(("a:b", "1")),
        base((":unknown", "1")),
        base((":status", "200")),
        base((":path", "/")),
        base((":method", "GET")),
        base((":scheme", "http")),
        base((":authority", "a")),
        base((":protocol", "websocket")),
        base(("connection", "close")),
        base(("keep-alive", "1")),
        base(("proxy-connection", "close")),
        base(("transfer-encoding", "chunked")),
        base(("upgrade", "h2c")),
        base(("te", "gzip")),
        base(("te", "trailers, gzip")),
        base(("host", "b")),
        base(("x", "1\r\nb: 2")),
        base(("x", "1\0")),
        base(("x", "1\n")),
        base(("x", "1\x7f")),
        base(("content-length", "")),
        base(("content-length", "+1")),
        base(("content-length", "1, 1")),
        base(("content-length", "5")),
        base(("content-length", "99999999999999999999")),
        [GET, &[("content-length", "0"), ("content-length", "0")]].concat(),
        [GET, &[("content-length", "0"), ("content-length", "1")]].concat(),
        [GET, &[("host", "a"), ("host", "a")]].concat(),
        [GET, &[("x", "1"), (":path", "/")]].concat(),
        GET[1..].to_vec(),
        [&GET[..1], &GET[2..]].concat(),
        [&GET[..2], &GET[3..]].concat(),
        vec![(":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "x"), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "*"), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/ x"), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/#x"), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "ftp"), (":path", "/"), (":authority", "a")],
        vec![(":method", "G T"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a/b")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "u@a")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a b")],
        vec![(":method", "CONNECT"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
        vec![(":method", "CONNECT")],
        vec![(":method", "CONNECT"), (":protocol", "websocket"), (":authority", "a")],
        vec![(":method", ""), (":scheme", "http"), (":path", "/"), (":authority", "a")],
    ];
    for fields in rows {
        let mut server = server();
        let heard = all(&mut server, &headers(1, &fields, true));
        assert!(heard.error.is_none() && heard.events.len() == 1, "{fields:?} {heard:?}");
        assert!(heard.events[0].starts_with("refused "), "{fields:?} {heard:?}");
        assert_eq!(written(&mut server), [(kind::RST_STREAM, 1, ErrorCode::ProtocolError as u32)], "{fields:?}");
        // The connection still works.
        assert_eq!(all(&mut server, &headers(3, GET, true)).events.len(), 1);
    }
    for fields in [
        base(("te", "trailers")),
        base(("host", "A")),
        base(("x", "")),
        base(("content-length", "0")),
        vec![(":method", "GET"), (":scheme", "https"), (":path", "/"), ("host", "a:1")],
        vec![(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), (":authority", "[::1]:1")],
        vec![(":method", "CONNECT"), (":authority", "a:1")],
        [&[(":method", "CONNECT"), (":protocol", "websocket")], &GET[1..]].concat(),
        base(("x", &*Box::leak(long.into_boxed_str()))),
    ] {
        let heard = all(&mut server(), &headers(1, &fields, true));
        assert_eq!((heard.events.len(), heard.error), (1, None), "{fields:?}");
    }
}

#[test]
fn cookies_are_one_field_and_host_is_none() {
    let fields = [&GET[..3], &[("cookie", "a=1"), ("x", "y"), ("host", "h"), ("cookie", "b=2")]].concat();
    let heard = all(&mut server(), &headers(1, &fields, true));
    assert_eq!(heard.events, ["1 head GET0 h/ ends=true x=y cookie=a=1; b=2"]);
}

#[test]
fn each_way_to_break_the_rules_of_frames_ends_the_connection() {
    use ErrorCode::*;
    let open = headers(1, POST, false);
    let rows: Vec<(Vec<u8>, ErrorCode)> = vec![
        (frame(kind::DATA, 0, 0, b"x"), ProtocolError),
        (frame(kind::DATA, 0, 1, b"x"), ProtocolError),
        ([open.clone(), frame(kind::DATA, flag::PADDED, 1, &[9, 1])].concat(), ProtocolError),
        ([open.clone(), frame(kind::DATA, flag::PADDED, 1, &[])].concat(), FrameSizeError),
        (frame(kind::HEADERS, flag::END_HEADERS, 0, &block(GET)), ProtocolError),
        (frame(kind::HEADERS, flag::END_HEADERS, 2, &block(GET)), ProtocolError),
        (frame(kind::HEADERS, flag::END_HEADERS | flag::PADDED, 1, &[200, 0x82]), ProtocolError),
        (frame(kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 1, &[0, 0]), FrameSizeError),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x80]), CompressionError),
        ([headers(5, GET, true), headers(3, GET, true)].concat(), ProtocolError),
        ([frame(kind::HEADERS, 0, 1, &block(GET)), frame(kind::PING, 0, 0, &[0; 8])].concat(), ProtocolError),
        ([frame(kind::HEADERS, 0, 1, &block(GET)), frame(kind::CONTINUATION, 4, 3, &[])].concat(), ProtocolError),
        (frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]), ProtocolError),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), ProtocolError),
        (frame(kind::RST_STREAM, 0, 0, &[0; 4]), ProtocolError),
        (frame(kind::RST_STREAM, 0, 1, &[0; 4]), ProtocolError),
        ([open.clone(), frame(kind::RST_STREAM, 0, 1, &[0; 3])].concat(), FrameSizeError),
        (frame(kind::SETTINGS, 0, 1, &[]), ProtocolError),
        (frame(kind::SETTINGS, 0, 0, &[0; 5]), FrameSizeError),
        (frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), FrameSizeError),
        (frame(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]), ProtocolError),
        (frame(kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]), FlowControlError),
        (frame(kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]), ProtocolError),
        (frame(kind::SETTINGS, 0, 0, &[0, 8, 0, 0, 0, 2]), ProtocolError),
        (frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0; 4]), ProtocolError),
        (frame(kind::PING, 0, 1, &[0; 8]), ProtocolError),
        (frame(kind::PING, 0, 0, &[0; 7]), FrameSizeError),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), ProtocolError),
        (frame(kind::GOAWAY, 0, 0, &[0; 7]), FrameSizeError),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), ProtocolError),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]), FlowControlError),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), ProtocolError),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), FrameSizeError),
        (frame(99, 0, 0, &[0; 16_385]), FrameSizeError),
        (frame(kind::SETTINGS, 0, 0, &[0, 4, 0x7f, 255, 255, 255]), NoError),
    ];
    for (bytes, code) in rows {
        let mut server = server();
        let heard = all(&mut server, &bytes);
        let expected = (code != NoError).then_some(code);
        assert_eq!(heard.error, expected, "{bytes:?}");
        if expected.is_some() {
            let frames = written(&mut server);
            assert_eq!(frames.last().map(|(kind, ..)| *kind), Some(kind::GOAWAY), "{bytes:?}");
        }
    }
}

#[test]
fn what_comes_for_a_stream_that_has_ended_depends_on_how_it_did() {
    use ErrorCode::*;
    let data = frame(kind::DATA, 0, 1, b"x");
    // Both sides have ended it.
    let mut done = server();
    all(&mut done, &headers(1, GET, true));
    done.send_head(1, pairs(&[(":status", "204")]), true);
    assert_eq!(all(&mut done, &data).error, Some(StreamClosed));
    // Only the client has ended its side.
    let mut half = server();
    all(&mut half, &headers(1, GET, true));
    let heard = all(&mut half, &data);
    assert_eq!((heard.error, heard.events.len()), (None, 1), "the stream is reset");
    assert!(written(&mut half).contains(&(kind::RST_STREAM, 1, StreamClosed as u32)));
    // The client has reset it.
    let mut reset = server();
    all(&mut reset, &[headers(1, POST, false), frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8])].concat());
    assert_eq!(all(&mut reset, &data).error, None);
    assert!(written(&mut reset).contains(&(kind::RST_STREAM, 1, StreamClosed as u32)));
    // This side has reset it, and the client does not know yet.
    let mut here = server();
    all(&mut here, &headers(1, POST, false));
    here.reset(1, Cancel);
    let late = [data, headers(1, &[("x", "y")], true), frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])].concat();
    assert_eq!(all(&mut here, &late), Heard::default());
    assert_eq!(all(&mut here, &headers(3, GET, true)).events.len(), 1, "fields of the lost ones were decoded");
}

#[test]
fn a_body_is_as_long_as_it_says() {
    for (length, sent, is_well) in [("5", "12345", true), ("5", "1234", false), ("5", "123456", false), ("0", "", true)]
    {
        let mut server = server();
        let fields = [POST, &[("content-length", length)]].concat();
        let heard = all(&mut server, &[headers(1, &fields, false), frame(kind::DATA, 1, 1, sent.as_bytes())].concat());
        let is_reset = heard.events.iter().any(|event| event.starts_with("Reset"));
        assert_eq!((is_reset, heard.error), (!is_well, None), "{length} {sent}");
    }
}

#[test]
fn windows_bound_what_either_side_sends() {
    let config = Config { stream_window: 100_000, connection_window: 200_000, ..Config::default() };
    let mut server = server_with(config);
    all(&mut server, &headers(1, POST, false));
    let mut sent = 0;
    let mut error = None;
    // Nothing is consumed.
    for _ in 0..20 {
        let bytes = frame(kind::DATA, 0, 1, &[b'x'; 16_000]);
        let mut rest = &bytes[..];
        while !rest.is_empty() && error.is_none() {
            match server.receive(rest, 0) {
                Err(failed) => error = Some(failed.code),
                Ok(Received { used, event }) => {
                    if let Some(Event::Data { flow, .. }) = event {
                        sent += flow;
                    }
                    rest = &rest[used..];
                }
            }
        }
    }
    assert!(sent <= 100_000, "{sent}");
    assert_eq!(error, Some(ErrorCode::FlowControlError), "the window of the connection is full, too");
    // The window for data of this side.
    let mut server = server_with(config);
    all(&mut server, &headers(1, GET, true));
    server.send_head(1, pairs(&[(":status", "200")]), false);
    let mut total = 0;
    while server.capacity(1) > 0 {
        let n = server.capacity(1);
        total += n;
        server.send_data(1, &vec![0; n], false);
    }
    assert_eq!(total, 65_535);
    all(&mut server, &frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 9]));
    assert_eq!(server.capacity(1), 0, "that of the connection is full");
    all(&mut server, &frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 5]));
    assert_eq!(server.capacity(1), 5);
    all(&mut server, &frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    assert_eq!(server.capacity(1), 0, "a window can be below nothing");
}

#[test]
fn blanks_around_a_value_are_dropped() {
    let fields =
        [GET, &[("x", " a\t"), ("y", " "), ("cookie", "a=1 "), ("cookie", " b=2"), ("content-length", " 0")]].concat();
    let heard = all(&mut server(), &headers(1, &fields, true));
    assert_eq!(heard.events, ["1 head GET0 a/ ends=true x=a y= content-length=0 cookie=a=1; b=2"]);
    let mut client = Connection::client(Config::default(), 0);
    all(&mut client, &frame(kind::SETTINGS, 0, 0, &[]));
    client.open(pairs(GET), true).expect("it may");
    let bytes = [headers(1, &[(":status", "200"), ("x", "a ")], false), headers(1, &[("grpc-message", " b")], true)];
    let heard = all(&mut client, &bytes.concat());
    assert_eq!(heard.events, ["1 head 200  ends=false x=a", "1 trailers grpc-message=b"]);
}

#[test]
fn the_reason_of_a_refusal_names_the_field() {
    let rows = [
        (("x-a", "1\0"), "a value has a control character (field \"x-a\")"),
        (("X-A", "1"), "a field name is not a lowercase token (field \"X-A\")"),
        (("te", "gzip"), "TE is not \"trailers\" (field \"te\")"),
    ];
    for (field, why) in rows {
        let heard = all(&mut server(), &headers(1, &[GET, &[field]].concat(), true));
        assert_eq!(heard.events, [format!("refused GET /: {why}, None")]);
        let mut client = Connection::client(Config::default(), 0);
        all(&mut client, &frame(kind::SETTINGS, 0, 0, &[]));
        client.open(pairs(GET), true).expect("it may");
        let heard = all(&mut client, &headers(1, &[&[(":status", "200")], &[field][..]].concat(), true));
        assert!(heard.events[0].contains(&format!("{:?}", field.0)), "{heard:?}");
    }
}

#[test]
fn a_large_head_is_answered_and_the_connection_goes_on() {
    let mut server = server();
    let names: Vec<String> = (0..200).map(|i| format!("x-{i}")).collect();
    let fields: Vec<(&str, &str)> = GET.iter().copied().chain(names.iter().map(|name| (&**name, "1"))).collect();
    let heard = all(&mut server, &headers(1, &fields, true));
    assert_eq!(heard.events, ["refused GET /: the head has too many fields, Some(431)"]);
    assert_eq!(written(&mut server).first().map(|(kind, stream, _)| (*kind, *stream)), Some((kind::HEADERS, 1)));
    assert_eq!(all(&mut server, &headers(3, GET, true)).events.len(), 1);
}

#[test]
fn a_server_that_goes_takes_what_has_begun() {
    let mut server = server();
    all(&mut server, &headers(1, POST, false));
    server.go_away_soon();
    assert_eq!(all(&mut server, &headers(3, GET, true)).events.len(), 1, "the client could not know");
    server.go_away(ErrorCode::NoError);
    assert_eq!(all(&mut server, &headers(5, GET, true)), Heard::default());
    assert_eq!(all(&mut server, &frame(kind::DATA, 1, 1, b"x")).events, ["1 data x ends=true"]);
    let away: Vec<u32> =
        written(&mut server).iter().filter(|(kind, ..)| *kind == kind::GOAWAY).map(|(.., last)| *last).collect();
    assert_eq!(away, [MAX, 3]);
    let mut client = Connection::client(Config::default(), 0);
    assert_eq!([(); 3].map(|()| client.open(pairs(GET), true)), [Ok(1), Ok(3), Ok(5)]);
    let mut bytes = frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 3]);
    bytes.extend(frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]));
    let heard = all(&mut client, &bytes);
    assert_eq!(heard.events.last().map(String::as_str), Some("GoAway { last: 3, code: 0 }"));
    assert_eq!((client.open_streams(), client.open(pairs(GET), true)), (2, Err(NoStream::Ending)));
}

#[test]
fn a_client_begins_no_more_than_the_server_takes() {
    let mut client = Connection::client(Config::default(), 0);
    all(&mut client, &frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]));
    assert_eq!([(); 2].map(|()| client.open(pairs(GET), true)), [Ok(1), Err(NoStream::Full)]);
    let heard = all(&mut client, &headers(1, &[(":status", "200")], true));
    assert_eq!((heard.error, client.open(pairs(GET), true)), (None, Ok(3)));
    // More streams than a server allows are refused there.
    let mut server = server_with(Config { max_streams: 1, ..Config::default() });
    all(&mut server, &[headers(1, POST, false), headers(3, GET, true)].concat());
    assert!(written(&mut server).contains(&(kind::RST_STREAM, 3, ErrorCode::RefusedStream as u32)));
}

#[test]
fn a_head_that_is_larger_than_a_frame_passes_in_several() {
    let (mut client, mut server) = (Connection::client(Config::default(), 0), Connection::server(Config::default(), 0));
    let value = "~".repeat(15_000);
    let names: Vec<String> = (0..2).map(|i| format!("x-{i}")).collect();
    let fields: Vec<(&str, &str)> = GET.iter().copied().chain(names.iter().map(|name| (&**name, &*value))).collect();
    client.open(pairs(&fields), true).expect("it may");
    let bytes = std::mem::take(client.output());
    let mut server_large = Connection::server(Config { max_header_list: 40_000, ..Config::default() }, 0);
    assert!(all(&mut server_large, &bytes).events.iter().any(|event| event.starts_with("1 head GET")));
    assert!(all(&mut server, &bytes).events.iter().all(|event| !event.starts_with('1')), "over the limit");
}

proptest! {
    #[test]
    fn it_does_not_matter_how_bytes_fall_into_reads(
        bodies in prop::collection::vec((0usize..3000, any::<bool>(), any::<bool>()), 1..6),
        cuts in prop::collection::vec(1usize..700, 1..20),
    ) {
        let mut client = Connection::client(Config::default(), 0);
        for (len, trailers, padded) in &bodies {
            let id = client.open(pairs(POST), false).expect("it may");
            if *padded {
                let payload = [&[7u8][..], &vec![b'p'; *len], &[0; 7]].concat();
                client.output().extend(frame(kind::DATA, flag::PADDED | u8::from(!*trailers), id, &payload));
            } else {
                client.send_data(id, &vec![b'd'; *len], !*trailers);
            }
            if *trailers {
                client.output().extend(headers(id, &[("x-t", "1")], true));
            }
        }
        let bytes = std::mem::take(client.output());
        let whole = all(&mut Connection::server(Config::default(), 0), &bytes);
        prop_assert_eq!(whole.error, None);
        let mut cut = cuts.into_iter().cycle();
        let pieces = feed(&mut Connection::server(Config::default(), 0), &bytes, &mut || cut.next().unwrap_or(1));
        // Data arrives in other pieces; joined, it is the same.
        prop_assert_eq!(joined(&whole), joined(&pieces));
    }

    #[test]
    fn any_bytes_are_taken_or_refused(frames in prop::collection::vec((0u8..11, any::<u8>(), 0u32..6, prop::collection::vec(any::<u8>(), 0..30)), 0..30)) {
        for mut side in [server(), Connection::client(Config::default(), 0)] {
            let bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload)).collect();
            all(&mut side, &bytes);
            prop_assert!(side.output().len() < 4096);
        }
    }
}

/// Returns the events, with adjacent data of a stream joined.
fn joined(heard: &Heard) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for event in &heard.events {
        let before = joined.last_mut().filter(|before| before.ends_with("ends=false") && before.contains(" data "));
        let data = event.split_once(" data ").filter(|_| event.contains(" data "));
        match (before, data) {
            (Some(before), Some((stream, rest))) if before.split(' ').next() == Some(stream) => {
                let front = before.trim_end_matches(" ends=false").to_string();
                *before = format!("{front}{rest}").replace(" ends", "~ends").replacen("~ends", " ends", 1);
            }
            _ => joined.push(event.clone()),
        }
    }
    joined
}
