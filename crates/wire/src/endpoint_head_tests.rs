//! Heads for endpoints, as lines and as fields, from heads of either protocol.

use super::*;
use crate::head::Table;
use crate::http1::{Limits, Version};

fn head<'a>(parts: HeadParts<'a>, added: [&'a [u8]; 2]) -> EndpointHead<'a> {
    let connection = Connection::Kept;
    EndpointHead { head: parts, added, connection, scheme: "http", length: "", wants_trailers: false }
}

fn written(head: &EndpointHead<'_>) -> String {
    let mut out = Vec::new();
    head.write(&mut out);
    String::from_utf8(out).expect("the tests send text")
}

fn shown(head: &EndpointHead<'_>) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    head.fields().map(|(name, value)| format!("{}={}", text(name), text(value))).collect()
}

#[test]
fn a_request_becomes_fields_without_what_is_for_its_connection() {
    let mut fields: Table = [
        (&b"Host"[..], &b"a"[..]),
        (b"X-A", b"1"),
        (b"TE", b"gzip;q=1, Trailers"),
        (b"Connection", b"x-a"),
        (b"Content-Length", b"5"),
        (b"X-Forwarded-For", b"9.9.9.9"),
        (b"Expect", b"100-Continue"),
        (b"Cookie", b"a=1"),
    ]
    .into_iter()
    .collect();
    let mut request = Request { method: "PUT", target: "/p?q", host: b"a", fields: fields.fields() };
    let mut edits = Edits::default();
    suit_http2(&mut request, &mut edits).expect("nothing is wrong with it");
    edits.add("X-Request-Id", b"7");
    let wants_trailers = wants_trailers(&request);
    let parts = HeadParts::decoded(&request, Stated::Nothing);
    let of_try = b"traceparent: 00\r\n";
    let one = EndpointHead { length: "5", wants_trailers, ..head(parts, [of_try, edits.added()]) };
    assert_eq!(
        shown(&one),
        [
            ":method=PUT",
            ":scheme=http",
            ":authority=a",
            ":path=/p?q",
            "X-A=1",
            "Cookie=a=1",
            "te=trailers",
            "content-length=5",
            "traceparent=00",
            "Expect=100-continue",
            "X-Request-Id=7",
        ]
    );
    let tunnel = Connection::Tunnel(Switch { protocol: "websocket", fields: b"" });
    let parts = HeadParts { host: b"", ..parts };
    let shown = shown(&EndpointHead { connection: tunnel, scheme: "https", ..head(parts, [b"", b""]) });
    assert_eq!(shown[..4], [":method=CONNECT", ":protocol=websocket", ":scheme=https", ":path=/p?q"]);
    let mut odd: Table = [(&b"expect"[..], &b"more"[..])].into_iter().collect();
    let mut request = Request { fields: odd.fields(), ..request };
    assert_eq!(suit_http2(&mut request, &mut edits), Err(Reject::Expectation));
}

#[test]
fn a_decoded_request_becomes_lines_or_is_refused_for_what_lines_cannot_say() {
    let suits = |method: &str, target: &str, host: &str, name: &str, value: &[u8]| {
        let mut fields: Table = [(name.as_bytes(), value), (b"te", b"trailers")].into_iter().collect();
        let mut request = Request { method, target, host: host.as_bytes(), fields: fields.fields() };
        let mut edits = Edits::default();
        suit_http1(&mut request, &mut edits, true)?;
        Ok(written(&head(HeadParts::decoded(&request, Stated::Chunked), [b"", edits.added()])))
    };
    assert_eq!(
        suits("GET", "/p", "a", "x-a", b"1"),
        Ok("GET /p HTTP/1.1\r\nHost: a\r\nx-a: 1\r\nTransfer-Encoding: chunked\r\n\r\n".to_string())
    );
    for (method, target, host, name, value, why) in [
        ("G T", "/", "a", "b", &b"c"[..], Reject::Malformed),
        ("GET", "/ x", "a", "b", b"c", Reject::Target),
        ("GET", "http://a/", "a", "b", b"c", Reject::Target),
        ("GET", "/", "a b", "b", b"c", Reject::HostMalformed),
        ("GET", "/", "a", "b:", b"c", Reject::Malformed),
        ("GET", "/", "a", "b", b"c\r\nd: e", Reject::Malformed),
        ("GET", "/", "a", "expect", b"more", Reject::Expectation),
        ("CONNECT", "/", "a", "b", b"c", Reject::Connect),
    ] {
        assert_eq!(suits(method, target, host, name, value), Err(why), "{method} {target} {host} {name}");
    }
}

#[test]
fn a_kept_head_is_written_as_the_one_that_came() {
    for first in ["GET /p?q HTTP/1.1", "GET http://a HTTP/1.1", "OPTIONS http://a HTTP/1.1", "GET http://b/p HTTP/1.1"]
    {
        let came = format!("{first}\r\nHost: a\r\nConnection: close\r\nX-A:  1\r\n\r\n");
        let mut room = Room::new();
        let request = http1::Request::read(came.as_bytes(), &mut room, &Limits::default()).unwrap().unwrap();
        assert_eq!(request.version, Version::V11);
        let (before, places) = (written(&head(HeadParts::of(&request), [b"", b"A: b\r\n"])), Places::of(&request));
        let kept = KeptHead::new(came.clone().into_bytes(), room, places);
        assert_eq!(written(&head(kept.parts(), [b"", b"A: b\r\n"])), before);
        let mut edits = Edits::default();
        edits.set_host(b"other");
        edits.set_target("/other");
        let of_try = written(&head(kept.parts().edited(&edits, [b"own", b"/v2/other"]), [b"", b""]));
        assert!(of_try.contains(" /v2/other HTTP/1.1\r\nHost: own\r\n"), "{of_try}");
        let edited = written(&head(kept.parts().edited(&edits, [b"", b""]), [b"", b""]));
        assert!(edited.contains(" /other HTTP/1.1\r\nHost: other\r\n"), "{edited}");
    }
}

/// A target as long as that in the line would otherwise be taken for it.
#[test]
fn a_replaced_target_is_written_whatever_its_length() {
    for target in ["/P%2f", "/p", "/a/longer/path?q"] {
        let came = b"GET /p%2f HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut room = Room::new();
        let mut request = http1::Request::read(came, &mut room, &Limits::default()).unwrap().unwrap();
        request.head.target = target;
        let wanted = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(written(&head(HeadParts::of(&request), [b"", b""])), wanted);
        let places = Places::of(&request);
        let mut kept = KeptHead::new(came.to_vec(), room, places);
        assert_eq!(written(&head(kept.parts(), [b"", b""])), wanted);
        assert_eq!(kept.request().target, target);
        kept.set_target("/other?q".into());
        assert_eq!(written(&head(kept.parts(), [b"", b""])), "GET /other?q HTTP/1.1\r\nHost: a\r\n\r\n");
    }
}

#[test]
fn a_head_that_was_not_read_is_a_request_without_a_body() {
    let fields = [(&b"X-A"[..], &b"1"[..]), (b"Range", b"bytes=0-1")];
    let mut kept = KeptHead::of("GET", "/a?b", b"host:1", fields.into_iter());
    {
        let request = kept.request();
        assert_eq!((request.method, request.target, request.host), ("GET", "/a?b", &b"host:1"[..]));
        assert_eq!(request.field("range"), Some(&b"bytes=0-1"[..]));
    }
    let want = "GET /a?b HTTP/1.1\r\nHost: host:1\r\nX-A: 1\r\nRange: bytes=0-1\r\n\r\n";
    assert_eq!(written(&head(kept.parts(), [b"", b""])), want);
    kept.set_target("/c".into());
    assert!(written(&head(kept.parts(), [b"", b""])).starts_with("GET /c HTTP/1.1\r\nHost: host:1\r\nX-A: 1\r\n"));
}
