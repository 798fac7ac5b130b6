//! HTTP/1 heads of responses that came as a table of fields. Each side has its own framing of the body.

use super::Version;
use super::fields::{Stated, append};
use super::kind::{Kind, kind};
use super::response::Towards;
use crate::head::Table;

/// Appends the head of a response for a client that speaks HTTP/1. `framing` is the framing of the body towards the
/// client. Connection-specific fields are dropped.
pub fn write_response(status: u16, fields: &Table, framing: Stated, towards: Towards, out: &mut Vec<u8>) {
    append(&[b"HTTP/1.1 ", &digits(status), b" ", phrase(status).as_bytes(), b"\r\n"], out);
    for (name, value) in fields.iter() {
        match kind(name) {
            Kind::Upgrade if status == 101 => append(&[name, b": ", value, b"\r\n"], out),
            Kind::Connection
            | Kind::TransferEncoding
            | Kind::ContentLength
            | Kind::Upgrade
            | Kind::KeepAlive
            | Kind::HopByHop => {}
            _ => append(&[name, b": ", value, b"\r\n"], out),
        }
    }
    framing.write(out);
    let connection: &[u8] = match (status, towards.version, towards.keep_alive) {
        (101, ..) => b"Connection: upgrade\r\n\r\n",
        (100..200, ..) | (_, Version::V11, true) => b"\r\n",
        (_, Version::V10, true) => b"Connection: keep-alive\r\n\r\n",
        (_, _, false) => b"Connection: close\r\n\r\n",
    };
    append(&[connection], out);
}

fn digits(status: u16) -> [u8; 3] {
    [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8)
}

/// Reason phrase of a common status, which only HTTP/1 has; otherwise empty.
pub fn phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        508 => "Loop Detected",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_the_framing_and_the_connection_of_its_client() {
        let fields: Table =
            [(&b"x-a"[..], &b"1"[..]), (b"content-length", b"9"), (b"connection", b"x"), (b"transfer-encoding", b"y")]
                .into_iter()
                .collect();
        let written = |status, framing, version, keep_alive| {
            let mut out = Vec::new();
            write_response(status, &fields, framing, Towards { version, keep_alive }, &mut out);
            String::from_utf8(out).expect("ASCII")
        };
        let ends = |kept: &str| format!("x-a: 1\r\n{kept}\r\n");
        assert_eq!(
            written(200, Stated::Length(9), Version::V11, true),
            format!("HTTP/1.1 200 OK\r\n{}", ends("Content-Length: 9\r\n"))
        );
        assert_eq!(
            written(299, Stated::Chunked, Version::V11, false),
            format!("HTTP/1.1 299 \r\n{}", ends("Transfer-Encoding: chunked\r\nConnection: close\r\n"))
        );
        assert_eq!(
            written(404, Stated::Nothing, Version::V10, true),
            format!("HTTP/1.1 404 Not Found\r\n{}", ends("Connection: keep-alive\r\n"))
        );
        assert_eq!(
            written(103, Stated::Nothing, Version::V11, false),
            format!("HTTP/1.1 103 Early Hints\r\n{}", ends(""))
        );
    }
}
