//! Behaviour of both sides of a connection by RFC 9114.

use super::frame::{Front, kind};
use super::qpack::Encoder;
use super::*;
use crate::head::Table;
use proptest::prelude::*;

#[path = "control_tests.rs"]
mod control_streams;

type Fields<'a> = &'a [(&'a str, &'a str)];

const GET: Fields<'static> = &[(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
const POST: Fields<'static> =
    &[(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a"), ("content-length", "3")];
const OK: Fields<'static> = &[(":status", "200")];

/// Events and error of a stream, as text.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Heard {
    events: Vec<String>,
    error: Option<ErrorCode>,
}

impl Heard {
    fn of(events: &[&str]) -> Heard {
        Heard { events: events.iter().map(|event| event.to_string()).collect(), error: None }
    }

    fn failed(events: &[&str], code: ErrorCode) -> Heard {
        Heard { error: Some(code), ..Heard::of(events) }
    }
}

fn pairs<'f>(fields: Fields<'f>) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn table(table: &Table) -> String {
    table.iter().map(|(name, value)| format!(" {}={}", name.escape_ascii(), value.escape_ascii())).collect()
}

fn say(event: &Event, bytes: &[u8]) -> String {
    match event {
        Event::Head(head) => format!(
            "head {}{} {}{}{}{}",
            head.method,
            if head.status > 0 { head.status.to_string() } else { String::new() },
            String::from_utf8_lossy(&head.authority),
            head.path,
            table(&head.fields),
            if head.ends { " ends" } else { "" }
        ),
        Event::Data { range, ends } => {
            format!("data {}{}", bytes[range.clone()].escape_ascii(), if *ends { " ends" } else { "" })
        }
        Event::Trailers(fields) => format!("trailers{}", table(fields)),
        Event::Reset { code, broken } => format!("reset {code:?}: {broken}"),
        Event::Refused(refused) => {
            let Refused { head, why, status } = &**refused;
            format!("refused {} {}: {why}, {status:?}", head.method, head.path)
        }
        other => format!("{other:?}"),
    }
}

/// Feeds a whole stream to a side in pieces, as a driver does.
fn feed(
    bytes: &[u8],
    cuts: &mut impl FnMut() -> usize,
    end_apart: bool,
    mut receive: impl FnMut(&[u8], bool) -> Result<Received, ConnectionError>,
) -> Heard {
    let mut heard = Heard::default();
    let mut at = 0;
    loop {
        let next = (at + cuts().max(1)).min(bytes.len());
        let ends = next == bytes.len() && !(end_apart && next > at);
        let mut part = &bytes[at..next];
        loop {
            match receive(part, ends) {
                Err(error) => {
                    heard.error = Some(error.code);
                    return heard;
                }
                Ok(Received { used, event }) => {
                    let is_event = event.is_some();
                    if let Some(event) = event {
                        heard.events.push(say(&event, part));
                    }
                    part = &part[used..];
                    if !is_event {
                        assert!(part.is_empty(), "bytes without an event are consumed");
                        break;
                    }
                }
            }
        }
        at = next;
        if ends {
            return heard;
        }
    }
}

fn whole() -> impl FnMut() -> usize {
    || usize::MAX / 2
}

/// Events of a request's stream, whole.
fn request(bytes: &[u8]) -> Heard {
    let (mut side, mut stream) = (server(), MessageStream::request(0));
    feed(bytes, &mut whole(), false, |bytes, ends| side.receive(&mut stream, bytes, ends, 0))
}

/// Events of a response's stream, whole.
fn response(asked: Fields<'_>, bytes: &[u8]) -> Heard {
    let mut side = Connection::client(Config::default(), 0);
    let mut stream = MessageStream::response(pairs(asked), 0);
    feed(bytes, &mut whole(), false, |bytes, ends| side.receive(&mut stream, bytes, ends, 0))
}

fn server() -> Connection {
    Connection::server(Config::default(), 0)
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Front { kind, len: payload.len() as u64 }.write(&mut out);
    out.extend_from_slice(payload);
    out
}

fn head(fields: Fields<'_>) -> Vec<u8> {
    let mut block = Vec::new();
    // Names in upper case, too.
    block.extend([0, 0]);
    for (name, value) in fields {
        if name.bytes().any(|b| b.is_ascii_uppercase()) {
            assert!(name.len() < 7 && value.len() < 127);
            block.push(0x20 | name.len() as u8);
            block.extend(name.bytes());
            block.push(value.len() as u8);
            block.extend(value.bytes());
        } else {
            let mut one = Vec::new();
            Encoder::default().encode(pairs(&[(name, value)]), &mut one);
            block.extend_from_slice(&one[2..]);
        }
    }
    frame(kind::HEADERS, &block)
}

