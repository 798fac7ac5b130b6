//! Framing of requests, expectations, and the responses to malformed requests.

use super::tests::{forwarded, get_with, goes_on, read, refusal};
use super::*;
use crate::endpoint_head::Connection;
use crate::http1::chunked::Chunked;

/// RFC 9112 section 6.3.
#[test]
fn the_length_of_a_body_is_known_or_the_request_is_refused() {
    let body = |lines: &str| read(&get_with(lines), |r| r.body.clone());
    for (lines, want) in [
        ("A: b", Body::EMPTY),
        ("Content-Length: 0", Body::EMPTY),
        ("Content-Length: 5", Body::Length(5)),
        ("content-LENGTH:\t 5 ", Body::Length(5)),
        ("Content-Length: 005", Body::Length(5)),
        ("Content-Length: 999999999999999999", Body::Length(999_999_999_999_999_999)),
        ("Transfer-Encoding: chunked", Body::Chunked(Chunked::default())),
        ("transfer-encoding:CHUNKED ", Body::Chunked(Chunked::default())),
    ] {
        assert_eq!(body(lines), Ok(want), "{lines:?}");
    }
    for (lines, want) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", Reject::LengthAndChunked),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", Reject::LengthAndChunked),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0", Reject::LengthAndChunked),
        ("Content-Length: 5\r\nContent-Length: 6", Reject::LengthRepeated),
        ("Content-Length: 5\r\nContent-Length: 5", Reject::LengthRepeated),
        ("Content-Length: 5, 5", Reject::LengthRepeated),
        ("Content-Length: 5,", Reject::LengthRepeated),
        ("Content-Length:", Reject::LengthMalformed),
        ("Content-Length: -5", Reject::LengthMalformed),
        ("Content-Length: +5", Reject::LengthMalformed),
        ("Content-Length: 5 5", Reject::LengthMalformed),
        ("Content-Length: 0x5", Reject::LengthMalformed),
        ("Content-Length: 5.0", Reject::LengthMalformed),
        ("Content-Length: \"5\"", Reject::LengthMalformed),
        ("Content-Length: ٥", Reject::LengthMalformed),
        ("Content-Length: 18446744073709551616", Reject::LengthMalformed),
        ("Transfer-Encoding:", Reject::NotChunkedLast),
        ("Transfer-Encoding: gzip", Reject::NotChunkedLast),
        ("Transfer-Encoding: gzip, chunked", Reject::TransferEncoding),
        ("Transfer-Encoding: chunked, gzip", Reject::NotChunkedLast),
        ("Transfer-Encoding: chunked, chunked", Reject::TransferEncoding),
        ("Transfer-Encoding: chunked,", Reject::TransferEncoding),
        ("Transfer-Encoding: , chunked", Reject::TransferEncoding),
        ("Transfer-Encoding: \"chunked\"", Reject::NotChunkedLast),
        ("Transfer-Encoding: chunked; q=1", Reject::NotChunkedLast),
        ("Transfer-Encoding: \x0bchunked", Reject::Malformed),
        ("Transfer-Encoding: identity", Reject::NotChunkedLast),
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", Reject::TransferEncoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", Reject::NotChunkedLast),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Reject::TransferEncoding),
        ("Transfer-Encoding : chunked", Reject::Malformed),
        ("Transfer_Encoding : chunked", Reject::Malformed),
    ] {
        assert_eq!(body(lines), Err(want), "{lines:?}");
    }
    let old = |line: &str| refusal(format!("POST / HTTP/1.0\r\n{line}\r\n\r\n").as_bytes());
    assert_eq!(old("Transfer-Encoding: chunked"), Some(Reject::TransferEncodingIn10));
    assert_eq!(old("Content-Length: 5\r\nTransfer-Encoding: chunked"), Some(Reject::TransferEncodingIn10));
    assert_eq!(old("Content-Length: 5"), None);
}

