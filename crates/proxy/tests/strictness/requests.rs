//! Long because it is a table: HTTP/1 requests and their results, a row in each line.

use evenkeel_wire::http1::Reject::{self, *};

/// Requests on one connection, and their results.
pub struct Row {
    /// Sections of RFCs that define the result.
    pub rfc: &'static str,
    /// All bytes that the client sends before it shuts down its side. The part after a `‖` is sent once the endpoint
    /// has got something of the part before. `{x*9}` stands for nine `x`.
    pub sent: &'static str,
    pub does: Does,
    pub why: &'static str,
}

/// Results. Requests are written as the endpoint gets them, without the `X-Forwarded-*` and `CDN-Loop` at their end.
pub enum Does {
    /// All requests reach the endpoint and are answered.
    Passes(&'static [&'static str]),
    /// The proxy answers with this status line, and the endpoint sees nothing.
    Answers(&'static str),
    /// The proxy refuses the request for this reason, and the endpoint sees nothing.
    Refuses(Reject),
    /// The first requests are answered by the endpoint, and the next one is refused.
    PassesThenRefuses(&'static [&'static str], Reject),
    /// The endpoint gets a message without an end, and its connection is closed.
    Cuts(&'static str, Reject),
}
use Does::*;

macro_rules! get {
    ($lines:literal) => {
        concat!("GET / HTTP/1.1\r\nHost: a\r\n", $lines, "\r\n\r\n")
    };
}

macro_rules! post {
    ($lines:literal, $body:literal) => {
        concat!("POST / HTTP/1.1\r\nHost: a\r\n", $lines, "\r\n\r\n", $body)
    };
}

macro_rules! chunks {
    ($body:literal) => {
        concat!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", $body)
    };
}

const fn row(rfc: &'static str, sent: &'static str, does: Does, why: &'static str) -> Row {
    Row { rfc, sent, does, why }
}

/// A request for `/` as the endpoint gets it, without anything that was removed.
const BARE: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

pub const SECTIONS: &[(&str, &[Row])] = &[
    ("Lines", LINES),
    ("Request lines", REQUEST_LINES),
    ("Targets and hosts", TARGETS),
    ("Fields", FIELDS),
    ("Lengths and codings", FRAMING),
    ("Chunks and trailers", CHUNKS),
    ("Connections and what is asked of them", CONNECTIONS),
    ("Limits", LIMITS),
];

