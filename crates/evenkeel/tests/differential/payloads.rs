//! Ambiguous messages: some base messages times all changes that apply to them, and known attacks as they are. Each request in
//! them has a path of its own, by which it is recognised.

/// Bytes that a client sends over a connection.
pub struct Payload {
    /// Unique, and the same in each run.
    pub name: String,
    pub bytes: String,
}

/// A request that hides in bodies: 33 bytes, 21 in hexadecimal.
const HIDDEN: &str = "GET /@@@@/x HTTP/1.1\r\nHost: a\r\n\r\n";

/// Stands for [`HIDDEN`].
const MARK: &str = "<hidden>";

/// Request that follows a base message on its connection.
const NEXT: &str = "GET /@@@@/b HTTP/1.1\r\nHost: a\r\n\r\n";

const BASES: &[(&str, &str)] = &[
    ("length", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("chunks", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n<hidden>\r\n0\r\n\r\n"),
    ("old", "POST /@@@@/a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("get", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("expecting", "PUT /@@@@/a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("CL.TE", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n<hidden>"),
    ("TE.CL", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n21\r\n<hidden>\r\n0\r\n\r\n"),
];

/// The first of this becomes that, in the messages that have it.
const CHANGES: &[(&str, &[&str])] = &[
    (
        "Content-Length: 33",
        &[
            "Content-Length : 33", "Content-Length\t: 33", " Content-Length: 33", "\tContent-Length: 33",
            "Content_Length: 33", "Content-Length\0: 33", "Content-Length\r: 33", "Content-Length\n: 33",
            "X: y\nContent-Length: 33", "X: y\rContent-Length: 33", "X:\r\n Content-Length: 33",
            "Content-Length:\r\n 33", "Content-Length: 0\r\nContent-Length: 33", "Content-Length: 33\r\nContent-Length: 0",
            "Content-Length: 33\r\nContent-Length: 33", "Content-Length: 33, 0", "Content-Length: 0, 33",
            "Content-Length: 33,", "Content-Length: +33", "Content-Length: -33", "Content-Length: 0x21",
            "Content-Length: 033", "Content-Length: 0033", "Content-Length:\t33", "Content-Length: \t 33 \t",
            "Content-Length:\u{b}33", "Content-Length: 33\0", "Content-Length: 33 0", "Content-Length: 3 3",
            "Content-Length: \"33\"", "Content-Length: 33.0", "Content-Length: 33e0", "Content-Length: 33;x",
            "Content-Length:", "Content-Length: ", "Content-Length33", "Content-Length; 33", "Content-Length= 33",
            "Connection: content-length\r\nContent-Length: 33", "Content-Length: 18446744073709551649",
            "Content-Length: 4294967329", "Content-Length: 34", "Content-Length: 32", "Content-Length: 5",
            "Content-Length: 0", "X-Content-Length: 33", "cONTENT-lENGTH:33", "Content-Length: 33\r\nTransfer-Encoding: identity",
            "Content-Length: 33\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 33",
            "Content-Length: 33\r\nTransfer_Encoding: chunked", "Content-Length: 33\r\nTransfer-Encoding : chunked",
        ],
    ),
    (
        "Transfer-Encoding: chunked",
        &[
            "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", " Transfer-Encoding: chunked",
            "\tTransfer-Encoding: chunked", "Transfer_Encoding: chunked", "Transfer-Encoding\0: chunked",
            "X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked", "X:\r\n Transfer-Encoding: chunked",
            "Transfer-Encoding:\r\n chunked", "Transfer-Encoding:\n chunked", "Transfer-Encoding: xchunked",
            "Transfer-Encoding: x chunked", "Transfer-Encoding: chunkedx", "Transfer-Encoding: chunked\0",
            "Transfer-Encoding: \u{b}chunked", "Transfer-Encoding: \u{c}chunked", "Transfer-Encoding:\tchunked",
            "Transfer-Encoding: chunked ", "Transfer-Encoding: chunked\t", "Transfer-Encoding: CHUNKED",
            "Transfer-Encoding: Chunked", "transfer-encoding:chunked", "Transfer-Encoding: \"chunked\"",
            "Transfer-Encoding: 'chunked'", "Transfer-Encoding: chunked;x", "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked",
            "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked,", "Transfer-Encoding: ,chunked",
            "Transfer-Encoding: identity", "Transfer-Encoding:", "Transfer-Encoding: cow",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow",
            "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            "Connection: transfer-encoding\r\nTransfer-Encoding: chunked", "Transfer-Encoding: \u{ff}chunked",
            "X: y\r\rTransfer-Encoding: chunked", "Transfer-Encoding: chun\u{212a}ed",
        ],
    ),
    (
        "21\r\n<hidden>",
        &[
            "21;a\r\n<hidden>", "21;a=b\r\n<hidden>", "21;a=\"b;c\"\r\n<hidden>", "21 ;a\r\n<hidden>", "21;\n<hidden>",
            "21;a\nb\r\n<hidden>", "21;a\rb\r\n<hidden>", "21;\r\r\n<hidden>", "21;a=\"\r\n\"\r\n<hidden>", "21;\0\r\n<hidden>",
            "021\r\n<hidden>", "000000000000021\r\n<hidden>", "0000000000000000021\r\n<hidden>", "0x21\r\n<hidden>",
            "+21\r\n<hidden>", "-21\r\n<hidden>", " 21\r\n<hidden>", "21 \r\n<hidden>", "21\t\r\n<hidden>", "21\n<hidden>",
            "21\r<hidden>", "\r\n21\r\n<hidden>", "10000000000000021\r\n<hidden>", "100000021\r\n<hidden>", "21,\r\n<hidden>",
            "21_\r\n<hidden>", "2 1\r\n<hidden>", "21\0\r\n<hidden>", "21h\r\n<hidden>", "22\r\n<hidden>", "20\r\n<hidden>",
            "\u{b}21\r\n<hidden>", "1\r\n\r\n20\r\n<hidden>", "00\r\n<hidden>",
        ],
    ),
    (
        "\r\n0\r\n\r\n",
        &[
            "0\r\n\r\n", "\n0\r\n\r\n", "\r0\r\n\r\n", "xx0\r\n\r\n", "\r\n0\n\r\n", "\r\n0\r\n\n", "\r\n0\n\n", "\r\n0\r\n",
            "\r\n", "\r\n00\r\n\r\n", "\r\n0;a\r\n\r\n", "\r\n0;a\n\r\n", "\r\n0 \r\n\r\n", "\r\n-0\r\n\r\n", "\r\n0x0\r\n\r\n",
            "\r\n0\r\nA: b\r\n\r\n", "\r\n0\r\nContent-Length: 33\r\n\r\n", "\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\r\n0\r\nHost: b\r\n\r\n", "\r\n0\r\nContent_Length: 33\r\n\r\n", "\r\n0\r\nX-Forwarded-For: 1\r\n\r\n",
            "\r\n0\r\nA : b\r\n\r\n", "\r\n0\r\n A: b\r\n\r\n", "\r\n0\r\nA: b\r\n c\r\n\r\n", "\r\n0\r\nA: b\n\r\n",
            "\r\n0\r\nA: b\r\rX: y\r\n\r\n", "\r\n0\r\nA\r\n\r\n", "\r\n0\r\n\r\r\n", "\r\n0\r\nGET /@@@@/x HTTP/1.1\r\n\r\n",
            "\r\n0\r\nA: \0\r\n\r\n",
        ],
    ),
    (
        "Expect: 100-continue",
        &[
            "Expect: 100-Continue", "Expect: x", "Expect:", "Expect: 100-continue, x", "Expect: x 100-continue",
            "Expect:\r\n 100-continue", "Expect: 100-continue\r\nExpect: 100-continue", "Expect : 100-continue",
            "Expect: 100-continue\r\nConnection: expect", "Expect: 100-continue;x", "Expect: 100", "Expect:\t100-continue ",
        ],
    ),
    (
        "Connection: keep-alive",
        &[
            "Connection: close", "Connection: keep-alive, close", "Connection: close\r\nConnection: keep-alive",
            "Connection: x", "Connection: \0", "Keep-Alive: timeout=5", "Connection: keep-alive\r\nTransfer-Encoding: chunked",
            "Proxy-Connection: keep-alive", "Connection : keep-alive", "Connection:\r\n keep-alive",
        ],
    ),
];

/// Changes for [`GENERAL_BASES`] alone, as any message would do.
const GENERAL: &[(&str, &[&str])] = &[
    (
        "POST ",
        &[
            "\r\nPOST ", "\r\n\r\nPOST ", "\nPOST ", "\rPOST ", " POST ", "\0POST ", "POST  ", "POST\t", "POST\0 ", "P(ST ",
            "post ", "GPOST ", "POST\u{b}", "POST\r\n ", "\u{feff}POST ", "CONNECT ", "TRACE ", "HEAD ", "OPTIONS ", "DELETE ",
        ],
    ),
    (
        " /@@@@/a",
        &[
            " http://a/@@@@/a", " http://b/@@@@/a", " https://a/@@@@/a", " http://u@a/@@@@/a", " //@@@@/a", " @@@@/a", " *",
            " /@@@@/a#f", " /@@@@/a b", " /@@@@/a\u{1}", " /@@@@/\u{e9}", " /@@@@/a\t", " /@@@@/a?b", " /@@@@/../@@@@/a",
            " http:///@@@@/a", " a:80", " ?/@@@@/a", " /@@@@/a%20HTTP/1.1%0d%0aX:y", " \\@@@@/a",
        ],
    ),
    (
        " HTTP/1.1\r\n",
        &[
            " HTTP/1.1\n", " HTTP/1.1\r", "  HTTP/1.1\r\n", "\tHTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/0.9\r\n", " HTTP/1.2\r\n",
            " HTTP/2.0\r\n", " http/1.1\r\n", "\r\n", " HTTP/1.1 HTTP/1.1\r\n", " HTTP/1.1 \r\n", " HTTP/1.10\r\n", " HTTP/1\r\n",
            " HTTP/1.1\r\n\r\n", " HTTP/1.1\r\n ", " HTTP/1.1\r\r\n", " HTTP/+1.1\r\n", " HTTP/01.1\r\n",
        ],
    ),
    (
        "Host: a\r\n",
        &[
            "", "Host:\r\n", "Host: a\r\nHost: a\r\n", "Host: a\r\nHost: b\r\n", "Host: a, b\r\n", "Host: u@a\r\n", "Host: a:b\r\n",
            "Host: a:65536\r\n", "Host: a/b\r\n", "Host : a\r\n", " Host: a\r\n", "Host:\ta\r\n", "Host: a\r\n b\r\n", "Host: a\nX: y\r\n",
            "hOST:a\r\n", "Host\0: a\r\n", "Host: [::1]\r\n", "Host: [::1\r\n", "Host: a b\r\n", "Host: a\r\nHost : b\r\n",
            "Host: a\r\nConnection: host\r\n", "Host: a#b\r\n", "X: y\r\n\r\nHost: a\r\n",
            "Host: a\r\nConnection: close\r\n", "Host: a\r\nTE: trailers, chunked\r\n", "Host: a\r\nTrailer: content-length\r\n",
            "Host: a\r\nX: \0\r\n", "Host: a\r\nX: \u{e9}\r\n", "Host: a\r\n: x\r\n", "Host: a\r\nX\r\n", "Host: a\r\nX y: z\r\n",
            "Host: a\r\nX: y\r\n z\r\n", "Host: a\r\nX: y\r\rz\r\n", "Host: a\r\nX: \u{7f}\r\n",
            "Host: a\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n",
            "Host: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n", "Host: a\r\nX-Forwarded-For: 1\r\nX_Forwarded_For: 1\r\n",
            "Host: a\r\nConnection: close, x-forwarded-for\r\n", "Host: a\r\nX-HTTP-Method-Override: GET\r\n",
        ],
    ),
    (
        "\r\n\r\n",
        &["\n\n", "\r\n\n", "\n\r\n", "\r\n\r\r\n", "\r\n \r\n\r\n", "\r\n\t\r\n\r\n", "\r\n:\r\n\r\n", "\r\r\n\r\n", "\r\n\0\r\n\r\n", "\r\n"],
    ),
];
const GENERAL_BASES: [&str; 2] = ["length", "chunks"];

/// Attacks as they were published, and what does not come of one change.
const KNOWN: &[(&str, &str)] = &[
    ("0.CL: a length that a GET hides", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 33\r\n\r\n<hidden>"),
    ("CL.0: a length that redirects ignore", "POST /@@@@/a/.. HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("CL.0 with HEAD", "HEAD /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("CL.0 with OPTIONS", "OPTIONS /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("CL.0 with DELETE", "DELETE /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("TE.0: chunks that OPTIONS ignore", "OPTIONS /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n<hidden>\r\n0\r\n\r\n"),
    ("CL.0 with the last hop of OPTIONS", "OPTIONS /@@@@/a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("one hop of TRACE is left", "TRACE /@@@@/a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 1\r\n\r\n<hidden>"),
    ("chunks in a GET", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n<hidden>\r\n0\r\n\r\n"),
    ("chunks in HTTP/1.0", "POST /@@@@/a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n<hidden>"),
    ("chunks and a length in HTTP/1.0", "POST /@@@@/a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 38\r\n\r\n0\r\n\r\n<hidden>"),
    ("TERM.EXT", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;\nxx\r\n26\r\n0\r\n\r\n<hidden>\r\n0\r\n\r\n"),
    ("EXT.TERM", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n26;\n0\r\n\r\n<hidden>\r\n0\r\n\r\n"),
    ("TERM.SPILL", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello26\r\n\r\n0\r\n\r\n<hidden>\r\n0\r\n\r\n"),
    ("SPILL.TERM", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX\r\n0\r\n\r\n<hidden>"),
    ("a length of 0 and chunks", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n<hidden>\r\n0\r\n\r\n"),
    ("two lengths around a fold", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\nX: y\r\n Content-Length: 0\r\n\r\n<hidden>"),
    ("no body, and a request behind", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\n\r\n<hidden>"),
    ("a request behind a close", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n<hidden>"),
    ("a request behind HTTP/1.0", "GET /@@@@/a HTTP/1.0\r\nHost: a\r\n\r\n<hidden>"),
    ("a request behind HTTP/0.9", "GET /@@@@/a\r\n<hidden>"),
    ("a request in a field", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nX: \r\nGET /@@@@/x HTTP/1.1\r\n\r\n"),
    ("a request behind a bare LF", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nX: y\n\n<hidden>"),
    ("a request behind a bare CR", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nX: y\r\r<hidden>"),
    ("an expectation without a body", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n<hidden>"),
    ("an expectation that hides a length", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nExpect: x 100-continue\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("an upgrade with a body", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 33\r\n\r\n<hidden>"),
    ("an upgrade to HTTP/2", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n<hidden>"),
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n<hidden>"),
    ("CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n<hidden>"),
    ("many empty lines", "\r\n\r\n\r\n\r\nGET /@@@@/a HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\n<hidden>"),
    ("two requests and a broken one", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\n\r\n<hidden>GET /@@@@/c HTTP/1.1\r\nHost : a\r\n\r\n"),
    ("a head without an end", "GET /@@@@/a HTTP/1.1\r\nHost: a\r\nX: "),
    ("a body without an end", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n<hidden>"),
    ("a chunk without an end", "POST /@@@@/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n<hidden>"),
];

/// All of them, in the order of their numbers.
pub fn all() -> Vec<Payload> {
    let mut all = Vec::new();
    let mut add = |name: String, message: &str| {
        let number = format!("{:04}", all.len());
        let bytes = format!("{message}{NEXT}").replace(MARK, HIDDEN).replace("@@@@", &number);
        all.push(Payload { name, bytes });
    };
    for (base, message) in BASES {
        add((*base).to_string(), message);
        let general = GENERAL.iter().filter(|_| GENERAL_BASES.contains(base));
        for (find, changes) in CHANGES.iter().chain(general).filter(|(find, _)| message.contains(find)) {
            for change in *changes {
                let name = format!("{base}: {} for {}", change.escape_debug(), find.escape_debug());
                add(name, &message.replacen(find, change, 1));
            }
        }
    }
    for (name, message) in KNOWN {
        add((*name).to_string(), message);
    }
    all
}
