//! Refusal, framing and forwarding of responses.

use super::*;
use crate::http1::chunked::Chunked;

const LIMITS: Limits = Limits { head: 1024, fields: 8 };
const GET: RequestContext = RequestContext { head: false, upgrade: false };
const HEAD: RequestContext = RequestContext { head: true, upgrade: false };
const UPGRADE: RequestContext = RequestContext { head: false, upgrade: true };
const KEPT: Towards = Towards { version: Version::V11, keep_alive: true };
const CLOSED: Towards = Towards { version: Version::V11, keep_alive: false };
const OLD_KEPT: Towards = Towards { version: Version::V10, keep_alive: true };
const OLD: Towards = Towards { version: Version::V10, keep_alive: false };

fn read<T>(message: &str, asked: RequestContext, look: impl FnOnce(&Response<'_, '_>) -> T) -> Result<T, Reject> {
    let mut room = Room::new();
    let response = Response::read(message.as_bytes(), &mut room, asked, &LIMITS)?;
    Ok(look(&response.expect("a test's message has a whole head")))
}

fn body(message: &str, asked: RequestContext) -> Result<Body, Reject> {
    read(message, asked, |r| r.body.clone())
}

/// Returns the head for the client, either rewritten or sent as it came.
fn back(message: &str, asked: RequestContext, towards: Towards) -> String {
    let write = |response: &Response<'_, '_>| {
        if let Some(stretch) = response.all_but(towards) {
            let mut head = message.to_string();
            head.replace_range(stretch, "");
            return head;
        }
        let mut out = Vec::new();
        response.write(towards, b"", &mut out);
        String::from_utf8(out).expect("the test sends text")
    };
    read(message, asked, write).expect("the response is good")
}

#[test]
fn a_malformed_head_is_refused() {
    for head in [
        "HTTP/1.1 \r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 20x OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 000 OK\r\n\r\n",
        "HTTP/1.1 -20 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        " HTTP/1.1 200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\n\r\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 O\rK\r\n\r\n",
        "HTTP/1.1 200 O\x7fK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n",
    ] {
        assert_eq!(body(head, GET), Err(Reject::Malformed), "{head:?}");
    }
    for head in ["HTTP/1.1 200 OK\n\n", "HTTP/1.1 200 OK\r\nA: b\n\r\n", "\n\r\n"] {
        assert_eq!(body(head, GET), Err(Reject::BareLf), "{head:?}");
    }
    for line in
        ["HTTP/2.0 200 OK", "HTTP/1.20 200 OK", "HTTP/01.1 200 OK", "HTTP/0.9 200 OK", "HTTP/1.1", "HTTP/1.1\t200 OK"]
    {
        assert_eq!(body(&format!("{line}\r\n\r\n"), GET), Err(Reject::Version), "{line:?}");
    }
    for line in ["ICY 200 OK", "GET / HTTP/1.1", "\x15\x03\x01 ", "ssh", ":", "H"] {
        let refused = body(&format!("{line}\r\n\r\n"), GET);
        assert!(matches!(refused, Err(Reject::Version | Reject::Malformed)), "{line:?}: {refused:?}");
    }
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(LIMITS.fields + 1));
    assert_eq!(body(&many, GET), Err(Reject::TooManyFields));
    let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(LIMITS.head));
    assert_eq!(body(&long, GET), Err(Reject::HeadTooLarge));
}