fn data(bytes: &str) -> Vec<u8> {
    frame(kind::DATA, bytes.as_bytes())
}

fn with<'a>(fields: Fields<'a>, more: Fields<'a>) -> Vec<(&'a str, &'a str)> {
    [fields, more].concat()
}

#[test]
fn a_request_is_read_with_its_body_and_trailers() {
    assert_eq!(request(&head(GET)), Heard::of(&["head GET a/ ends"]));
    let bytes = [head(POST), data("ab"), frame(0x21, b"grease"), data("c"), head(&[("x-sum", "1")])].concat();
    let heard = ["head POST a/ content-length=3", "data ab", "data c", "trailers x-sum=1"];
    assert_eq!(request(&bytes), Heard::of(&heard));
    // The end may come behind a frame that says nothing.
    let bytes = [head(GET), frame(0x21 + 0x1f * 9, b"")].concat();
    assert_eq!(request(&bytes), Heard::of(&["head GET a/", "data  ends"]));
    let bytes = [head(POST), data("abc")].concat();
    assert_eq!(request(&bytes), Heard::of(&["head POST a/ content-length=3", "data abc ends"]));
}

#[test]
fn an_end_of_its_own_is_reported_once() {
    let (mut side, mut stream) = (server(), MessageStream::request(0));
    let bytes = head(GET);
    let first = side.receive(&mut stream, &bytes, false, 0).unwrap();
    assert_eq!(say(&first.event.unwrap(), &bytes), "head GET a/");
    let last = side.receive(&mut stream, &[], true, 0).unwrap();
    assert_eq!((say(&last.event.unwrap(), &[]), stream.is_over()), ("data  ends".into(), true));
    assert!(side.receive(&mut stream, &[], true, 0).unwrap().event.is_none());
}

#[test]
fn a_head_that_has_begun_is_noticed() {
    let (mut side, mut stream) = (server(), MessageStream::request(0));
    let bytes = [head(GET), data("a"), head(&[("x-sum", "1")])].concat();
    let first = head(GET).len();
    let second = first + data("a").len();
    for (at, byte) in bytes.chunks(1).enumerate() {
        side.receive(&mut stream, byte, false, 0).unwrap();
        // A front is two bytes long here.
        let is_within = (1..first - 1).contains(&at) || (second + 1..bytes.len() - 1).contains(&at);
        assert_eq!(stream.is_within_head(), is_within, "{at}");
    }
}

#[test]
fn trailers_are_passed_on_with_the_end_only() {
    let (mut side, mut stream) = (server(), MessageStream::request(0));
    let bytes = [head(GET), head(&[("x-sum", "1")])].concat();
    let used = side.receive(&mut stream, &bytes, false, 0).unwrap().used;
    let rest = side.receive(&mut stream, &bytes[used..], false, 0).unwrap();
    assert!(rest.event.is_none() && rest.used == bytes.len() - used);
    side.on_reset(&mut stream, 0).unwrap();
    assert!(side.receive(&mut stream, &[], true, 0).unwrap().event.is_none());
}

#[test]
fn malformed_requests_are_refused() {
    for (fields, why) in [
        (with(GET, &[("X-a", "1")]), "a field name is not a lowercase token (field \"X-a\")"),
        (with(GET, &[("connection", "close")]), "a connection-specific field of HTTP/1 (field \"connection\")"),
        (
            with(GET, &[("transfer-encoding", "chunked")]),
            "a connection-specific field of HTTP/1 (field \"transfer-encoding\")",
        ),
        (with(GET, &[("te", "gzip")]), "TE is not \"trailers\" (field \"te\")"),
        (with(GET, &[(":path", "/2")]), "a pseudo-header field is repeated or empty (field \":path\")"),
        (with(GET, &[("a", "1"), (":late", "1")]), "a pseudo-header field follows a regular one (field \":late\")"),
        (with(GET, &[(":status", "200")]), "a pseudo-header field is unknown or not allowed here (field \":status\")"),
        (with(GET, &[("host", "b")]), "Host differs from :authority"),
        (with(GET, &[("a", "1\r\nb: 2")]), "a value has a control character (field \"a\")"),
        (GET[1..].to_vec(), ":method is missing"),
        (with(&GET[..1], &GET[2..]), ":scheme or :path is missing"),
        (GET[..3].to_vec(), ":authority and Host are missing"),
        (with(&GET[..3], &[("host", "")]), ":authority and Host are missing"),
        (with(&[(":method", "CONNECT")], &GET[1..]), "CONNECT has more than :authority"),
        (with(GET, &[(":protocol", "websocket")]), ":protocol is not allowed here"),
        (with(GET, &[("content-length", "1, 1")]), "Content-Length is not a number (field \"content-length\")"),
        // The stream ends with the head.
        (with(GET, &[("content-length", "1")]), "the body length differs from Content-Length"),
    ] {
        let heard = request(&head(&fields));
        let [event] = &heard.events[..] else { panic!("{heard:?}") };
        assert!(event.starts_with("refused ") && event.ends_with(&format!(": {why}, None")), "{event}, {why}");
        assert_eq!(heard.error, None);
    }
    // `Host` does for `:authority`.
    let heard = request(&head(&with(&GET[..3], &[("host", "b")])));
    assert_eq!(heard, Heard::of(&["head GET b/ ends"]));
}

