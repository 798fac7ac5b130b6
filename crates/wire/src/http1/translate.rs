//! How is a message of HTTP/1 said where heads are tables of fields, and such a message in HTTP/1? For the sides of the proxy
//! that speak different protocols; the framing of bodies is each side's own.

use super::Reject;
use super::Version;
use super::fields::{Stated, append, list};
use super::kind::{Kind, kind};
use super::max_forwards;
use super::request::Forward;
use super::response::Towards;
use crate::head::{Request, Table};

/// A request's head as a table: pseudo fields first (RFC 9113 section 8.3.1), names in lower case, and none of the fields that
/// mean something to a connection. `length`: of its body, if its sender said so. `protocol`: what it wants to speak, if it is
/// a tunnel (RFC 8441).
///
/// # Errors
/// It expects what is not known.
pub fn request_table(
    request: &Request<'_, '_>,
    scheme: &str,
    length: Option<u64>,
    protocol: Option<&str>,
    forward: &Forward<'_>,
) -> Result<Table, Reject> {
    let mut table = Table::with_room(1024, request.fields.rows.len() + 10);
    let authority = if request.host.is_empty() { forward.host_if_none } else { request.host };
    table.push(b":method", if protocol.is_some() { b"CONNECT" } else { request.method.as_bytes() });
    if let Some(protocol) = protocol {
        table.push(b":protocol", protocol.as_bytes());
    }
    table.push(b":scheme", scheme.as_bytes());
    if !authority.is_empty() {
        table.push(b":authority", authority);
    }
    table.push(b":path", request.target.as_bytes());
    for (name, value) in request.fields.kept() {
        match kind(name) {
            Kind::Other | Kind::Loop => table.push_lower(name, value),
            Kind::Expect if value.eq_ignore_ascii_case(b"100-continue") => table.push(b"expect", b"100-continue"),
            Kind::Expect => return Err(Reject::Expectation),
            _ => {}
        }
    }
    // The one field about the connection that means something beyond it (RFC 9113 section 8.2.2).
    if wants_trailers(request) {
        table.push(b"te", b"trailers");
    }
    if let Some(length) = length {
        table.push(b"content-length", length.to_string().as_bytes());
    }
    forward.push(request.host, &mut table);
    Ok(table)
}

/// Whether who sent it takes trailers.
pub fn wants_trailers(request: &Request<'_, '_>) -> bool {
    let named = |coding: &[u8]| coding.split(|b| *b == b';').next().unwrap_or_default().trim_ascii() == b"trailers";
    request.values("te").any(|value| list(value).any(|coding| named(&coding.to_ascii_lowercase())))
}

impl Forward<'_> {
    /// Adds the fields that end each head for an endpoint. `host`: what the request itself says.
    fn push(&self, host: &[u8], table: &mut Table) {
        if let Some(left) = self.max_forwards {
            table.push(max_forwards::NAME.as_bytes(), left.to_string().as_bytes());
        }
        let lines = [self.mark, self.names, self.certificate];
        for line in lines.iter().flat_map(|lines| lines.split_inclusive(|b| *b == b'\n')) {
            if let Some(colon) = memchr::memchr(b':', line) {
                table.push_lower(&line[..colon], line[colon + 1..].trim_ascii());
            }
        }
        table.push(b"x-forwarded-for", self.client);
        table.push(b"x-forwarded-proto", self.scheme.as_bytes());
        let host = self.host.unwrap_or(host);
        if !host.is_empty() {
            table.push(b"x-forwarded-host", host);
        }
        if let Some(forwarded) = self.forwarded {
            table.push(b"forwarded", forwarded);
        }
    }
}

/// Appends the head of a response for a client that speaks HTTP/1, whose body has this framing. Fields that mean something to
/// a connection stay behind.
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

/// The phrase of a status, which HTTP/1 alone has; of one that is not common, nothing.
fn phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
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
        401 => "Unauthorized",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        422 => "Unprocessable Content",
        200 | 400 | 404 | 408 | 413 | 417 | 429 | 431 | 500..=505 => super::reply::reason(status),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward() -> Forward<'static> {
        Forward {
            client: b"10.0.0.1",
            scheme: "https",
            host: None,
            forwarded: None,
            host_if_none: b"here",
            max_forwards: Some(3),
            certificate: b"",
            mark: b"CDN-Loop: evenkeel-1\r\n",
            names: b"X-Request-Id: 7\r\n",
            close: true,
        }
    }

    fn shown(table: &Table) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        table.iter().map(|(name, value)| format!("{}={}", text(name), text(value))).collect()
    }

    #[test]
    fn a_request_becomes_a_table_without_what_is_for_its_connection() {
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
        let table = request_table(&request, "http", Some(5), None, &forward()).expect("nothing is wrong with it");
        assert_eq!(
            shown(&table),
            [
                ":method=PUT",
                ":scheme=http",
                ":authority=a",
                ":path=/p?q",
                "x-a=1",
                "expect=100-continue",
                "cookie=a=1",
                "te=trailers",
                "content-length=5",
                "max-forwards=3",
                "cdn-loop=evenkeel-1",
                "x-request-id=7",
                "x-forwarded-for=10.0.0.1",
                "x-forwarded-proto=https",
                "x-forwarded-host=a",
            ]
        );
        request.host = b"";
        let table = request_table(&request, "https", None, Some("websocket"), &forward()).expect("still nothing");
        let shown = shown(&table);
        assert_eq!(shown[..4], [":method=CONNECT", ":protocol=websocket", ":scheme=https", ":authority=here"]);
        assert!(
            !shown.iter().any(|field| field.starts_with("x-forwarded-host") || field.starts_with("content-length"))
        );
        let mut odd: Table = [(&b"expect"[..], &b"more"[..])].into_iter().collect();
        request.fields = odd.fields();
        assert_eq!(request_table(&request, "http", None, None, &forward()), Err(Reject::Expectation));
    }

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