/// RFC 9112 section 6.3.
#[test]
fn the_length_of_a_body_is_known_or_the_response_is_refused() {
    let chunked = || Body::Chunked(Chunked::default());
    for (status, lines, asked, want) in [
        (200, "Content-Length: 5\r\n", GET, Body::Length(5)),
        (200, "Content-Length: 0\r\n", GET, Body::EMPTY),
        (200, "Transfer-Encoding: chunked\r\n", GET, chunked()),
        (200, "", GET, Body::UntilClose),
        (404, "", GET, Body::UntilClose),
        (205, "", GET, Body::UntilClose),
        (999, "Content-Length: 5\r\n", GET, Body::Length(5)),
        (200, "Content-Length: 5\r\n", HEAD, Body::EMPTY),
        (200, "Transfer-Encoding: chunked\r\n", HEAD, Body::EMPTY),
        (200, "", HEAD, Body::EMPTY),
        (500, "", HEAD, Body::EMPTY),
        (204, "", GET, Body::EMPTY),
        (204, "Content-Length: 5\r\n", GET, Body::EMPTY),
        (304, "", GET, Body::EMPTY),
        (304, "Content-Length: 5\r\n", GET, Body::EMPTY),
        (304, "Transfer-Encoding: chunked\r\n", GET, Body::EMPTY),
        (100, "", GET, Body::EMPTY),
        (103, "Content-Length: 5\r\n", GET, Body::EMPTY),
        (101, "Upgrade: x\r\nContent-Length: 5\r\n", UPGRADE, Body::EMPTY),
        (200, "Content-Length: 5\r\n", UPGRADE, Body::Length(5)),
    ] {
        assert_eq!(body(&format!("HTTP/1.1 {status} X\r\n{lines}\r\n"), asked), Ok(want), "{status} {lines}");
    }
    for (lines, want) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Reject::LengthAndChunked),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Reject::LengthRepeated),
        ("Content-Length: 5, 5\r\n", Reject::LengthRepeated),
        ("Content-Length: -5\r\n", Reject::LengthMalformed),
        ("Transfer-Encoding: gzip, chunked\r\n", Reject::TransferEncoding),
        ("Transfer-Encoding: gzip\r\n", Reject::NotChunkedLast),
        ("Transfer-Encoding : chunked\r\n", Reject::Malformed),
    ] {
        // The response to a HEAD must be the same as to a GET.
        for asked in [GET, HEAD] {
            assert_eq!(body(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), asked), Err(want), "{lines}");
        }
    }
    let old = |lines: &str| body(&format!("HTTP/1.0 200 OK\r\n{lines}\r\n"), GET);
    assert_eq!(old("Transfer-Encoding: chunked\r\n"), Err(Reject::TransferEncodingIn10));
    assert_eq!(old("Content-Length: 5\r\n"), Ok(Body::Length(5)));
    assert_eq!(old(""), Ok(Body::UntilClose));
}

#[test]
fn a_switch_is_taken_only_if_it_was_asked_for() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nA: b\r\n\r\n";
    assert_eq!(body(switch, GET), Err(Reject::SwitchNotAsked));
    assert_eq!(body(switch, HEAD), Err(Reject::SwitchNotAsked));
    assert_eq!(read(switch, UPGRADE, |r| r.is_interim()), Ok(false));
    for lines in ["", "Upgrade: h2c\r\n", "Upgrade: x\r\nUpgrade: h2\r\n", "Connection: upgrade\r\n"] {
        let switch = format!("HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n");
        assert_eq!(body(&switch, UPGRADE), Err(Reject::SwitchNotAsked), "{lines}");
    }
    for towards in [KEPT, CLOSED] {
        assert_eq!(back(switch, UPGRADE, towards), {
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nA: b\r\nConnection: upgrade\r\n\r\n"
        });
    }
}

#[test]
fn interim_responses_go_back_without_a_word_on_the_connection() {
    for status in [100, 102, 103, 199] {
        let head = format!("HTTP/1.1 {status} X\r\nLink: </a>\r\n\r\n");
        assert_eq!(read(&head, GET, |r| r.is_interim()), Ok(true));
        for towards in [KEPT, CLOSED] {
            assert_eq!(back(&head, GET, towards), head);
        }
    }
    assert_eq!(read("HTTP/1.1 200 X\r\n\r\n", GET, |r| r.is_interim()), Ok(false));
    assert_eq!(back("HTTP/1.1 100 X\r\nConnection: close\r\n\r\n", GET, CLOSED), "HTTP/1.1 100 X\r\n\r\n");
}