#[test]
fn expectations_go_on_where_there_is_something_to_expect() {
    let body = "Content-Length: 5\r\n";
    goes_on(
        &format!("Host: a\r\nExpect: 100-Continue\r\n{body}"),
        &format!("Host: a\r\nExpect: 100-Continue\r\n{body}"),
    );
    goes_on("Host: a\r\nExpect: 100-continue\r\n", "Host: a\r\n");
    goes_on("Host: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n", "Host: a\r\nContent-Length: 0\r\n");
    for value in ["100-continue", "x", ""] {
        let head = forwarded(format!("POST / HTTP/1.0\r\nHost: a\r\nExpect: {value}\r\n{body}\r\n").as_bytes());
        assert_eq!(head, format!("POST / HTTP/1.1\r\nHost: a\r\n{body}\r\n"), "HTTP/1.0 knows no interim responses");
    }
    for lines in [
        "Expect: x",
        "Expect:",
        "Expect: 100-continue, x",
        "Expect: x 100-continue",
        "Expect: 100-continue\r\nExpect: 100-continue",
    ] {
        assert_eq!(refusal(&get_with(lines)), Some(Reject::Expectation), "{lines}");
    }
}

/// Some readers do not find a length after a tab, read leading zeros as octal, or compare codings by case.
#[test]
fn framing_and_host_that_are_spelled_oddly_are_spelled_anew() {
    for plain in ["Content-Length: 5\r\n", "content-LENGTH:0\r\n", "Transfer-Encoding: chunked\r\n"] {
        goes_on(&format!("Host: a\r\n{plain}A: b\r\n"), &format!("Host: a\r\n{plain}A: b\r\n"));
    }
    goes_on("A: b\r\nHost:\ta \r\n", "Host: a\r\nA: b\r\n");
    for (odd, want) in [
        ("Content-Length: 05", "Content-Length: 5"),
        ("Content-Length: 00", "Content-Length: 0"),
        ("Content-Length:\t5", "Content-Length: 5"),
        ("Content-Length: \t5", "Content-Length: 5"),
        ("Content-Length:  5", "Content-Length: 5"),
        ("Content-Length: 5 ", "Content-Length: 5"),
        ("Transfer-Encoding: Chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked\t", "Transfer-Encoding: chunked"),
    ] {
        goes_on(&format!("Host: a\r\n{odd}\r\nA: b\r\n"), &format!("Host: a\r\nA: b\r\n{want}\r\n"));
    }
}

#[test]
fn content_that_means_nothing_to_a_method_may_be_overlooked() {
    let overlooked = |method: &str, line: &str| {
        let message = format!("{method} / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        read(message.as_bytes(), |r| r.body_may_be_overlooked()).unwrap()
    };
    for method in ["GET", "HEAD", "DELETE", "TRACE"] {
        assert!(
            overlooked(method, "Content-Length: 5") && overlooked(method, "Transfer-Encoding: chunked"),
            "{method}"
        );
        assert!(!overlooked(method, "Content-Length: 0") && !overlooked(method, "A: b"), "{method}");
    }
    assert!(!overlooked("POST", "Content-Length: 5") && !overlooked("OPTIONS", "Content-Length: 5"));
}

/// uvicorn with httptools reads no body of such a request, and answered the next request with the body's response.
#[test]
fn a_body_before_a_switch_may_be_overlooked() {
    let forwarded = |line: &str| {
        let message = format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n{line}\r\n\r\n");
        read(message.as_bytes(), |r| (r.body_may_be_overlooked(), super::tests::written(r, "", Connection::Kept)))
            .unwrap()
    };
    for (line, overlooked, end) in [
        ("Upgrade: tcp\r\nContent-Length: 5", true, "Connection: upgrade, close\r\n\r\n"),
        ("Upgrade: tcp\r\nTransfer-Encoding: chunked", true, "Connection: upgrade, close\r\n\r\n"),
        ("Upgrade: tcp\r\nContent-Length: 0", false, "Connection: upgrade\r\n\r\n"),
        ("Upgrade: tcp", false, "Connection: upgrade\r\n\r\n"),
        ("Upgrade: websocket\r\nContent-Length: 5", false, "Content-Length: 5\r\n\r\n"),
        ("Upgrade: h2c\r\nContent-Length: 5", false, "Content-Length: 5\r\n\r\n"),
    ] {
        let (is_overlooked, head) = forwarded(line);
        assert_eq!(is_overlooked, overlooked, "{line}");
        assert!(head.ends_with(end), "{head}");
    }
}