const LINES: &[Row] = &[
    row("9112 2.2", "GET / HTTP/1.1\nHost: a\r\n\r\n", Refuses(BareLf), "readers that accept a bare LF and readers that do not disagree about where fields and messages end"),
    row("9112 2.2", get!("A: b\nC: d"), Refuses(BareLf), "the same in a field"),
    row("9112 2.2", "GET / HTTP/1.1\r\nHost: a\r\n\n", Refuses(BareLf), "the same at the end of the head"),
    row("9112 2.2", "GET / HTTP/1.1\rHost: a\r\n\r\n", Refuses(Malformed), "a bare CR does not end a line"),
    row("9112 2.2", get!("A: b\rC: d"), Refuses(Malformed), "the same in a field"),
    row("9112 2.2", get!("A: b\r"), Refuses(Malformed), "the same before a line end"),
    row("9112 2.2", get!("\rA: b"), Refuses(Malformed), "the same before a field"),
    row("9112 2.2", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&[BARE]), "some clients send an extra empty line after a body"),
    row("9112 2.2", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\n", Passes(&[BARE]), "the same after a request"),
    row("9112 2.2", "\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(BareLf), "an empty line ends in CRLF too"),
    row("9112 2.2", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", Refuses(Malformed), "some readers skip a first line that begins with a space"),
];

const REQUEST_LINES: &[Row] = &[
    row("9112 3", "GET /\r\n\r\n", Refuses(Malformed), "HTTP/0.9 has no fields and no end"),
    row("9112 3", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "exactly one space between two words"),
    row("9112 3", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "the same"),
    row("9112 3", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "the same"),
    row("9112 3", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Refuses(Malformed), "the same"),
    row("9112 3", "GET / x HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "the same"),
    row("9110 9.1", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "a method is a token"),
    row("9110 9.1", "G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "the same"),
    row("9110 9.1", "É / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "the same"),
    row("9110 9.1", "PURGE / HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&["PURGE / HTTP/1.1\r\nHost: a\r\n\r\n"]), "any token is a method; the endpoint decides if it knows it"),
    row("9110 9.1", "get / HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&["get / HTTP/1.1\r\nHost: a\r\n\r\n"]), "methods are case-sensitive, so this is not GET"),
    row("9110 9.3.6", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", Refuses(Connect), "a tunnel would carry requests that are neither routed nor counted"),
    row("9110 9.3.6", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Connect), "the same, since some endpoints ignore the target"),
    row("9110 2.5", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", Passes(&[BARE]), "requests are forwarded as HTTP/1.1"),
    row("9110 15.6.6", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", Refuses(Version), "only versions with known framing"),
    row("9110 2.5", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", Passes(&[BARE]), "a later minor version is read as the latest known version"),
    row("9110 15.6.6", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", Refuses(Version), "not in this syntax"),
    row("9113 3.4", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refuses(Version), "the preface of HTTP/2"),
    row("9112 2.3", "GET / http/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "the name is case-sensitive"),
    row("9112 2.3", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", Refuses(Malformed), "one digit each"),
    row("9112 2.3", "GET / HTTP/01.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "the same"),
    row("9112 2.3", "GET / HTTP/1\r\nHost: a\r\n\r\n", Refuses(Malformed), "and both"),
    row("9112 2.3", "GET / HTTP/1,1\r\nHost: a\r\n\r\n", Refuses(Malformed), "a dot between them"),
    row("9112 2.3", "GET / HTTP/2.00\r\nHost: a\r\n\r\n", Refuses(Malformed), "one digit each, whatever they are"),
    row("9112 3", "GET / HTTX/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "not HTTP at all"),
];

const TARGETS: &[Row] = &[
    row("9112 3.2.1", "GET /a?b=/c HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&["GET /a?b=/c HTTP/1.1\r\nHost: a\r\n\r\n"]), "origin-form is forwarded byte for byte"),
    row("9112 3.2.1", "GET //a/../%2e?? HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&["GET //a/../%2e?? HTTP/1.1\r\nHost: a\r\n\r\n"]), "paths are not normalised, since two normalisations may differ"),
    row("9112 3.2", "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Target), "a fragment is for the client alone"),
    row("9112 3.2", "GET /é HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Target), "a target is ASCII"),
    row("9112 3.2", "GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Malformed), "no control bytes"),
    row("9112 3.2", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Target), "a path begins with a slash"),
    row("9112 3.2.4", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Target), "an asterisk is for OPTIONS"),
    row("9112 3.2.4", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&["OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"]), "the server as a whole"),
    row("9112 3.2.2", "GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&["GET /x?y HTTP/1.1\r\nHost: a\r\n\r\n"]), "absolute-form becomes origin-form"),
    row("9112 3.2.2", "GET HTTP://A HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&[BARE]), "the same, with the implied path"),
    row("9112 3.2.4", "OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&["OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"]), "the same for OPTIONS"),
    row("9112 3.2.2", "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", Passes(&[BARE]), "the target wins, for the route and for the endpoint"),
    row("9112 3.2.2", "GET http://a:80/ HTTP/1.1\r\nA: b\r\nHost: a\r\n\r\n", Passes(&["GET / HTTP/1.1\r\nHost: a:80\r\nA: b\r\n\r\n"]), "the same"),
    row("9112 3.2", "GET http://a/ HTTP/1.1\r\n\r\n", Refuses(HostMissing), "Host is required even so"),
    row("9112 3.2", "GET http://a/ HTTP/1.1\r\nHost: b\r\nHost: c\r\n\r\n", Refuses(HostRepeated), "and once"),
    row("9112 3.2.2", "GET http://a/ HTTP/1.0\r\n\r\n", Passes(&[BARE]), "the authority becomes Host where there is none"),
    row("9110 4.2.4", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Target), "user information is only misleading"),
    row("9110 4.2.1", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Target), "an empty host is invalid"),
    row("9112 3.2.2", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(Target), "no other scheme is served"),
    row("9112 3.2.3", "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", Refuses(Target), "authority-form is for CONNECT"),
    row("9112 3.2", "GET / HTTP/1.1\r\nA: b\r\n\r\n", Refuses(HostMissing), "HTTP/1.1 names the host"),
    row("9112 3.2", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Refuses(HostRepeated), "one reader uses the first, another the last"),
    row("9112 3.2", "GET / HTTP/1.1\r\nHost:\r\n\r\n", Passes(&["GET / HTTP/1.1\r\nHost: 192.0.2.1:8080\r\n\r\n"]), "an empty host is allowed; the address that the client connected to is forwarded"),
    row("9112 3.2", "GET / HTTP/1.0\r\n\r\n", Passes(&["GET / HTTP/1.1\r\nHost: 192.0.2.1:8080\r\n\r\n"]), "HTTP/1.0 need not name a host, HTTP/1.1 must; the address that the client connected to is forwarded"),
    row("9110 5.5", "GET / HTTP/1.1\r\nA: b\r\nHost:\ta\r\n\r\n", Passes(&["GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n"]), "allowed, but some refuse it: rewritten"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Refuses(HostMalformed), "a host and a port, nothing else"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Refuses(HostMalformed), "the same"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Refuses(HostMalformed), "the same"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", Refuses(HostMalformed), "the same"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: é\r\n\r\n", Refuses(HostMalformed), "names beyond ASCII are written as xn--"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", Refuses(HostMalformed), "a port is a number"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", Refuses(HostMalformed), "up to 65535"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n", Refuses(HostMalformed), "and one"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", Passes(&["GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"]), "IPv6 in brackets"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", Refuses(HostMalformed), "both of them"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", Refuses(HostMalformed), "the same"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: [a]\r\n\r\n", Refuses(HostMalformed), "with an address in them"),
];

const FIELDS: &[Row] = &[
    row("9112 5.1", get!("A : b"), Refuses(Malformed), "some readers include the space in the name, others drop it"),
    row("9112 5.1", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello", Refuses(Malformed), "the same, where it would smuggle"),
    row("9112 5.1", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", Refuses(Malformed), "the same"),
    row("9112 5.2", get!("A: b\r\n c"), Refuses(Malformed), "some read a folded line as one field, others as two lines"),
    row("9112 5.2", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", Refuses(Malformed), "the same, where it would smuggle"),
    row("9110 5.1", get!(": b"), Refuses(Malformed), "a name is a token"),
    row("9110 5.1", get!("A b: c"), Refuses(Malformed), "the same"),
    row("9110 5.1", get!("A"), Refuses(Malformed), "and ends in a colon"),
    row("9110 5.1", get!("Ä: b"), Refuses(Malformed), "and is ASCII"),
    row("9110 5.5", get!("A: b\0"), Refuses(Malformed), "readers in C stop at NUL"),
    row("9110 5.5", get!("A: \u{8}"), Refuses(Malformed), "no control bytes but tabs"),
    row("9110 5.5", get!("A: b\u{7f}"), Refuses(Malformed), "the same"),
    row("9110 5.5", get!("a:\tb \r\nA: é"), Passes(&[get!("a:\tb \r\nA: é")]), "everything else is forwarded unchanged and in order"),
    row("9110 5.3", get!("X-Forwarded-For: spoof\r\nX-Forwarded-Host: spoof"), Passes(&[BARE]), "only evenkeel names the sender of a request"),
    row("9110 17.10", get!("X_Forwarded_For: spoof\r\nContent_Length: 5\r\nTransfer_Encoding: chunked"), Passes(&[BARE]), "CGI and its successors do not distinguish an underscore from a hyphen"),
];

const FRAMING: &[Row] = &[
    row("9112 6.1", post!("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\nG"), Refuses(LengthAndChunked), "CL.TE: one reader uses the length, another the chunks"),
    row("9112 6.1", post!("Transfer-Encoding: chunked\r\nContent-Length: 3", "5\r\nhello\r\n0\r\n\r\n"), Refuses(LengthAndChunked), "TE.CL: the same"),
    row("9112 6.1", post!("Transfer-Encoding: chunked\r\nContent-Length: 0", "0\r\n\r\n"), Refuses(LengthAndChunked), "the same"),
    row("9112 6.3", post!("Content-Length: 5\r\nContent-Length: 6", "hello"), Refuses(LengthRepeated), "ambiguous"),
    row("9112 6.3", post!("Content-Length: 5\r\nContent-Length: 5", "hello"), Refuses(LengthRepeated), "the RFC would allow equal values; no known client sends them"),
    row("9112 6.3", post!("Content-Length: 5, 5", "hello"), Refuses(LengthRepeated), "the same"),
    row("9110 8.6", post!("Content-Length: +5", "hello"), Refuses(LengthMalformed), "a length is digits"),
    row("9110 8.6", post!("Content-Length: -5", "hello"), Refuses(LengthMalformed), "the same"),
    row("9110 8.6", post!("Content-Length: 5 5", "hello"), Refuses(LengthMalformed), "the same"),
    row("9110 8.6", post!("Content-Length: 0x5", "hello"), Refuses(LengthMalformed), "the same"),
    row("9110 8.6", post!("Content-Length:", "hello"), Refuses(LengthMalformed), "at least one"),
    row("9110 8.6", post!("Content-Length: 18446744073709551621", "hello"), Refuses(LengthMalformed), "2^64 + 5 becomes 5 if numbers overflow"),
    row("9110 8.6", post!("Content-Length: 005", "hello"), Passes(&[post!("Content-Length: 5", "hello")]), "allowed, but some read it as octal: rewritten"),
    row("9110 5.5", post!("Content-Length:\t5 ", "hello"), Passes(&[post!("Content-Length: 5", "hello")]), "allowed, but some ignore it: rewritten"),
    row("9112 6.1", post!("Transfer-Encoding:\tChunked", "0\r\n\r\n"), Passes(&[chunks!("0\r\n\r\n")]), "the same"),
    row("9112 6.1", post!("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), Refuses(TransferEncoding), "only chunked: both sides would have to decode other codings alike"),
    row("9112 6.3", post!("Transfer-Encoding: chunked, gzip", "0\r\n\r\n"), Refuses(NotChunkedLast), "a body that does not end in chunks has no known length"),
    row("9112 6.3", post!("Transfer-Encoding: identity", ""), Refuses(NotChunkedLast), "the same"),
    row("9112 6.3", post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", "0\r\n\r\n"), Refuses(NotChunkedLast), "the same over several fields"),
    row("9112 6.3", post!("Transfer-Encoding: gzip\r\nContent-Length: 5", "hello"), Refuses(LengthAndChunked), "together with a length, it states two lengths"),
    row("9112 6.1", post!("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"), Refuses(TransferEncoding), "chunked once"),
    row("9112 6.1", post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), Refuses(TransferEncoding), "the same"),
    row("9112 6.1", post!("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), Refuses(TransferEncoding), "TE.TE: one reader uses the first, another the last"),
    row("9112 6.1", post!("Transfer-Encoding: xchunked", "0\r\n\r\n"), Refuses(NotChunkedLast), "the whole name, or it is another coding"),
    row("9112 6.1", post!("Transfer-Encoding: chunked;q=1", "0\r\n\r\n"), Refuses(NotChunkedLast), "the same"),
    row("9112 6.1", post!("Transfer-Encoding: \"chunked\"", "0\r\n\r\n"), Refuses(NotChunkedLast), "the same"),
    row("9112 6.1", post!("Transfer-Encoding: \u{b}chunked", "0\r\n\r\n"), Refuses(Malformed), "a vertical tab is not a space"),
    row("9112 6.1", post!("Transfer-Encoding:", ""), Refuses(NotChunkedLast), "an empty list has no coding"),
    row("9112 6.1", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refuses(TransferEncodingIn10), "HTTP/1.0 has no chunks"),
    row("9110 9.3.1", get!("Content-Length: 0"), Passes(&[get!("Content-Length: 0")]), "no body"),
    row("9110 9.3.1", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", Passes(&["GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"]), "CL.0: an endpoint that does not read this body must not read it as the next request, so its connection ends here"),
    row("9110 9.3.5", "DELETE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Passes(&["DELETE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"]), "the same"),
    row("9112 6.3", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&[post!("Content-Length: 5", "hello"), "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"]), "bytes after the body are the next request"),
    row("9112 6.3", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello!GET /2 HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&[post!("Content-Length: 5", "hello"), "!GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"]), "the same: a token is a method"),
    row("9112 6.3", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello{GET /2 HTTP/1.1\r\nHost: a\r\n\r\n", PassesThenRefuses(&[post!("Content-Length: 5", "hello")], Malformed), "the same: this is not a token"),
];

const CHUNKS: &[Row] = &[
    row("9112 7.1", chunks!("5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\n"), Passes(&[chunks!("5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\n")]), "chunks are forwarded unchanged"),
    row("9112 7.1.1", chunks!("5;a=\"b;c\" ; d\r\nhello\r\n0;e\r\n\r\n"), Passes(&[chunks!("5\r\nhello\r\n0\r\n\r\n")]), "extensions are dropped: readers that skip them differently disagree about where the chunk begins"),
    row("9112 7.1.1", chunks!("5;\nxx\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "TERM.EXT: a bare LF within one"),
    row("9112 7.1.1", chunks!("5;a\rb\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "a bare CR within one"),
    row("9112 7.1.1", chunks!("5;\0\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "control bytes within one"),
    row("9112 7.1.1", chunks!("1‖;{x*20000}\r\n"), Cuts(chunks!("1"), Chunk), "more than 16 KiB of them are an attack"),
    row("9112 7.1", chunks!("5 \r\nhello\r\n0\r\n\r\n"), Refuses(ChunkPadding), "digits, and then the line end"),
    row("9112 7.1", chunks!(" 5\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "the same"),
    row("9112 7.1", chunks!("5\t;x\r\nhello\r\n0\r\n\r\n"), Refuses(ChunkPadding), "the same"),
    row("9112 7.1", chunks!("0x5\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "the same"),
    row("9112 7.1", chunks!("+5\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "the same"),
    row("9112 7.1", chunks!("-1\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "the same"),
    row("9112 7.1", chunks!("\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "at least one"),
    row("9112 7.1", chunks!("10000000000000005\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "2^64 + 5 becomes 5 if numbers overflow: 15 digits at most"),
    row("9112 7.1", chunks!("0000000000000005\r\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "the same"),
    row("9112 7.1", chunks!("5\nhello\r\n0\r\n\r\n"), Refuses(Chunk), "a bare LF does not end a line here either"),
    row("9112 7.1", chunks!("5\rhello\r\n0\r\n\r\n"), Refuses(Chunk), "nor a bare CR"),
    row("9112 7.1", chunks!("5\r\nhello0\r\n\r\n"), Refuses(Chunk), "data ends in a CRLF"),
    row("9112 7.1", chunks!("5\r\nhello\n0\r\n\r\n"), Refuses(Chunk), "the same"),
    row("9112 7.1", chunks!("5\r\nhello!\r\n0\r\n\r\n"), Refuses(Chunk), "where its size says"),
    row("9112 7.1", chunks!("5\r\nhello\r\n‖x\r\n"), Cuts(chunks!("5\r\nhello\r\n"), Chunk), "too late to refuse: the forwarded part never ends"),
    row("9110 6.5.1", chunks!("0\r\nEtag: \"a\"\r\n\r\n"), Passes(&[chunks!("0\r\n\r\n")]), "trailers are dropped unless the route lists them"),
    row("9110 6.5.1", chunks!("0\r\nContent-Length: 5\r\n\r\n"), Refuses(Trailer), "and fields are refused that would have a meaning if merged into the head"),
    row("9110 6.5.1", chunks!("0\r\nTransfer-Encoding: chunked\r\n\r\n"), Refuses(Trailer), "the same"),
    row("9110 6.5.1", chunks!("0\r\nHost: b\r\n\r\n"), Refuses(Trailer), "the same"),
    row("9110 6.5.1", chunks!("0\r\nX-Forwarded-For: spoof\r\n\r\n"), Refuses(Trailer), "the same"),
    row("9110 6.5.1", chunks!("0\r\nContent_Length: 5\r\n\r\n"), Refuses(Trailer), "the same"),
    row("9110 6.5.1", chunks!("0\r\nX-Client-Cert-Verified: spoof\r\n\r\n"), Refuses(Trailer), "the same"),
    row("9110 6.5.1", chunks!("0\r\nAuthorization: x\r\n\r\n"), Refuses(Trailer), "the same"),
    row("9112 5.1", chunks!("0\r\nA : b\r\n\r\n"), Refuses(Trailer), "a trailer is a field"),
    row("9112 5.2", chunks!("0\r\nA: b\r\n c\r\n\r\n"), Refuses(Trailer), "on one line"),
    row("9112 2.2", chunks!("0\r\nA: b\nC: d\r\n\r\n"), Refuses(Trailer), "that ends in a CRLF"),
    row("9112 2.2", chunks!("0\r\n\n"), Refuses(Trailer), "as does the last line"),
    row("9112 7.1.2", chunks!("0\r\nA: {x*20000}\r\n\r\n"), Refuses(TrailersTooLarge), "more than 16 KiB of them are an attack"),
    row("9112 7.1", chunks!("0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"), Passes(&[chunks!("0\r\n\r\n"), "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"]), "bytes after it are the next request"),
];

const CONNECTIONS: &[Row] = &[
    row("9110 7.6.1", get!("Connection: keep-alive, x-a\r\nX-A: b\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close"), Passes(&[BARE]), "these fields are for this hop"),
    row("9110 7.6.1", get!("Connection: close,{x,*32}\r\nX: b"), Passes(&["GET / HTTP/1.1\r\nHost: a\r\n\r\n"]), "no client needs to name more"),
    row("9110 7.6.1", get!("Connection: {x,*16}\r\nConnection: {x,*17}"), Refuses(Nominated), "each name is searched in all fields"),
    row("9110 7.6.1", post!("Connection: content-length, host, x-forwarded-for", ""), Passes(&["POST / HTTP/1.1\r\nHost: a\r\n\r\n"]), "fields that the proxy controls cannot be named"),
    row("9110 7.6.1", post!("Connection: content-length\r\nContent-Length: 5", "hello"), Passes(&[post!("Content-Length: 5", "hello")]), "the same"),
    row("9110 7.6.1", post!("Connection: transfer-encoding\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), Passes(&[chunks!("0\r\n\r\n")]), "the same"),
    row("9110 10.1.4", get!("TE: trailers, gzip"), Passes(&[BARE]), "only chunked, so there is nothing to choose"),
    row("9110 10.1.1", post!("Expect: 100-continue\r\nContent-Length: 5", "hello"), Passes(&[post!("Expect: 100-continue\r\nContent-Length: 5", "hello")]), "the endpoint decides"),
    row("9110 10.1.1", get!("Expect: 100-continue"), Passes(&[BARE]), "no body to continue with"),
    row("9110 10.1.1", "POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", Passes(&[post!("Content-Length: 5", "hello")]), "HTTP/1.0 has no interim responses"),
    row("9110 10.1.1", post!("Expect: 200-ok\r\nContent-Length: 5", "hello"), Refuses(Expectation), "no other expectation exists"),
    row("9110 10.1.1", post!("Expect: x 100-continue\r\nContent-Length: 5", "hello"), Refuses(Expectation), "readers that look for a part of it would wait, others would not"),
    row("9110 10.1.1", post!("Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 5", "hello"), Refuses(Expectation), "the same"),
    row("9110 7.8", get!("Upgrade: websocket"), Passes(&[BARE]), "only with the option in Connection"),
    row("9110 7.8", post!("Connection: upgrade\r\nUpgrade: tcp\r\nContent-Length: 5", "hello"), Passes(&[post!("Upgrade: tcp\r\nContent-Length: 5\r\nConnection: upgrade, close", "hello")]), "the body first, then the tunnel; an endpoint that ignores the body must not read it as a request"),
    row("9110 7.8", post!("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 5", "hello"), Passes(&[post!("Content-Length: 5", "hello")]), "a WebSocket never follows a body"),
    row("9110 7.8", concat!(post!("Connection: upgrade\r\nUpgrade: tcp\r\nContent-Length: 5", "hello"), get!("A: b")), Passes(&[post!("Upgrade: tcp\r\nContent-Length: 5\r\nConnection: upgrade, close", "hello"), get!("A: b")]), "the endpoint did not switch protocols, so the next bytes are the next request"),
    row("9110 7.8", "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello", Passes(&["GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"]), "not after a body that the endpoint may ignore"),
    row("9110 7.8", get!("Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM"), Passes(&[BARE]), "HTTP/2 in a tunnel would carry requests that are neither routed nor counted"),
    row("9110 7.8", get!("Connection: upgrade\r\nUpgrade: websocket, h2c"), Passes(&[BARE]), "the same"),
    row("9110 7.8", get!("Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket"), Passes(&[get!("Upgrade: websocket\r\nConnection: upgrade")]), "of several fields, the last counts"),
    row("9110 7.6.2", "OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\n\r\n", Passes(&["OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 2\r\n\r\n"]), "one hop fewer"),
    row("9110 7.6.2", "TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 001\r\nA: b\r\n\r\n", Passes(&["TRACE / HTTP/1.1\r\nHost: a\r\nA: b\r\nMax-Forwards: 0\r\n\r\n"]), "the same"),
    row("9110 7.6.2", "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 99999999999\r\n\r\n", Passes(&["OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 999999999\r\n\r\n"]), "the maximum count here"),
    row("9110 7.6.2", "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", Answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "no hop is left: evenkeel responds itself"),
    row("9110 9.3.8", "TRACE /a HTTP/1.1\r\nHost: a\r\nCookie: b\r\nVia: 1.1 c\r\nMax-Forwards: 0\r\n\r\n", Answers("HTTP/1.1 200 OK\r\nContent-Type: message/http\r\nContent-Length: 59\r\n\r\nTRACE /a HTTP/1.1\r\nHost: a\r\nVia: 1.1 c\r\nMax-Forwards: 0\r\n\r\n"), "with the fields that describe how the request came, and without any that could be secret"),
    row("9110 7.6.2", "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: -1\r\n\r\n", Refuses(MaxForwards), "a number"),
    row("9110 7.6.2", "TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 1\r\nMax-Forwards: 0\r\n\r\n", Refuses(MaxForwards), "and one"),
    row("9110 7.6.2", get!("Max-Forwards: 0"), Passes(&[get!("Max-Forwards: 0")]), "it has no meaning for other methods"),
    row("9112 9.3", "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\nGET /3 HTTP/1.0\r\n\r\n", Passes(&[BARE, "GET /2 HTTP/1.1\r\nHost: 192.0.2.1:8080\r\n\r\n"]), "HTTP/1.0 keeps the connection only if it says so"),
    row("9112 9.6", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", Passes(&[BARE]), "bytes after a close are not a request"),
];

const LIMITS: &[Row] = &[
    row("9110 15.5.15", "GET /{x*40000} HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(HeadTooLarge), "a head fits `limits.headers`"),
    row("6585 5", "GET / HTTP/1.1\r\nHost: a\r\nA: {x*40000}\r\n\r\n", Refuses(HeadTooLarge), "the same"),
    row("9112 2.2", "{\r\n*20000}GET / HTTP/1.1\r\nHost: a\r\n\r\n", Refuses(HeadTooLarge), "empty lines count too"),
    row("6585 5", "GET / HTTP/1.1\r\nHost: a\r\n{A: b\r\n*100}\r\n", Refuses(TooManyFields), "and has as many fields as are allowed"),
    row("9110 7.2", "GET / HTTP/1.1\r\nHost: {x*600}\r\n\r\n", Refuses(HostMalformed), "a name has 253 bytes at most"),
];