#[test]
fn what_needs_no_change_goes_back_as_it_came() {
    let head =
        "HTTP/1.1 200 \u{e9}\t(x)\r\nServer:x\r\nset-cookie:  a=1 \r\nSet-Cookie: b=2\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(read(head, GET, |r| r.all_but(KEPT)), Ok(Some(0..0)));
    assert_eq!(back(head, GET, KEPT), head);
    for (odd, want) in
        [("Content-Length:\t05", "Content-Length: 5"), ("Transfer-Encoding: CHUNKED", "Transfer-Encoding: chunked")]
    {
        let head = format!("HTTP/1.1 200 OK\r\n{odd}\r\nA: b\r\n\r\n");
        for asked in [GET, HEAD] {
            assert_eq!(back(&head, asked, KEPT), format!("HTTP/1.1 200 OK\r\nA: b\r\n{want}\r\n\r\n"));
        }
        assert_eq!(back(&head.replace("200 OK", "204 OK"), GET, KEPT), "HTTP/1.1 204 OK\r\nA: b\r\n\r\n");
    }
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n";
    assert_eq!(back(chunked, GET, OLD), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    assert_eq!(back("HTTP/1.1 204\r\n\r\n", GET, KEPT), "HTTP/1.1 204 \r\n\r\n", "a space before no reason");
    for (head, all_but) in [
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", None),
        ("HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\n", None),
        ("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", Some(17..41)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", Some(36..60)),
        ("HTTP/1.1 200 OK\r\nKeep-Alive: 1\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", None),
    ] {
        assert_eq!(read(head, GET, |r| r.all_but(KEPT)), Ok(all_but), "{head:?}");
        assert_eq!(back(head, GET, KEPT), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    }
}

#[test]
fn the_client_is_told_how_its_connection_goes_on() {
    let head = "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\nC: d\r\n\r\n";
    let with = |line: &str| format!("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\nC: d\r\n{line}\r\n");
    assert_eq!(back(head, GET, KEPT), with(""));
    assert_eq!(back(head, GET, CLOSED), with("Connection: close\r\n"));
    assert_eq!(back(head, GET, OLD), with("Connection: close\r\n"));
    assert_eq!(back(head, GET, OLD_KEPT), with("Connection: keep-alive\r\n"));
    assert_eq!(back("HTTP/1.1 200\r\n\r\n", GET, CLOSED), "HTTP/1.1 200 \r\nConnection: close\r\n\r\n");
    assert_eq!(back("HTTP/1.1 907 X\r\n\r\n", GET, CLOSED), "HTTP/1.1 907 X\r\nConnection: close\r\n\r\n");
}

#[test]
fn hop_by_hop_fields_do_not_go_back() {
    let head = "HTTP/1.1 200 OK\r\nConnection: close, x-a\r\nKeep-Alive: timeout=5\r\nX-A: 1\r\nServer: x\r\nUpgrade: h2c\r\n\
                Proxy-Connection: close\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(back(head, GET, KEPT), "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\n");
    let named = "HTTP/1.1 200 OK\r\nConnection: content-length, transfer-encoding\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(back(named, GET, KEPT), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let named = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: transfer-encoding\r\n\r\n";
    assert_eq!(back(named, GET, KEPT), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

/// A reader that believes the promise would take the next response for this response's body.
#[test]
fn what_never_has_a_body_promises_none() {
    for (status, asked) in [(100, GET), (103, GET), (204, GET), (204, HEAD)] {
        for line in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            let head = format!("HTTP/1.1 {status} X\r\nA: b\r\n{line}\r\n\r\n");
            assert_eq!(back(&head, asked, KEPT), format!("HTTP/1.1 {status} X\r\nA: b\r\n\r\n"), "{line}");
        }
    }
    let switch = "HTTP/1.1 101 X\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(back(switch, UPGRADE, KEPT), "HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    // These describe the response to a GET.
    for (status, asked) in [(200, HEAD), (304, GET)] {
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(back(&head, asked, KEPT), head);
    }
}

/// RFC 9112 section 6.1.
#[test]
fn http_1_0_clients_hear_of_no_transfer_coding() {
    let head = "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nC: d\r\n\r\n";
    for asked in [GET, HEAD] {
        assert_eq!(back(head, asked, OLD), "HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\nConnection: close\r\n\r\n");
        assert_eq!(back(head, asked, KEPT), head);
    }
}

#[test]
fn an_endpoint_keeps_its_connection_if_it_says_so_and_the_end_is_known() {
    let keeps = |version: &str, lines: &str, asked| {
        read(&format!("{version} 200 OK\r\n{lines}\r\n"), asked, |r| r.keep_alive).unwrap()
    };
    let length = "Content-Length: 5\r\n";
    for (version, line, want) in [
        ("HTTP/1.1", "", true),
        ("HTTP/1.1", "Connection: keep-alive\r\n", true),
        ("HTTP/1.1", "Connection: close\r\n", false),
        ("HTTP/1.1", "Connection: x, Close\r\n", false),
        ("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ("HTTP/1.0", "", false),
        ("HTTP/1.0", "Connection: keep-alive\r\n", true),
        ("HTTP/1.0", "Connection: close\r\n", false),
    ] {
        assert_eq!(keeps(version, &format!("{length}{line}"), GET), want, "{version} {line}");
    }
    assert!(!keeps("HTTP/1.1", "", GET), "until close");
    assert!(!keeps("HTTP/1.0", "Connection: keep-alive\r\n", GET), "until close, whatever it says");
    assert!(keeps("HTTP/1.1", "", HEAD), "no body, so no end to wait for");
    assert!(keeps("HTTP/1.1", "Transfer-Encoding: chunked\r\n", GET));
}

#[test]
fn the_time_that_an_endpoint_keeps_its_connection_for_is_read() {
    let kept = |lines: &str| read(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), GET, |r| r.kept_secs).unwrap();
    for (field, secs) in [
        ("timeout=5", Some(5)),
        ("timeout=5, max=100", Some(5)),
        ("max=100,Timeout = \"15\"", Some(15)),
        ("timeout=0", Some(0)),
        ("timeout=99999999999", None),
        ("timeout=+5", None),
        ("timeout=", None),
        ("timeout", None),
        ("timeouts=5", None),
        ("300", None),
        ("", None),
    ] {
        assert_eq!(kept(&format!("Keep-Alive: {field}\r\n")), secs, "{field}");
    }
    assert_eq!(kept(""), None);
}

/// Old servers send a body, or its last chunk, after a response that has none.
#[test]
fn a_connection_is_not_kept_behind_a_response_that_promises_a_body_and_has_none() {
    let keeps = |message: &str, asked| read(message, asked, |r| r.keep_alive).unwrap();
    for (status, lines, kept) in [
        ("204 No Content", "Transfer-Encoding: chunked\r\n", false),
        ("204 No Content", "Content-Length: 5\r\n", false),
        ("204 No Content", "Content-Length: 0\r\n", true),
        ("204 No Content", "", true),
        ("304 Not Modified", "Transfer-Encoding: chunked\r\n", false),
        // Length of a body that is not sent (RFC 9110 section 8.6).
        ("304 Not Modified", "Content-Length: 5\r\n", true),
        ("304 Not Modified", "", true),
    ] {
        assert_eq!(keeps(&format!("HTTP/1.1 {status}\r\n{lines}\r\n"), GET), kept, "{status} {lines}");
    }
    assert!(keeps("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD), "as a HEAD may be answered");
}

#[test]
fn another_status_has_its_own_phrase() {
    let message = "HTTP/1.0 200 Fine\r\nA: b\r\nContent-Length: 2\r\n\r\nhi";
    let write = |response: &Response<'_, '_>| {
        let mut out = Vec::new();
        response.write_as((502, "Bad Gateway"), KEPT, b"C: d\r\n", &mut out);
        String::from_utf8(out).expect("the test sends text")
    };
    let head = read(message, GET, write).expect("the response is good");
    assert_eq!(head, "HTTP/1.1 502 Bad Gateway\r\nA: b\r\nContent-Length: 2\r\nC: d\r\n\r\n");
}