#[test]
fn messages_that_turn_out_to_be_malformed_are_reset() {
    let begun = "head POST a/ content-length=3";
    let lost = "reset MessageError: the body length differs from Content-Length";
    assert_eq!(request(&[head(POST), data("abcd")].concat()), Heard::of(&[begun, lost]));
    assert_eq!(request(&[head(POST), data("ab")].concat()), Heard::of(&[begun, lost]));
    assert_eq!(request(&[head(POST), data("ab"), data("cd")].concat()), Heard::of(&[begun, "data ab", lost]));
    assert_eq!(request(&[head(POST), head(&[("a", "1")])].concat()), Heard::of(&[begun, lost]));
    assert_eq!(request(&head(POST)).events.len(), 1);
    let bytes = [head(GET), head(&[(":path", "/")])].concat();
    let why = "reset MessageError: a pseudo-header field is unknown or not allowed here (field \":path\")";
    assert_eq!(request(&bytes), Heard::of(&["head GET a/", why]));
    let why = "reset RequestIncomplete: a stream ends without a request";
    assert_eq!(request(&[]), Heard::of(&[why]));
    assert_eq!(request(&frame(0x21, b"")), Heard::of(&[why]));
}

#[test]
fn frames_in_the_wrong_place_end_the_connection() {
    let unexpected = |events: &[&str]| Heard::failed(events, ErrorCode::FrameUnexpected);
    assert_eq!(request(&data("a")), unexpected(&[]));
    let begun = "head GET a/";
    for kind in [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf_0700, 0xf_0701] {
        assert_eq!(request(&[head(GET), frame(kind, &[0])].concat()), unexpected(&[begun]), "{kind:x}");
    }
    for late in [head(&[("b", "1")]), data("a")] {
        assert_eq!(request(&[head(GET), head(&[("a", "1")]), late].concat()), unexpected(&[begun]));
    }
    let connect = head(&[(":method", "CONNECT"), (":authority", "a:1")]);
    let bytes = [connect, data("x"), head(&[("a", "1")])].concat();
    assert_eq!(request(&bytes), unexpected(&["head CONNECT a:1", "data x"]));
    let pushed = [head(OK), frame(kind::PUSH_PROMISE, &[0, 0, 0])].concat();
    assert_eq!(response(GET, &pushed), Heard::failed(&["head 200 "], ErrorCode::IdError));
}

#[test]
fn a_stream_that_ends_inside_a_frame_ends_the_connection() {
    let bytes = [head(GET), data("abc")].concat();
    let start = head(GET).len();
    for cut in (1..start).chain(start + 1..bytes.len()) {
        assert_eq!(request(&bytes[..cut]).error, Some(ErrorCode::FrameError), "{cut}");
    }
}

#[test]
fn a_block_that_cannot_be_decoded_ends_the_connection() {
    for block in [&[][..], &[0, 0, 0x80], &[1, 0, 0xd1], &[0, 0, 0x51]] {
        let failed = Heard::failed(&[], ErrorCode::QpackDecompressionFailed);
        assert_eq!(request(&frame(kind::HEADERS, block)), failed, "{block:x?}");
    }
}

