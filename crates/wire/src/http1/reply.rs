//! What does the client read that gets no endpoint's response? A whole one of this side's own.

/// The phrase for a status that this proxy may send of its own.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        508 => "Loop Detected",
        _ => "Error",
    }
}

/// The type of lines of text.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// A whole response of this side's own.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'r> {
    /// Its status.
    pub status: u16,
    /// More fields, each with its line's end.
    pub fields: &'r [u8],
    /// The type of the body.
    pub kind: &'r str,
    /// The body.
    pub body: &'r [u8],
}

impl Reply<'_> {
    /// All of it. `close`: the connection ends behind it. `head_only`: it answers a HEAD.
    pub fn write(&self, close: bool, head_only: bool) -> Vec<u8> {
        let Reply { status, fields, kind, body } = *self;
        let kind = if body.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        let head = format!("HTTP/1.1 {status} {}\r\n{kind}Content-Length: {}\r\n", reason(status), body.len());
        let mut all = head.into_bytes();
        all.extend_from_slice(fields);
        all.extend_from_slice(if close { b"Connection: close\r\n\r\n" } else { b"\r\n" });
        if !head_only {
            all.extend_from_slice(body);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_says_its_length_and_whether_the_connection_ends() {
        let reply = Reply { status: 503, fields: b"A: b\r\n", kind: TEXT, body: b"no\n" };
        let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nA: b\r\n";
        assert_eq!(reply.write(false, false), format!("{head}\r\nno\n").into_bytes());
        assert_eq!(reply.write(true, true), format!("{head}Connection: close\r\n\r\n").into_bytes());
        let empty = Reply { status: 200, fields: b"", kind: TEXT, body: b"" };
        assert_eq!(empty.write(false, false), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}
