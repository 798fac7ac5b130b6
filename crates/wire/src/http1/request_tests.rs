//! Refusal, meaning and forwarding of requests.

use super::*;
use crate::endpoint_head::{Connection, EndpointHead, HeadParts};
use crate::head::Edits;
use crate::http1::chunked::Keep;
use crate::http1::response::{RequestContext, Response};
use crate::http1::{FIELDS_MAX, Limits};

const LIMITS: Limits = Limits { head: 1024, fields: 8 };

/// Reads the head at the start of `message`, and passes it to `look`.
pub(super) fn read<T>(message: &[u8], look: impl FnOnce(&Request<'_, '_>) -> T) -> Result<T, Reject> {
    let mut room = Room::new();
    Request::read(message, &mut room, &LIMITS).map(|request| look(&request.expect("it has a whole head")))
}

/// Reason for which a message, body included, is refused.
pub(super) fn refusal(message: &[u8]) -> Option<Reject> {
    let behind = |at: usize| message[at..].to_vec();
    match read(message, |request| (request.head_len, request.body.clone())) {
        Ok((len, mut body)) => body.advance(&mut behind(len), Keep::Framed).err(),
        Err(reject) => Some(reject),
    }
}

/// Wraps lines after `GET / HTTP/1.1` and `Host: a`.
pub(super) fn get_with(lines: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n").into_bytes()
}

/// Head for an endpoint of a request to which `lines` are added.
pub(super) fn written(request: &Request<'_, '_>, lines: &str, connection: Connection<'_>) -> String {
    let mut edits = Edits::default();
    edits.lines().extend_from_slice(lines.as_bytes());
    if request.host.is_empty() {
        edits.set_host(b"web");
    }
    let connection = if request.upgrade { Connection::of(true, request.body_may_be_overlooked()) } else { connection };
    let head = HeadParts::of(request).edited(&edits, [b"", b""]);
    let added = [&b""[..], edits.added()];
    let mut out = Vec::new();
    EndpointHead { head, added, connection, scheme: "http", length: "", wants_trailers: false }.write(&mut out);
    String::from_utf8(out).expect("the test sends text")
}

/// Head that is forwarded to the endpoint.
pub(super) fn forwarded(message: &[u8]) -> String {
    read(message, |request| written(request, "", Connection::Kept)).expect("the request is good")
}

/// Checks that the lines of a request to `a` are forwarded as `want`.
#[track_caller]
pub(super) fn goes_on(lines: &str, want: &str) {
    let head = format!("GET / HTTP/1.1\r\n{lines}\r\n");
    assert_eq!(forwarded(head.as_bytes()), format!("GET / HTTP/1.1\r\n{want}\r\n"), "{lines:?}");
}