#[test]
fn responses_have_the_bodies_that_their_requests_allow() {
    let length = with(OK, &[("content-length", "3")]);
    let begun = "head 200  content-length=3";
    let head_only = [(":method", "HEAD")];
    assert_eq!(response(GET, &[head(&length), data("abc")].concat()), Heard::of(&[begun, "data abc ends"]));
    assert_eq!(response(&head_only, &head(&length)), Heard::of(&["head 200  content-length=3 ends"]));
    let lost = "reset MessageError: the body length differs from Content-Length";
    assert_eq!(response(GET, &head(&length)), Heard::of(&[lost]));
    assert_eq!(response(&head_only, &[head(&length), data("a")].concat()), Heard::of(&[begun, lost]));
    // Interim heads, and a stream that ends behind them.
    let interim = head(&[(":status", "103"), ("link", "x")]);
    let bytes = [interim.clone(), head(OK), data("a")].concat();
    assert_eq!(response(GET, &bytes), Heard::of(&["head 103  link=x", "head 200 ", "data a ends"]));
    let heard = response(GET, &[interim, frame(0x21, b"")].concat());
    assert_eq!(heard.events[1], "reset MessageError: a stream ends without a final response");
    assert_eq!(response(GET, &data("a")).error, Some(ErrorCode::FrameUnexpected));
    assert_eq!(response(GET, &head(&[(":status", "101")])).events.len(), 1);
    let tunnel = [head(&length), data("abcdef")].concat();
    assert_eq!(response(&[(":method", "CONNECT")], &tunnel), Heard::of(&[begun, "data abcdef ends"]));
}

#[test]
fn a_head_over_the_limit_is_refused_with_a_431_and_the_rest_is_discarded() {
    let config = Config { max_header_list: 100, max_fields: 10, ..Config::default() };
    let long = "v".repeat(80);
    let longest = "v".repeat(10_000);
    let many = [("a", "1"); 10];
    for (more, why) in [
        (&[("x", &*long)][..], "the head is over the size limit"),
        (&[("x", &*longest)], "the head is over the size limit"),
        (&many, "the head has too many fields"),
    ] {
        let bytes = [head(&with(GET, more)), data("abc"), frame(kind::SETTINGS, b"x")].concat();
        for cut in [usize::MAX / 2, 1, 7] {
            let (mut side, mut stream) = (Connection::server(config, 0), MessageStream::request(0));
            let heard = feed(&bytes, &mut || cut, false, |bytes, ends| side.receive(&mut stream, bytes, ends, 0));
            assert_eq!(heard, Heard::of(&[&format!("refused GET /: {why}, Some(431)")]));
            assert!(stream.is_over());
        }
    }
    let mut client = Connection::client(config, 0);
    let mut stream = MessageStream::response(pairs(GET), 0);
    let bytes = head(&with(OK, &[("x", &longest)]));
    let heard = feed(&bytes, &mut whole(), false, |bytes, ends| client.receive(&mut stream, bytes, ends, 0));
    assert_eq!(heard, Heard::of(&["reset ExcessiveLoad: the head is over the size limit"]));
}

#[test]
fn what_is_written_is_read() {
    let (mut server, mut client) = (server(), Connection::client(Config::default(), 0));
    let mut stream = MessageStream::request(0);
    let mut bytes = Vec::new();
    client.write_head(pairs(POST), &mut bytes);
    client.write_data_front(3, &mut bytes);
    bytes.extend(b"abc");
    let heard = feed(&bytes, &mut whole(), false, |bytes, ends| server.receive(&mut stream, bytes, ends, 0));
    assert_eq!(heard, Heard::of(&["head POST a/ content-length=3", "data abc ends"]));
    // A head whose length needs four bytes.
    let long = "v".repeat(30_000);
    let config = Config { max_header_list: 100_000, ..Config::default() };
    let (mut client, mut stream) = (Connection::client(config, 0), MessageStream::response(pairs(GET), 0));
    let mut bytes = Vec::new();
    server.write_head(pairs(&[(":status", "200"), ("x", &long)]), &mut bytes);
    let heard = feed(&bytes, &mut whole(), false, |bytes, ends| client.receive(&mut stream, bytes, ends, 0));
    assert_eq!(heard.events, [format!("head 200  x={long} ends")]);
}

#[test]
fn requests_are_admitted_up_to_the_last_go_away() {
    let mut side = server();
    side.control().clear();
    assert_eq!((side.admit(0), side.admit(8)), (Ok(true), Ok(true)));
    side.go_away_soon();
    assert_eq!(side.control()[..], frame(kind::GOAWAY, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]));
    assert_eq!((side.admit(12), side.admit(4)), (Ok(true), Ok(true)));
    side.control().clear();
    side.go_away();
    assert_eq!(side.control()[..], frame(kind::GOAWAY, &[16]));
    assert_eq!((side.admit(16), side.admit(12)), (Ok(false), Ok(true)));
    let error = Connection::client(Config::default(), 0).admit(1).unwrap_err();
    assert_eq!(error.code, ErrorCode::StreamCreationError);
}

