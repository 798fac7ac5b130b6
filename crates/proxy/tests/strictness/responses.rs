//! The table of HTTP/1 responses and their results, a row in each line.

use evenkeel_wire::http1::Reject::{self, *};

/// A response of an endpoint, and its result.
pub struct Row {
    /// Sections of RFCs that define the result.
    pub rfc: &'static str,
    /// Request that is answered.
    pub asked: Asked,
    /// All bytes that the endpoint sends. `{x*9}` stands for nine `x`.
    pub sent: &'static str,
    pub ends: Ends,
    pub does: Does,
    pub why: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Get,
    Head,
    /// A POST of which the endpoint reads only the head.
    Post,
    /// A GET that asks for a switch to WebSocket.
    Switch,
}
use Asked::*;

/// Behaviour of the endpoint after its response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    Keeps,
    Closes,
}
use Ends::*;

/// Response that the client gets.
pub enum Does {
    /// This response, and the endpoint's connection carries the next request.
    Passes(&'static str),
    /// This response, and the endpoint's connection is closed.
    PassesLast(&'static str),
    /// These bytes, and then the connection is closed without what would complete the message.
    Cuts(&'static str),
    /// A 502 with this reason.
    Refuses(Reject),
}
use Does::*;

macro_rules! ok {
    ($lines:literal) => {
        concat!("HTTP/1.1 200 OK\r\n", $lines)
    };
}

const fn row(rfc: &'static str, asked: Asked, sent: &'static str, ends: Ends, does: Does, why: &'static str) -> Row {
    Row { rfc, asked, sent, ends, does, why }
}

pub const SECTIONS: &[(&str, &[Row])] = &[("Heads", HEADS), ("Bodies", BODIES), ("Around a response", AROUND)];

const HEADS: &[Row] = &[
    row("9112 4", Get, "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", Keeps, Refuses(Malformed), "three digits"),
    row("9112 4", Get, "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", Keeps, Refuses(Malformed), "from 100 on"),
    row("9112 4", Get, "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", Keeps, Refuses(Malformed), "one space"),
    row("9112 4", Get, "HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n", Keeps, Refuses(Malformed), "no control bytes"),
    row("9112 4", Get, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Keeps, Passes("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"), "some servers omit the space; the client gets it"),
    row("9110 2.5", Get, "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", Keeps, Passes(ok!("Content-Length: 0\r\n\r\n")), "a later minor version is read as the latest known version"),
    row("9112 2.3", Get, "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", Keeps, Refuses(Version), "only versions with known framing"),
    row("9112 2.3", Get, "ICY 200 OK\r\n\r\n", Closes, Refuses(Malformed), "not HTTP at all"),
    row("9112 2.2", Get, "HTTP/1.1 200 OK\nContent-Length: 0\n\n", Keeps, Refuses(BareLf), "as in requests"),
    row("9112 2.2", Get, "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Keeps, Passes(ok!("Content-Length: 0\r\n\r\n")), "some servers send an empty line after a body; it has no meaning and is removed"),
    row("9112 2.2", Get, "\r\n!HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Closes, Refuses(Malformed), "nothing else may precede a response"),
    row("9112 5.1", Get, ok!("Content-Length : 0\r\nA\t : b\r\n\r\n"), Keeps, Passes(ok!("Content-Length: 0\r\nA: b\r\n\r\n")), "white space before a colon is removed"),
    row("9112 5.1", Get, ok!("A b: c\r\nContent-Length: 0\r\n\r\n"), Keeps, Refuses(Malformed), "not that within a name"),
    row("9112 5.1", Get, ok!(" A: b\r\nContent-Length: 0\r\n\r\n"), Keeps, Refuses(Malformed), "nor before it"),
    row("9112 5.2", Get, ok!("A: b\r\n c\r\nContent-Length: 0\r\n\r\n"), Keeps, Refuses(Folded), "the RFC leaves the choice: 502, or a space"),
    row("9110 5.5", Get, ok!("A: b\rc\r\nContent-Length: 0\r\n\r\n"), Keeps, Refuses(Malformed), "as in requests"),
    row("9110 7.6.1", Get, ok!("Connection: x-a, content-length\r\nX-A: b\r\nKeep-Alive: max=5\r\nContent-Length: 0\r\n\r\n"), Keeps, Passes(ok!("Content-Length: 0\r\n\r\n")), "as in requests"),
    row("9110 7.6.1", Get, ok!("Connection: {x,*33}\r\nContent-Length: 0\r\n\r\n"), Closes, Refuses(Nominated), "as in requests"),
    row("9112 9.3", Get, ok!("Connection: close\r\nContent-Length: 0\r\n\r\n"), Keeps, PassesLast(ok!("Content-Length: 0\r\n\r\n")), "fields about the endpoint's connection are not for the client"),
    row("9112 9.3", Get, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", Keeps, PassesLast(ok!("Content-Length: 0\r\n\r\n")), "HTTP/1.0 closes"),
    row("6585 5", Get, ok!("A: {x*70000}\r\n\r\n"), Closes, Refuses(HeadTooLarge), "a head fits `limits.response_headers` of the pool"),
    row("6585 5", Get, ok!("{A: b\r\n*1025}\r\n"), Closes, Refuses(TooManyFields), "and has 1,024 fields at most"),
];

const BODIES: &[Row] = &[
    row("9112 6.3", Get, ok!("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), Keeps, Refuses(LengthAndChunked), "one reader goes by the length, another by chunks"),
    row("9112 6.3", Get, ok!("Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), Keeps, Refuses(SameLengthRepeated), "as in requests"),
    row("9112 6.3", Get, ok!("Content-Length: 5, 6\r\n\r\nhello"), Keeps, Refuses(LengthRepeated), "the same"),
    row("9112 6.3", Get, ok!("Content-Length: +5\r\n\r\nhello"), Keeps, Refuses(LengthMalformed), "the same"),
    row("9112 6.3", Get, ok!("Content-Length:\t05\r\n\r\nhello"), Keeps, Passes(ok!("Content-Length: 5\r\n\r\nhello")), "the same: rewritten"),
    row("9112 6.1", Get, ok!("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), Keeps, Refuses(TransferEncoding), "as in requests"),
    row("9112 7.1", Get, ok!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), Keeps, Refuses(ChunkedRepeated), "chunks within chunks, or a server that repeats the field"),
    row("9112 6.3", Get, ok!("Transfer-Encoding: identity\r\n\r\nhello"), Closes, Refuses(Identity), "the RFC would read to the end of the connection, some readers by the length that is also stated"),
    row("9112 6.1", Get, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Closes, Refuses(TransferEncodingIn10), "as in requests"),
    row("9112 6.3", Get, ok!("\r\nhello"), Closes, PassesLast(ok!("Connection: close\r\n\r\nhello")), "a body without a stated length ends with its connection"),
    row("9112 7.1.1", Get, ok!("Transfer-Encoding: CHUNKED\r\n\r\n5;a=b\r\nhello\r\n0;c\r\n\r\n"), Keeps, Passes(ok!("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")), "as in requests"),
    row("9110 6.5.1", Get, ok!("Transfer-Encoding: chunked\r\n\r\n0\r\nEtag: \"a\"\r\n\r\n"), Keeps, Passes(ok!("Transfer-Encoding: chunked\r\n\r\n0\r\nEtag: \"a\"\r\n\r\n")), "trailers of responses are forwarded"),
    row("9110 6.5.1", Get, ok!("Transfer-Encoding: chunked\r\n\r\n0\r\nSet-Cookie: a=b\r\n\r\n"), Keeps, Refuses(Trailer), "as in requests"),
    row("9112 7.1", Get, ok!("Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"), Keeps, Refuses(ChunkPadding), "as in requests"),
    row("9112 7.1", Get, ok!("Transfer-Encoding: chunked\r\n\r\n{0100\r\n{x*256}\r\n*200}5\nhello\r\n0\r\n\r\n"), Keeps, Cuts(ok!("Transfer-Encoding: chunked\r\n\r\n")), "too late to refuse: the forwarded part never ends"),
    row("9112 8", Get, ok!("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), Closes, Cuts(ok!("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")), "no end, so the client gets no end either"),
    row("9112 8", Get, ok!("Content-Length: 10\r\n\r\nhello"), Closes, Cuts(ok!("Content-Length: 10\r\n\r\nhello")), "the same"),
    row("9112 6.3", Head, ok!("Content-Length: 5\r\n\r\n"), Keeps, Passes(ok!("Content-Length: 5\r\n\r\n")), "the length that a GET would have"),
    row("9112 6.3", Head, ok!("Content-Length: 5\r\n\r\nhello"), Keeps, PassesLast(ok!("Content-Length: 5\r\n\r\n")), "a body that must not exist: it is not read as the next response"),
    row("9110 15.3.5", Get, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", Keeps, PassesLast("HTTP/1.1 204 No Content\r\n\r\n"), "the same"),
    row("9110 15.3.5", Get, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", Keeps, PassesLast("HTTP/1.1 204 No Content\r\n\r\n"), "a late last chunk is not read as the next response"),
    row("9110 15.4.5", Get, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", Keeps, PassesLast("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"), "the same"),
    row("9110 15.4.5", Get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello", Keeps, PassesLast("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), "the same; the length is that of the body that was not sent"),
];

const AROUND: &[Row] = &[
    row("9112 9.3", Get, ok!("Content-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"), Keeps, PassesLast(ok!("Content-Length: 0\r\n\r\n")), "a response without a request is not the next client's"),
    row("9112 9.3", Get, ok!("Content-Length: 5\r\n\r\nhello!"), Keeps, PassesLast(ok!("Content-Length: 5\r\n\r\nhello")), "the same"),
    row("9112 9.3", Get, ok!("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n!"), Keeps, PassesLast(ok!("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")), "the same"),
    row("9112 9.5", Post, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", Keeps, PassesLast("HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), "the response came before the body: the rest of the body must not be the next request"),
    row("9112 9.6", Post, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Keeps, PassesLast(ok!("Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n")), "the same: the close is announced"),
    row("9112 9.6", Post, "HTTP/1.1 401 No\r\n\r\n", Closes, PassesLast("HTTP/1.1 401 No\r\nConnection: close\r\n\r\n"), "the same"),
    row("9110 15.2", Get, "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Keeps, Passes("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "interim responses never have a body"),
    row("9110 15.2", Get, "{HTTP/1.1 103 Early Hints\r\n\r\n*17}", Keeps, Refuses(InterimTooMany), "16 interim responses are enough for a request"),
    row("9110 15.2.2", Get, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", Keeps, Refuses(SwitchNotAsked), "the client would read a response instead of a tunnel"),
    row("9110 15.2.2", Switch, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n", Keeps, Refuses(SwitchNotAsked), "without a target"),
    row("9110 15.2.2", Switch, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", Keeps, Refuses(SwitchNotAsked), "HTTP/2 is never requested"),
    row("9110 15.2.2", Switch, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello", Closes, PassesLast("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nhello"), "all that follows is a tunnel"),
    row("9110 15", Get, "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", Keeps, Passes("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"), "its meaning is for the client"),
];
