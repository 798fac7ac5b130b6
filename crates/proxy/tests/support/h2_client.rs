//! A client that sends and reads HTTP/2 frame by frame, valid or not.

use super::SOON;
use evenkeel_wire::h2::hpack::{Decoder, HeaderLimits};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// Connection preface of a client (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

/// An HTTP/2 frame, with its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Frame {
        Frame { kind, flags, stream, payload: payload.into() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = (self.payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// Error code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("4 bytes"))
    }

    /// Last stream that a GOAWAY names.
    pub fn last(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("4 bytes"))
    }
}

/// Result of one request, whether it ended or was reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub heads: Vec<Vec<(String, String)>>,
    pub body: Vec<u8>,
    pub ended: bool,
    pub reset: Option<u32>,
    /// Code of a GOAWAY that came before the end.
    pub goaway: Option<u32>,
}

impl Answer {
    /// Status of the final head; 0 if there was none.
    pub fn status(&self) -> u16 {
        self.field(":status").and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    /// Value of a field of the final head.
    pub fn field(&self, name: &str) -> Option<String> {
        let finals = self.heads.iter().find(|h| !h.iter().any(|(n, v)| n == ":status" && v.starts_with('1')));
        let named = finals?.iter().find(|(n, _)| n == name);
        named.map(|(_, value)| value.clone())
    }

    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Summary in a line, for tables.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        if !self.heads.is_empty() {
            write!(text, "{} ", self.status()).expect("a String takes all");
        }
        if let Some(code) = self.reset {
            write!(text, "RST({code}) ").expect("a String takes all");
        }
        if let Some(code) = self.goaway {
            write!(text, "GOAWAY({code}) ").expect("a String takes all");
        }
        text.trim_end().to_string()
    }
}

/// A client's HTTP/2 connection.
pub struct H2Client {
    pub stream: TcpStream,
    came: Vec<u8>,
    decoder: Decoder,
    /// Fields of the last frame, if it was HEADERS.
    pub head: Vec<(String, String)>,
}

impl H2Client {
    /// Connects, and sends the preface and empty SETTINGS.
    pub fn connect(addr: SocketAddr) -> H2Client {
        let client = H2Client::silent(addr);
        client.send_bytes(PREFACE);
        client.send(&Frame::new(SETTINGS, 0, 0, ""));
        client
    }

    /// Connects, and sends nothing.
    pub fn silent(addr: SocketAddr) -> H2Client {
        let stream = TcpStream::connect(addr).expect("the proxy accepts");
        stream.set_read_timeout(Some(SOON)).expect("sockets have timeouts");
        stream.set_nodelay(true).expect("sockets have that");
        H2Client { stream, came: Vec::new(), decoder: Decoder::new(4096), head: Vec::new() }
    }

    /// Sends bytes. `false` if the proxy has closed.
    pub fn send_bytes(&self, bytes: &[u8]) -> bool {
        (&self.stream).write_all(bytes).is_ok()
    }

    pub fn send(&self, frame: &Frame) -> bool {
        self.send_bytes(&frame.bytes())
    }

    /// Sends the head of a request.
    pub fn head(&self, stream: u32, fields: &[(&str, &str)], ends: bool) -> bool {
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        self.send(&Frame::new(HEADERS, flags, stream, block(fields)))
    }

    /// Sends a GET on this stream.
    pub fn get(&self, stream: u32, path: &str) -> bool {
        self.head(stream, &get(path), true)
    }

