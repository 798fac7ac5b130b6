//! Long because it is a table: HTTP/2 requests and their results, a row in each line.

/// A request on one stream, and its result.
pub struct Row {
    /// Sections of RFCs that define the result.
    pub rfc: &'static str,
    /// The head's fields, a line each. Then, each after a `‖`: `DATA ` and bytes, or `TRAILERS ` and fields. The last
    /// part ends the stream. `{x*9}` stands for nine `x`.
    pub sent: &'static str,
    pub does: Does,
    pub why: &'static str,
}

/// Results. Requests are written as the endpoint gets them, without the `X-Forwarded-*` and `CDN-Loop` at their end.
pub enum Does {
    /// The request is answered by the endpoint.
    Passes(&'static str),
    /// The proxy answers with this status, and the endpoint sees nothing.
    Answers(u16),
    /// The stream is reset with `PROTOCOL_ERROR`, and the endpoint sees nothing.
    Resets,
    /// The stream is reset after the endpoint got this part of a message, and its connection is closed.
    Cuts(&'static str),
}
use Does::*;

macro_rules! get {
    ($lines:literal) => {
        concat!(":method: GET⏎:scheme: http⏎:path: /⏎:authority: a", $lines)
    };
}

macro_rules! post {
    ($lines:literal) => {
        concat!(":method: POST⏎:scheme: http⏎:path: /⏎:authority: a", $lines)
    };
}

const fn row(rfc: &'static str, sent: &'static str, does: Does, why: &'static str) -> Row {
    Row { rfc, sent, does, why }
}

/// A request for `/` as the endpoint gets it, without anything that was removed.
const BARE: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

pub const SECTIONS: &[(&str, &[Row])] = &[
    ("Pseudo-header fields", PSEUDO),
    ("Paths and authorities of HTTP/2", PATHS),
    ("Names of fields in HTTP/2", NAMES),
    ("Values of fields in HTTP/2", VALUES),
    ("Fields of a connection in HTTP/2", CONNECTION),
    ("Bodies in HTTP/2", BODIES),
];

const PSEUDO: &[Row] = &[
    row("9113 8.3.1", get!(""), Passes(BARE), "the simplest request"),
    row("9113 8.3.1", ":authority: a⏎:path: /⏎:scheme: http⏎:method: GET", Passes(BARE), "in any order"),
    row("9113 8.3.1", ":scheme: http⏎:path: /⏎:authority: a", Resets, "a request needs a method"),
    row("9113 8.3.1", ":method: GET⏎:path: /⏎:authority: a", Resets, "each but `:authority` is required"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:authority: a", Resets, "the same"),
    row("9113 8.3.1", ":method: ⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "an empty method would begin a request line with a space"),
    row("9113 8.3.1", ":method: GET⏎:scheme: ⏎:path: /⏎:authority: a", Resets, "an empty scheme is not a scheme"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: ⏎:authority: a", Resets, "an empty path would leave a request line of two words"),
    row("9113 8.3.1", ":method: GET⏎:method: GET⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "twice: two readers could use different values"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: /⏎:path: /x⏎:authority: a", Resets, "the same"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:scheme: https⏎:path: /⏎:authority: a", Resets, "the same"),
    row("9113 8.3.1", get!("⏎:authority: b"), Resets, "the same"),
    row("9113 8.3", ":method: GET⏎x: y⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "pseudo-header fields come first"),
    row("9113 8.3", get!("⏎:status: 200"), Resets, "a pseudo-header field of responses"),
    row("9113 8.3", get!("⏎:spoof: x"), Resets, "unknown"),
    row("8441 4", get!("⏎:protocol: websocket"), Resets, "only for an extended CONNECT"),
    row("9113 8.3", ":Method: GET⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "names are lower case"),
    row("9110 9.1", ":method: get⏎:scheme: http⏎:path: /⏎:authority: a", Passes("get / HTTP/1.1\r\nHost: a\r\n\r\n"), "methods are case-sensitive, so this is not GET"),
    row("9110 9.1", ":method: PURGE⏎:scheme: http⏎:path: /⏎:authority: a", Passes("PURGE / HTTP/1.1\r\nHost: a\r\n\r\n"), "any token is a method; the endpoint decides if it knows it"),
    row("9110 9.1", ":method: G T⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "a method is a token: the endpoint would read `T` as the path"),
    row("9110 9.1", ":method: GET /spoof HTTP/1.1\\r\\nHost: a\\r\\n\\r\\nGET⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "a whole request in the method"),
    row("9110 9.1", ":method: G(T⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "a method is a token"),
    row("9110 9.1", ":method: É⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "the same"),
    row("9113 8.5", ":method: CONNECT⏎:authority: a:443", Answers(501), "a tunnel would carry requests that are neither routed nor counted"),
    row("9113 8.5", ":method: CONNECT⏎:scheme: http⏎:path: /⏎:authority: a", Resets, "CONNECT has no path"),
    row("9113 8.3.1", ":method: GET⏎:scheme: https⏎:path: /⏎:authority: a", Passes(BARE), "the scheme is not trusted: `X-Forwarded-Proto` is the scheme of the connection"),
    row("9113 8.3.1", ":method: GET⏎:scheme: ftp⏎:path: /⏎:authority: a", Resets, "requests of other schemes are not served here"),
    row("9113 8.3.1", ":method: GET⏎:scheme: HTTP⏎:path: /⏎:authority: a", Resets, "schemes are sent in lower case"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http://spoof/⏎:path: /⏎:authority: a", Resets, "a URL in the scheme: some would put it before the path"),
];

const PATHS: &[Row] = &[
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: /a/b?c=d&e⏎:authority: a", Passes("GET /a/b?c=d&e HTTP/1.1\r\nHost: a\r\n\r\n"), "a path and its query, unchanged"),
    row("9113 8.3.1", ":method: OPTIONS⏎:scheme: http⏎:path: *⏎:authority: a", Passes("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), "only for OPTIONS"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: *⏎:authority: a", Resets, "the same"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: a⏎:authority: a", Resets, "a path begins with a slash"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: http://b/⏎:authority: a", Resets, "an absolute target: its host would win over `Host`"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: ?a⏎:authority: a", Resets, "a path begins with a slash"),
    row("9113 8.2.1", ":method: GET⏎:scheme: http⏎:path: / HTTP/1.1\\r\\nHost: spoof\\r\\n\\r\\n⏎:authority: a", Resets, "a whole request in the path"),
    row("9113 8.2.1", ":method: GET⏎:scheme: http⏎:path: /a b⏎:authority: a", Resets, "a space ends a target in HTTP/1"),
    row("9113 8.2.1", ":method: GET⏎:scheme: http⏎:path: /a\\tb⏎:authority: a", Resets, "the same"),
    row("9113 8.2.1", ":method: GET⏎:scheme: http⏎:path: /a\\nb⏎:authority: a", Resets, "the same"),
    row("9113 8.2.1", ":method: GET⏎:scheme: http⏎:path: /a\\0b⏎:authority: a", Resets, "some readers end a string there"),
    row("9113 8.2.1", ":method: GET⏎:scheme: http⏎:path: /\\x7f⏎:authority: a", Resets, "a control character"),
    row("3986 3.3", ":method: GET⏎:scheme: http⏎:path: /é⏎:authority: a", Resets, "only ASCII"),
    row("3986 3.5", ":method: GET⏎:scheme: http⏎:path: /a#b⏎:authority: a", Resets, "a fragment never leaves its client, and routing by path must see what the endpoint sees"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: //b/c⏎:authority: a", Passes("GET //b/c HTTP/1.1\r\nHost: a\r\n\r\n"), "still a path"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: /⏎host: a", Passes(BARE), "a host without an authority, as sent by clients that translate HTTP/1"),
    row("9113 8.3.1", get!("⏎host: a"), Passes(BARE), "both, and the same"),
    row("9113 8.3.1", get!("⏎host: A"), Passes("GET / HTTP/1.1\r\nHost: A\r\n\r\n"), "hosts are not case-sensitive"),
    row("9113 8.3.1", get!("⏎host: spoof"), Resets, "both, and different: two readers could use different values"),
    row("9113 8.3.1", get!("⏎host: a⏎host: a"), Resets, "twice"),
    row("9113 8.3.1", get!("⏎host: "), Resets, "different"),
    row("9112 3.2", ":method: GET⏎:scheme: http⏎:path: /", Passes("GET / HTTP/1.1\r\nHost: 192.0.2.1:8080\r\n\r\n"), "without a host, the request is for the address that the client connected to"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: ", Resets, "an authority may be absent, not empty"),
    row("9113 8.3.1", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: user@a", Resets, "no user: a reader that takes the part before the `@` as the host routes elsewhere"),
    row("3986 3.2.2", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: a b", Resets, "not a host"),
    row("3986 3.2.2", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: a/spoof", Resets, "not a host"),
    row("3986 3.2.2", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: a\\r\\nspoof: x", Resets, "a field in the host"),
    row("3986 3.2.2", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: a, b", Resets, "not a host"),
    row("3986 3.2.3", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: a:99999", Answers(400), "not a port"),
    row("3986 3.2.3", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: a:80:80", Answers(400), "not a port"),
    row("3986 3.2.2", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: [::1]:80", Passes("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), "an IPv6 address"),
    row("3986 3.2.2", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: [::1", Answers(400), "a part of one"),
    row("3986 3.2.2", ":method: GET⏎:scheme: http⏎:path: /⏎:authority: {a*600}", Answers(400), "longer than any name"),
];

const NAMES: &[Row] = &[
    row("9113 8.2.1", get!("⏎x-y_z.1: a"), Passes("GET / HTTP/1.1\r\nHost: a\r\nx-y_z.1: a\r\n\r\n"), "a name is a token"),
    row("9113 8.2.1", get!("⏎X: a"), Resets, "in lower case: a case-sensitive reader would see a different field"),
    row("9113 8.2.1", get!("⏎Content-Length: 5"), Resets, "the same, where it matters"),
    row("9113 8.2.1", get!("⏎: a"), Resets, "without a name the line would begin with its colon"),
    row("9113 8.2.1", get!("⏎x y: a"), Resets, "a space in a name: some readers end the name there"),
    row("9113 8.2.1", get!("⏎ x: a"), Resets, "a line that begins with a space continues the previous line"),
    row("9113 8.2.1", get!("⏎x : a"), Resets, "white space before the colon"),
    row("9113 8.2.1", get!("⏎\\tx: a"), Resets, "the same with tabs"),
    row("9113 8.2.1", get!("⏎x\\r\\nspoof: a"), Resets, "a second field in the name"),
    row("9113 8.2.1", get!("⏎x\\nspoof: a"), Resets, "the same"),
    row("9113 8.2.1", get!("⏎x\\0: a"), Resets, "some readers end a string there"),
    row("9113 8.2.1", get!("⏎x\\x7f: a"), Resets, "a control character"),
    row("9113 8.2.1", get!("⏎é: a"), Resets, "only ASCII"),
    row("9113 8.2.1", get!("⏎x(: a"), Resets, "not a token"),
    row("9113 8.2.1", get!("⏎transfer-encoding\\x0b: chunked"), Resets, "white space of other readers"),
    row("9113 8.2.1", get!("⏎\"x\": a"), Resets, "not a token"),
    row("9113 8.2.1", get!("⏎x/y: a"), Resets, "not a token"),
    row("9113 8.2.1", get!("⏎x{y: a"), Resets, "not a token"),
    row("9110 5.1", get!("⏎content_length: 5"), Passes(BARE), "some endpoints read `_` as `-`"),
    row("9110 5.1", get!("⏎transfer_encoding: chunked"), Passes(BARE), "the same"),
    row("9110 5.1", get!("⏎x-forwarded-for: 192.0.2.9"), Passes(BARE), "the connection determines the sender"),
    row("9110 5.1", get!("⏎forwarded: for=192.0.2.9"), Passes(BARE), "the same"),
];

const VALUES: &[Row] = &[
    row("9113 8.2.1", get!("⏎x: "), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: \r\n\r\n"), "a value may be empty"),
    row("9113 8.2.1", get!("⏎x: a\\tb"), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: a\tb\r\n\r\n"), "white space within a value"),
    row("9110 5.5", get!("⏎x: é"), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: é\r\n\r\n"), "bytes above 127 have no meaning here, and are kept"),
    row("9113 8.2.1", get!("⏎x:  a"), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: a\r\n\r\n"), "white space around a value is dropped, as in HTTP/1"),
    row("9113 8.2.1", get!("⏎x: a "), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: a\r\n\r\n"), "the same"),
    row("9113 8.2.1", get!("⏎x: a\\t"), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: a\r\n\r\n"), "the same"),
    row("9113 8.2.1", get!("⏎x: \\ta"), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: a\r\n\r\n"), "the same"),
    row("9113 8.2.1", get!("⏎x: a\\r\\nspoof: b"), Resets, "a second field in the value"),
    row("9113 8.2.1", get!("⏎x: a\\nspoof: b"), Resets, "the same"),
    row("9113 8.2.1", get!("⏎x: a\\rspoof: b"), Resets, "the same"),
    row("9113 8.2.1", get!("⏎x: a\\r\\n\\r\\nGET /spoof HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"), Resets, "a second request in the value"),
    row("9113 8.2.1", get!("⏎x: a\\r\\n b"), Resets, "a folded line"),
    row("9113 8.2.1", get!("⏎x: a\\0b"), Resets, "some readers end a string there"),
    row("9110 5.5", get!("⏎x: a\\x01b"), Resets, "a control character"),
    row("9110 5.5", get!("⏎x: a\\x7fb"), Resets, "the same"),
    row("9113 8.2.3", get!("⏎cookie: a=1⏎cookie: b=2⏎x: y⏎cookie: c=3"), Passes("GET / HTTP/1.1\r\nHost: a\r\nx: y\r\ncookie: a=1; b=2; c=3\r\n\r\n"), "crumbs of cookies are one field in HTTP/1"),
    row("9110 10.1.1", get!("⏎expect: 100-continue"), Passes(BARE), "no body to continue with"),
    row("9110 10.1.1", get!("⏎expect: spoof"), Answers(417), "another expectation"),
    row("9110 7.6.2", ":method: TRACE⏎:scheme: http⏎:path: /⏎:authority: a⏎max-forwards: 5", Passes("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 4\r\n\r\n"), "counted down"),
    row("9113 10.5.1", get!("⏎x: {a*17000}"), Answers(431), "more than `limits.headers`"),
    row("9113 10.5.1", get!("{⏎x: a*101}"), Answers(431), "more than `limits.header_count`"),
];

const CONNECTION: &[Row] = &[
    row("9113 8.2.2", get!("⏎connection: close"), Resets, "connection fields have no meaning here, but would in HTTP/1"),
    row("9113 8.2.2", get!("⏎connection: x⏎x: y"), Resets, "the same"),
    row("9113 8.2.2", get!("⏎connection: "), Resets, "the same"),
    row("9113 8.2.2", get!("⏎keep-alive: 5"), Resets, "the same"),
    row("9113 8.2.2", get!("⏎proxy-connection: close"), Resets, "the same"),
    row("9113 8.2.2", get!("⏎transfer-encoding: chunked"), Resets, "the length of a body is that of its frames"),
    row("9113 8.2.2", get!("⏎transfer-encoding: identity"), Resets, "the same"),
    row("9113 8.2.2", get!("⏎transfer-encoding: "), Resets, "the same"),
    row("9113 8.2.2", post!("⏎transfer-encoding: chunked‖DATA 0\\r\\n\\r\\nGET /spoof HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"), Resets, "a request after a last chunk"),
    row("9113 8.2.2", get!("⏎upgrade: websocket"), Resets, "HTTP/2 does not switch protocols"),
    row("9113 8.2.2", get!("⏎upgrade: h2c"), Resets, "the same"),
    row("9113 8.2.2", get!("⏎te: trailers"), Passes(BARE), "trailers may follow; the endpoint does not learn that, since in HTTP/1 the field applies to each connection"),
    row("9113 8.2.2", get!("⏎te: gzip"), Resets, "only `trailers`"),
    row("9113 8.2.2", get!("⏎te: trailers, gzip"), Resets, "the same"),
    row("7540 3.2.1", get!("⏎http2-settings: AAM"), Passes(BARE), "of a connection, as `upgrade`"),
    row("8441 4", ":method: CONNECT⏎:protocol: h2c⏎:scheme: http⏎:path: /⏎:authority: a⏎http2-settings: AAM", Answers(501), "a tunnel of HTTP/2 would carry requests that are neither routed nor counted"),
    row("8441 4", ":method: CONNECT⏎:protocol: connect-udp⏎:scheme: http⏎:path: /⏎:authority: a", Answers(501), "only WebSocket"),
];

const BODIES: &[Row] = &[
    row("9113 8.1.1", post!("⏎content-length: 5‖DATA hello"), Passes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"), "a correct length"),
    row("9113 8.1", post!("‖DATA hello"), Passes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "a body without a length is sent in chunks"),
    row("9113 8.1", post!("‖DATA "), Passes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "also a body without bytes, if its end was not known"),
    row("9110 8.6", post!(""), Passes("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), "no body"),
    row("9110 8.6", post!("⏎content-length: 0"), Passes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), "no body, as announced"),
    row("9113 8.1.1", post!("⏎content-length: 5"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"), "no body although one is announced: the endpoint would read the next request as the body"),
    row("9113 8.1.1", post!("⏎content-length: 0‖DATA hello"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), "a body although none is announced: the endpoint would read it as the next request"),
    row("9113 8.1.1", post!("⏎content-length: 4‖DATA hello"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"), "more than announced: the endpoint would read the rest as the next request"),
    row("9113 8.1.1", post!("⏎content-length: 6‖DATA hello"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n"), "less than announced: the endpoint would read the missing bytes from the next request"),
    row("9113 8.1.1", post!("⏎content-length: 5‖DATA he‖DATA llo‖DATA x"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"), "more than announced, in parts"),
    row("9110 8.6", post!("⏎content-length: 5⏎content-length: 5‖DATA hello"), Resets, "twice: some readers add them, others use the first or the last"),
    row("9110 8.6", post!("⏎content-length: 5⏎content-length: 6‖DATA hello"), Resets, "the same"),
    row("9110 8.6", post!("⏎content-length: 5, 5‖DATA hello"), Resets, "the same in a list"),
    row("9110 8.6", post!("⏎content-length: +5‖DATA hello"), Resets, "only digits"),
    row("9110 8.6", post!("⏎content-length: 0x5‖DATA hello"), Resets, "the same"),
    row("9110 8.6", post!("⏎content-length: 5a‖DATA hello"), Resets, "the same"),
    row("9110 8.6", post!("⏎content-length: ‖DATA hello"), Resets, "the same"),
    row("9110 8.6", post!("⏎content-length: -1‖DATA hello"), Resets, "the same"),
    row("9110 8.6", post!("⏎content-length: 18446744073709551621‖DATA hello"), Resets, "2^64 + 5 becomes 5 if numbers overflow"),
    row("9110 8.6", post!("⏎content-length: 05‖DATA hello"), Passes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"), "some readers parse a leading zero as octal"),
    row("9113 8.1", post!("‖DATA 0\\r\\n\\r\\nGET /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"), Passes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n"), "bytes that look like a last chunk are content"),
    row("9110 9.3.1", get!("‖DATA hello"), Passes("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "an endpoint that ignores such a body reads it as the next request, so its connection carries no other request"),
    row("9110 9.3.1", get!("⏎content-length: 5‖DATA hello"), Passes("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"), "the same"),
    row("9113 8.1", post!("‖DATA hi‖TRAILERS x-sum: 7"), Passes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "trailers are dropped unless the route lists them"),
    row("9113 8.1", post!("⏎content-length: 2‖DATA hi‖TRAILERS x-sum: 7"), Passes("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"), "a body with a length has none in HTTP/1"),
    row("9110 6.5.1", post!("‖DATA hi‖TRAILERS content-length: 9⏎transfer-encoding: chunked"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "fields that frame a message do not trail it"),
    row("9110 6.5.1", post!("‖DATA hi‖TRAILERS host: spoof"), Passes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "nor fields that route it"),
    row("9113 8.1", post!("‖DATA hi‖TRAILERS :path: /spoof"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "nor pseudo-header fields"),
    row("9113 8.2.1", post!("‖DATA hi‖TRAILERS x: a\\r\\n\\r\\nGET /spoof HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "a request in a trailer"),
    row("9113 8.2.1", post!("‖DATA hi‖TRAILERS X: a"), Cuts("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "names are lower case there too"),
];