#[test]
fn a_client_that_resets_too_many_young_requests_may_begin_no_more() {
    let mut side = server();
    for n in 0..1000 {
        assert_eq!(side.admit(4 * n), Ok(true));
        side.on_reset(&mut MessageStream::request(0), 0).unwrap();
        // A second reset, or an old stream, costs nothing.
        side.on_reset(&mut MessageStream::request(0), 1 << 40).unwrap();
    }
    side.control().clear();
    assert_eq!(side.take_flooded(), None);
    side.on_reset(&mut MessageStream::request(0), 0).unwrap();
    assert_eq!((side.take_flooded(), side.take_flooded()), (Some(Flood::Resets), None));
    assert_eq!(side.control()[..], frame(kind::GOAWAY, &[0x40 | 0xf, 0xa0]));
    assert_eq!(side.admit(4000), Ok(false));
}

#[test]
fn useless_frames_are_bounded() {
    let mut bytes = head(GET);
    bytes.extend(frame(0x21, b"").repeat(1001));
    assert_eq!(request(&bytes).error, Some(ErrorCode::ExcessiveLoad));
    let mut bytes = head(GET);
    bytes.extend(data("").repeat(201));
    assert_eq!(request(&bytes).error, Some(ErrorCode::ExcessiveLoad));
}

/// A stream of frames, right and wrong.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        4 => Just(head(GET)),
        2 => Just(head(POST)),
        4 => Just(head(OK)),
        2 => Just(head(&[(":status", "103")])),
        2 => Just(head(&[("x-sum", "1")])),
        1 => Just(head(&[(":method", "CONNECT"), (":authority", "a:1")])),
        1 => Just(head(&with(GET, &[("Up", "1")]))),
        1 => Just(head(&[("x", &*"v".repeat(300))])),
        4 => "[a-c]{0,4}".prop_map(|text| data(&text)),
        1 => (0u64..0x30, prop::collection::vec(any::<u8>(), 0..4)).prop_map(|(kind, bytes)| frame(kind, &bytes)),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(one, 0..6).prop_map(|frames| frames.concat())
}

/// Joins the data of consecutive events: its parts depend on the cuts, and so does the event that has the end. If the
/// end comes with a head or data that it contradicts, these are not passed on.
fn joined(heard: Heard) -> Heard {
    let mut events: Vec<String> = Vec::new();
    for event in heard.events {
        if event.contains("the body length differs") {
            return Heard::of(&["the body length differs"]);
        }
        if event.contains("an interim response ends") {
            events.extend(["head 103 ".into(), "reset MessageError: a stream ends without a final response".into()]);
            continue;
        }
        let event = if let Some(head) = event.strip_suffix(" ends").filter(|head| head.starts_with("head")) {
            events.push(head.to_string());
            "data  ends".to_string()
        } else {
            event
        };
        match (events.last_mut(), event.strip_prefix("data ")) {
            (Some(last), Some(more)) if last.starts_with("data ") => last.push_str(more),
            _ => events.push(event),
        }
    }
    Heard { events, error: heard.error }
}

proptest! {
    #[test]
    fn it_does_not_matter_how_bytes_fall_into_reads(
        bytes in frames(), cuts in prop::collection::vec(1usize..9, 1..20), end_apart: bool, is_server: bool
    ) {
        let config = Config { max_header_list: 200, max_fields: 8, ..Config::default() };
        let hear = |cuts: &mut dyn FnMut() -> usize, end_apart| {
            let mut side = if is_server { Connection::server(config, 0) } else { Connection::client(config, 0) };
            let mut stream = if is_server { MessageStream::request(0) } else { MessageStream::response(pairs(GET), 0) };
            joined(feed(&bytes, &mut &mut *cuts, end_apart, |bytes, ends| side.receive(&mut stream, bytes, ends, 0)))
        };
        let expected = hear(&mut whole(), false);
        let mut cuts = cuts.iter().cycle();
        prop_assert_eq!(hear(&mut || *cuts.next().unwrap(), end_apart), expected);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        request(&bytes);
        response(GET, &bytes);
    }
}