    /// Reads the next frame; `None` at the end.
    pub fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = take_frame(&mut self.came) {
                self.head = self.decode(&frame);
                return Some(frame);
            }
            let mut room = [0; 65536];
            match self.stream.read(&mut room) {
                Ok(0) => return None,
                Ok(n) => self.came.extend(&room[..n]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    /// Reads the next frame of a kind, skipping others.
    pub fn next(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    fn decode(&mut self, frame: &Frame) -> Vec<(String, String)> {
        if frame.kind != HEADERS {
            return Vec::new();
        }
        assert_ne!(frame.flags & END_HEADERS, 0, "a short head");
        decode(&mut self.decoder, &frame.payload)
    }

    /// Reads the result of a request, skipping other frames. SETTINGS and PING are acknowledged.
    pub fn answer(&mut self, stream: u32) -> Answer {
        let mut answers = self.answers(&[stream]);
        answers.pop().expect("one")
    }

    /// Reads the results of requests, in the order of `streams`.
    pub fn answers(&mut self, streams: &[u32]) -> Vec<Answer> {
        let mut answers = vec![Answer::default(); streams.len()];
        let is_over = |a: &Answer| a.ended || a.reset.is_some() || a.goaway.is_some();
        while !answers.iter().all(is_over) {
            let Some(frame) = self.frame() else {
                answers.iter_mut().filter(|a| !is_over(a)).for_each(|a| a.goaway = Some(u32::MAX));
                break;
            };
            let head = std::mem::take(&mut self.head);
            let at = streams.iter().position(|s| *s == frame.stream);
            match (frame.kind, at) {
                (GOAWAY, _) if frame.code() != 0 => {
                    answers.iter_mut().filter(|a| !is_over(a)).for_each(|a| a.goaway = Some(frame.code()));
                }
                (SETTINGS, _) if frame.flags & ACK == 0 => {
                    self.send(&Frame::new(SETTINGS, ACK, 0, ""));
                }
                (PING, _) if frame.flags & ACK == 0 => {
                    self.send(&Frame::new(PING, ACK, 0, frame.payload));
                }
                (HEADERS, Some(at)) => {
                    answers[at].heads.push(head);
                    answers[at].ended |= frame.flags & END_STREAM != 0;
                }
                (DATA, Some(at)) => {
                    if !frame.payload.is_empty() {
                        self.give(0, frame.payload.len() as u32);
                        self.give(frame.stream, frame.payload.len() as u32);
                    }
                    answers[at].body.extend(&frame.payload);
                    answers[at].ended |= frame.flags & END_STREAM != 0;
                }
                (RST_STREAM, Some(at)) => answers[at].reset = Some(frame.code()),
                _ => {}
            }
        }
        answers
    }

    /// Sends WINDOW_UPDATE for a stream, or for the connection (0).
    pub fn give(&self, stream: u32, n: u32) -> bool {
        self.send(&Frame::new(WINDOW_UPDATE, 0, stream, n.to_be_bytes()))
    }

    /// Shuts down the sending side, and waits until the proxy closes.
    pub fn ends(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        while self.frame().is_some() {}
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let limits = HeaderLimits { bytes: 1 << 20, fields: 10_000 };
    decoder
        .decode(block, limits, &mut |name: &[u8], value: &[u8]| {
            fields.push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()));
        })
        .expect("a good block");
    fields
}

pub(super) fn take_frame(came: &mut Vec<u8>) -> Option<Frame> {
    let head: [u8; 9] = came.get(..9)?.try_into().expect("9 bytes");
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    if came.len() < 9 + len {
        return None;
    }
    let payload = came[9..9 + len].to_vec();
    came.drain(..9 + len);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Some(Frame { kind: head[3], flags: head[4], stream, payload })
}

/// Fields of a GET for this path.
pub fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a")]
}

/// Encodes fields as literals without indexing, valid or not.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    raw_block(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

/// Like [`block`], for any bytes.
pub fn raw_block<'f>(fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(text.len(), 7, &mut block);
            block.extend(text);
        }
    }
    block
}

/// Appends an HPACK integer with a prefix of `bits` bits; the other bits of its first byte are 0.
fn integer(mut n: usize, bits: u32, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if n < most {
        return out.push(n as u8);
    }
    out.push(most as u8);
    n -= most;
    while n >= 128 {
        out.push((n % 128 + 128) as u8);
        n /= 128;
    }
    out.push(n as u8);
}