#[test]
fn every_row_is_the_answer_to_some_message() {
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(LIMITS.head));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(LIMITS.fields));
    let named = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {}\r\n\r\n", "x,".repeat(33));
    let chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let rows: &[(Reject, &str)] = &[
        (Reject::BareLf, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        (Reject::Malformed, "GET\r\n\r\n"),
        (Reject::Version, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        (Reject::Target, "GET x HTTP/1.1\r\nHost: a\r\n\r\n"),
        (Reject::Connect, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
        (Reject::HeadTooLarge, &long),
        (Reject::TooManyFields, &many),
        (Reject::Nominated, &named),
        (Reject::HostMissing, "GET / HTTP/1.1\r\n\r\n"),
        (Reject::HostRepeated, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        (Reject::HostMalformed, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        (
            Reject::LengthAndChunked,
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (Reject::LengthRepeated, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"),
        (Reject::LengthMalformed, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n"),
        (Reject::TransferEncoding, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        (Reject::NotChunkedLast, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"),
        (Reject::TransferEncodingIn10, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (Reject::Expectation, "POST / HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 5\r\n\r\n"),
        (Reject::ChunkPadding, &format!("{chunks}5 \r\n")),
        (Reject::Chunk, &format!("{chunks}x\r\n")),
        (Reject::TrailersTooLarge, &format!("{chunks}0\r\nA: {}\r\n\r\n", "a".repeat(20_000))),
        (Reject::Trailer, &format!("{chunks}0\r\nHost: b\r\n\r\n")),
    ];
    for (reject, message) in rows {
        assert_eq!(refusal(message.as_bytes()), Some(*reject), "{message:?}");
    }
    let mut room = Room::new();
    let switch = Response::read(b"HTTP/1.1 101 Switch\r\n\r\n", &mut room, RequestContext::default(), &LIMITS);
    assert_eq!(switch.err(), Some(Reject::SwitchNotAsked));
    // The other reasons are given by their callers.
    let mended = [Reject::Folded, Reject::SameLengthRepeated, Reject::ChunkedRepeated, Reject::Identity];
    let elsewhere = [Reject::SwitchNotAsked, Reject::MaxForwards, Reject::Protocol, Reject::InterimTooMany];
    let shown = |r: &Reject| elsewhere.contains(r) || mended.contains(r) || rows.iter().any(|(row, _)| row == r);
    assert!(Reject::ALL.iter().all(shown), "a row of reject.rs that this test does not know");
}

#[test]
fn a_malformed_request_line_is_refused() {
    for line in [
        " / HTTP/1.1",
        "GET",
        "GET /",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /a b HTTP/1.1",
        "G@T / HTTP/1.1",
        "G(T / HTTP/1.1",
        "G\0T / HTTP/1.1",
        "GÉT / HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET /\x01 HTTP/1.1",
        "GET /\x7f HTTP/1.1",
        "GET /\r HTTP/1.1",
        "GET / HTTP/1.1\rHost: b",
        "GET /\u{b}HTTP/1.1",
    ] {
        let message = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(refusal(message.as_bytes()), Some(Reject::Malformed), "{line:?}");
    }
}

#[test]
fn only_two_versions_are_spoken() {
    let refused = |version: &str| refusal(format!("GET / {version}\r\nHost: a\r\n\r\n").as_bytes());
    for version in ["HTTP/0.9", "HTTP/2.0", "HTTP/3.0", "HTTP/0.1"] {
        assert_eq!(refused(version), Some(Reject::Version), "{version}");
    }
    for version in ["http/1.1", "HTTQ/1.1", "1.1", "HTTP", "HTTP/", "HTTP/x", "HTTP/1.1 HTTP/1.1", "ICY"] {
        assert_eq!(refused(version), Some(Reject::Malformed), "{version}");
    }
    for version in
        ["HTTP/1.10", "HTTP/1.20", "HTTP/01.1", "HTTP/1", "HTTP/1.", "HTTP/2", "HTTP/2.00", "HTTP/11", "HTTP/1,1"]
    {
        assert_eq!(refused(version), Some(Reject::Malformed), "{version}");
    }
    for later in 2..=9 {
        let head = format!("GET / HTTP/1.{later}\r\nHost: a\r\n\r\n");
        assert_eq!(read(head.as_bytes(), |r| (r.version, r.keep_alive)), Ok((Version::V11, true)));
        assert_eq!(forwarded(head.as_bytes()), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(refusal(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Reject::Version));
    assert_eq!(read(b"GET / HTTP/1.0\r\n\r\n", |r| r.version), Ok(Version::V10));
    assert_eq!(read(&get_with("A: b"), |r| r.version), Ok(Version::V11));
}

#[test]
fn targets_are_taken_in_the_forms_that_a_gateway_serves() {
    for (line, target) in [
        ("GET /", "/"),
        ("GET /a?b=/c", "/a?b=/c"),
        ("GET //a", "//a"),
        ("GET /{}|\\^\"<>`", "/{}|\\^\"<>`"),
        ("OPTIONS *", "*"),
        ("GET http://a", "/"),
        ("GET HTTP://A/x?y", "/x?y"),
        ("GET https://a/", "/"),
        ("OPTIONS http://a", "*"),
        ("PROPFIND /", "/"),
        ("get /", "/"),
    ] {
        let message = format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(read(message.as_bytes(), |r| r.target.to_string()), Ok(target.to_string()), "{line}");
    }
    for line in [
        "GET *",
        "OPTIONS **",
        "GET x",
        "GET a:80",
        "GET ?",
        "GET ftp://a/",
        "GET http:/a",
        "GET http://",
        "GET http:///",
        "GET http://?a",
        "GET http://a?b",
        "GET http://u@a/",
        "GET http://a:b/",
        "GET /#",
        "GET http://a/#b",
        "GET /é",
    ] {
        assert_eq!(refusal(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()), Some(Reject::Target), "{line}");
    }
}

/// An endpoint that answers CONNECT with 200 turns the connection into a tunnel, whatever the target was.
#[test]
fn connect_is_refused_with_any_target() {
    for target in ["a:443", "/", "*", "http://a/", "a"] {
        let message = format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(refusal(message.as_bytes()), Some(Reject::Connect), "{target}");
    }
}

#[test]
fn paths_and_queries_are_told_apart() {
    let parts = |target: &str| {
        read(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), |r| {
            (r.path().to_string(), r.query().map(String::from))
        })
    };
    assert_eq!(parts("/a"), Ok(("/a".into(), None)));
    assert_eq!(parts("/a?b?c"), Ok(("/a".into(), Some("b?c".into()))));
    assert_eq!(parts("http://a/b?"), Ok(("/b".into(), Some(String::new()))));
}

#[test]
fn a_malformed_field_is_refused() {
    for line in [
        "A : b",
        "A\t: b",
        " A: b",
        "A: b\r\n c",
        "A: b\r\n\tc",
        ": b",
        "A",
        "A b: c",
        "A\0: b",
        "A\x01: b",
        "A\x7f: b",
        "(A): b",
        "A/B: c",
        "A\"B: c",
        "Ä: b",
        "A: b\0",
        "A: \x01b",
        "A: b\x7f",
        "A: \x08",
        "A: b\rc",
        "A: b\r",
        "A: \rContent-Length: 5",
        "\rA: b",
        "A:\r b",
    ] {
        assert_eq!(refusal(&get_with(line)), Some(Reject::Malformed), "{line:?}");
    }
    for line in ["A: b\nC: d", "A: b\n\r\nC: d", "A:\n"] {
        assert_eq!(refusal(&get_with(line)), Some(Reject::BareLf), "{line:?}");
    }
    // An obs-fold in the first field is a line that begins with a space, like any other.
    assert_eq!(refusal(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"), Some(Reject::Malformed));
}

#[test]
fn fields_of_any_other_kind_go_on_as_they_came() {
    let lines =
        "x-A:b\r\nHoSt: a\r\nEmpty:\r\nSpaced:  \tv \t \r\nx-A:c\r\nBytes: \u{e9}\tx\r\n!#$%&'*+-.^_`|~9: y\r\n";
    goes_on(lines, lines);
    let cookies = "Cookie: a=1; b=\"2\"\r\nHost: a\r\nCookie: c=3\r\n";
    goes_on(cookies, cookies);
}

#[test]
fn the_limits_hold_to_the_byte_and_the_field() {
    let of_len = |len: usize| {
        let fixed = "GET / HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n".len();
        get_with(&format!("A: {}", "b".repeat(len - fixed)))
    };
    assert_eq!(refusal(&of_len(LIMITS.head)), None);
    assert_eq!(refusal(&of_len(LIMITS.head + 1)), Some(Reject::HeadTooLarge));
    let fields = |n: usize| get_with(&vec!["A: b"; n].join("\r\n"));
    assert_eq!(refusal(&fields(LIMITS.fields - 1)), None);
    assert_eq!(refusal(&fields(LIMITS.fields)), Some(Reject::TooManyFields));
}

/// The limit may be set to as many fields as there is room for, and each of them can be dropped.
#[test]
fn as_many_fields_as_there_is_room_for_are_read() {
    let limits = Limits { head: 32 * 1024, fields: 1000 };
    let message = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "TE: a\r\n".repeat(n - 1));
    let mut room = Room::new();
    let full = message(FIELDS_MAX);
    let request = Request::read(full.as_bytes(), &mut room, &limits).unwrap().unwrap();
    assert_eq!(written(&request, "", Connection::Kept), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let over = message(FIELDS_MAX + 1);
    let mut room = Room::new();
    assert_eq!(Request::read(over.as_bytes(), &mut room, &limits).err(), Some(Reject::TooManyFields));
}

#[test]
fn a_host_is_named_once_and_clearly() {
    let host = |value: &str| {
        read(format!("GET / HTTP/1.1\r\nHost:{value}\r\n\r\n").as_bytes(), |r| {
            String::from_utf8_lossy(r.host).into_owned()
        })
    };
    for value in [
        "a",
        "a.example",
        "A.Example:80",
        "a:",
        "a.",
        "a_b",
        "192.0.2.1:80",
        "[::1]",
        "[::1]:80",
        "[2001:DB8::192.0.2.1]:65535",
        "a:0",
        "[fe80::1%25eth0]",
        "%41",
    ] {
        assert_eq!(host(&format!(" {value} ")), Ok(value.to_string()), "{value}");
    }
    let long = "a".repeat(513);
    for value in [
        "a b",
        "a/",
        "a/b",
        "a?b",
        "a#b",
        "u@a",
        "a,b c",
        "a\\b",
        "a:b",
        "a:80:80",
        "a:-1",
        ":80",
        "[::1",
        "::1]",
        "[]",
        "[::1]x",
        "[::1]80",
        "[a/b]",
        "é",
        "a\u{80}",
        "a\tb",
        "a\"b",
        "http://a",
        "<a>",
        "a^b",
        "a:65536",
        "a:000080",
        "[1]",
        "[::1::1]",
        "[v1.a]",
        "[192.0.2.1]",
        "[%25a]",
        "[::1%]",
        "[::1%1]",
        "[::1%25]",
        "[::1%25a:b]",
        &long,
    ] {
        assert_eq!(host(&format!(" {value}")), Err(Reject::HostMalformed), "{value}");
    }
    assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n"), Some(Reject::HostRepeated));
    assert_eq!(refusal(b"GET / HTTP/1.0\r\nHost: a\r\nHost:\r\n\r\n"), Some(Reject::HostRepeated));
    assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost:\r\nHost: a\r\n\r\n"), Some(Reject::HostRepeated));
    assert_eq!(refusal(b"GET / HTTP/1.1\r\nHos: a\r\n\r\n"), Some(Reject::HostMissing));
    assert_eq!(refusal(b"GET http://a/ HTTP/1.1\r\n\r\n"), Some(Reject::HostMissing));
}

#[test]
fn the_host_of_an_absolute_target_wins_over_another_one() {
    let sent = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\nA: b\r\nHost: {host}\r\n\r\n");
    let host = |target: &str, host: &str| {
        let sent = sent(target, host);
        let named = read(sent.as_bytes(), |r| String::from_utf8_lossy(r.host).into_owned()).expect("it is good");
        let goes_on = forwarded(sent.as_bytes());
        assert_eq!(goes_on.matches(&format!("Host: {named}\r\n")).count(), 1, "{goes_on}");
        assert_eq!(goes_on.matches("Host: ").count(), 1, "{goes_on}");
        named
    };
    assert_eq!(host("http://a/", "a"), "a");
    assert_eq!(host("http://A:80/", "a:80"), "a:80", "they differ in case alone");
    for (target, other, named) in [
        ("http://a/", "b", "a"),
        ("http://a/", "a:80", "a"),
        ("http://a:80/", "a", "a:80"),
        ("http://a.b/", "a", "a.b"),
    ] {
        assert_eq!(host(target, other), named, "{target} {other}");
    }
    let refused = |host: &str| refusal(sent("http://a/", host).as_bytes());
    assert_eq!(refused("b c"), Some(Reject::HostMalformed));
    assert_eq!(refused("b\r\nHost: b"), Some(Reject::HostRepeated));
}

/// Such a request used to be forwarded without any host.
#[test]
fn the_host_of_an_absolute_target_goes_on() {
    let want = "GET /x HTTP/1.1\r\nHost: a\r\n";
    assert_eq!(forwarded(b"GET http://a/x HTTP/1.0\r\n\r\n"), format!("{want}\r\n"));
    assert_eq!(forwarded(b"GET http://a/x HTTP/1.0\r\nHost:\r\n\r\n"), format!("{want}\r\n"));
    assert_eq!(forwarded(b"GET http://a/x HTTP/1.1\r\nHost: \r\n\r\n"), format!("{want}\r\n"));
    assert_eq!(forwarded(b"GET http://a/x HTTP/1.1\r\nB: c\r\nHost: a\r\n\r\n"), {
        "GET /x HTTP/1.1\r\nB: c\r\nHost: a\r\n\r\n"
    });
}

#[test]
fn a_request_that_names_no_host_gets_one() {
    let want = "GET / HTTP/1.1\r\nHost: web\r\nB: c\r\n\r\n";
    assert_eq!(forwarded(b"GET / HTTP/1.0\r\nB: c\r\n\r\n"), want);
    assert_eq!(forwarded(b"GET / HTTP/1.0\r\nHost: \r\nB: c\r\n\r\n"), want);
    assert_eq!(forwarded(b"GET / HTTP/1.1\r\nB: c\r\nHost:\r\n\r\n"), want);
    assert_eq!(forwarded(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n"), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn hop_by_hop_fields_do_not_go_on() {
    goes_on(
        "Connection: keep-alive\r\nHost: a\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Connection: close\r\n",
        "Host: a\r\n",
    );
    goes_on("Host: a\r\nUpgrade: websocket\r\n", "Host: a\r\n");
    goes_on("A: b\r\nHost: a\r\nCONNECTION:\r\nC: d\r\n", "A: b\r\nHost: a\r\nC: d\r\n");
    // They are dropped from a request that has no other fields, too.
    assert_eq!(forwarded(b"GET / HTTP/1.0\r\nTE: a\r\nConnection: close\r\n\r\n"), {
        "GET / HTTP/1.1\r\nHost: web\r\n\r\n"
    });
}

#[test]
fn fields_that_connection_names_do_not_go_on() {
    goes_on(
        "Connection: x-a, , close ,X-B\r\nX-A: 1\r\nHost: a\r\nx-b: 2\r\nX-C: 3\r\nX-a: 4\r\n",
        "Host: a\r\nX-C: 3\r\n",
    );
    goes_on("X-A: 1\r\nX-B: 2\r\nConnection: x-a\r\nHost: a\r\nConnection: x-b\r\n", "Host: a\r\n");
    goes_on("Connection: authorization\r\nHost: a\r\nAuthorization: b\r\nX: y\r\n", "Host: a\r\nX: y\r\n");
}

/// Otherwise a client could remove the fields that decide where the message ends, where it goes or who sent it.
#[test]
fn connection_cannot_name_what_the_proxy_answers_for() {
    let lines = "Host: a\r\nContent-Length: 5\r\n";
    goes_on(&format!("Connection: host, content-length, x-forwarded-for, x-forwarded-host\r\n{lines}"), lines);
    let lines = "Host: a\r\nTransfer-Encoding: chunked\r\n";
    goes_on(&format!("{lines}Connection: transfer-encoding\r\n"), lines);
}

#[test]
fn proxies_that_a_request_has_passed_stay_named_and_one_more_is() {
    let lines = "Host: a\r\ncdn-loop: b; n=1\r\nCDN-Loop: c\r\n";
    goes_on(&format!("Connection: cdn-loop\r\n{lines}"), lines);
    assert_eq!(read(&get_with("CDN-Loop: b"), |r| r.has_passed_proxies), Ok(true));
    assert_eq!(read(&get_with("CDN-Loops: b"), |r| r.has_passed_proxies), Ok(false));
    let out = read(&get_with("CDN-Loop: b"), |r| written(r, "CDN-Loop: d\r\n", Connection::Closed)).unwrap();
    assert_eq!(out, "GET / HTTP/1.1\r\nHost: a\r\nCDN-Loop: b\r\nConnection: close\r\nCDN-Loop: d\r\n\r\n");
}

#[test]
fn the_sender_of_a_request_is_written_here_and_only_here() {
    goes_on(
        "X-Forwarded-For: 127.0.0.1\r\nHost: a\r\nx-forwarded-PROTO: https\r\nX-Forwarded-Host: b\r\nX-Forwarded-For: 9\r\n",
        "Host: a\r\n",
    );
}

#[test]
fn a_switch_of_protocols_is_passed_on_if_it_is_whole() {
    goes_on(
        "Host: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        "Host: a\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nConnection: upgrade\r\n",
    );
    let upgrade = |lines: &str| read(&get_with(lines), |r| r.upgrade).unwrap();
    assert!(upgrade("Connection: upgrade\r\nUpgrade: websocket"));
    assert!(upgrade("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0"));
    for lines in [
        "Upgrade: websocket",
        "Connection: upgrade",
        "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 5",
        "Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        "Connection: upgrade\r\nUpgrade: websocket, H2C",
        "Connection: upgrade\r\nUpgrade: h2c/1",
        "Connection: upgrade\r\nUpgrade: h2",
    ] {
        assert!(!upgrade(lines), "{lines:?}");
        let head = forwarded(&get_with(lines)).to_ascii_lowercase();
        assert!(!head.contains("upgrade") && !head.contains("connection") && !head.contains("http2"), "{head}");
    }
    let behind_body = "Connection: upgrade\r\nUpgrade: tcp\r\nContent-Length: 5";
    let post = [b"POST", &get_with(behind_body)[3..]].concat();
    assert!(read(&post, |r| r.upgrade).unwrap(), "the body goes first");
    for protocol in ["websocket", "tcp, WebSocket"] {
        let post = String::from_utf8(post.clone()).expect("text").replace("tcp", protocol);
        assert!(!read(post.as_bytes(), |r| r.upgrade).unwrap(), "{protocol}: never behind a body");
    }
    assert_eq!(read(b"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", |r| r.upgrade), Ok(false));
    // Of two fields, the field that is not HTTP/2 is forwarded.
    goes_on(
        "Host: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\nUpgrade: websocket\r\n",
        "Host: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
    );
}

#[test]
fn names_that_only_underscores_tell_from_ours_do_not_go_on() {
    for name in ["Content_Length", "TRANSFER_ENCODING", "X_Forwarded-For", "x-forwarded_proto", "Keep_Alive"] {
        goes_on(&format!("Host: a\r\n{name}: 5\r\n"), "Host: a\r\n");
    }
    goes_on("Host: a\r\nContent_Type: b\r\nX_Y: c\r\n", "Host: a\r\nContent_Type: b\r\nX_Y: c\r\n");
}

#[test]
fn a_client_keeps_its_connection_if_it_says_so() {
    let keeps = |version: &str, line: &str| {
        read(format!("GET / {version}\r\nHost: a\r\n{line}\r\n\r\n").as_bytes(), |r| r.keep_alive).unwrap()
    };
    for (version, line, want) in [
        ("HTTP/1.1", "A: b", true),
        ("HTTP/1.1", "Connection: keep-alive", true),
        ("HTTP/1.1", "Connection: CLOSE", false),
        ("HTTP/1.1", "Connection: x,close", false),
        ("HTTP/1.1", "Connection: keep-alive\r\nConnection: close", false),
        ("HTTP/1.0", "A: b", false),
        ("HTTP/1.0", "Connection: Keep-Alive", true),
        ("HTTP/1.0", "Connection: keep-alive, close", false),
        ("HTTP/1.1", "Connection: closed", true),
        ("HTTP/1.1", "Proxy-Connection: close", true),
    ] {
        assert_eq!(keeps(version, line), want, "{version} {line}");
    }
}

#[test]
fn empty_lines_before_a_request_do_not_count() {
    assert_eq!(forwarded(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(read(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", |r| r.head_len), Ok(29));
}

#[test]
fn idempotent_methods_are_those_of_the_standard() {
    let idempotent = |method: &str| {
        read(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), |r| r.is_idempotent()).unwrap()
    };
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        assert!(idempotent(method), "{method}");
    }
    for method in ["POST", "PATCH", "get", "LOCK", "PURGE"] {
        assert!(!idempotent(method), "{method}");
    }
}
