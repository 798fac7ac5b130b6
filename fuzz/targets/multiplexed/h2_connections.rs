//! Our HTTP/2 engine compared with the `h2` crate. Both get the same meaningful frames, right and wrong, and
//! must either refuse the connection or receive the same requests with the same bodies.
#![no_main]

use evenkeel_wire::h2::{Config, Connection, Event, PREFACE, Received};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

fuzz_target!(|bytes: &[u8]| {
    let sent = client(bytes);
    let (mut ours, by_us) = ours(&sent);
    let (mut theirs, by_them) = theirs(&sent);
    // A stream error may end the connection (RFC 9113 section 5.4.2), and so may later frames of that stream.
    if theirs.refused != ours.refused && !(by_us.is_empty() && by_them.is_empty()) {
        return;
    }
    // `h2` accepts trailers with pseudo fields, and still reports what the client has reset after it was
    // complete.
    for stream in by_us.into_iter().chain(std::mem::take(&mut ours.gone)) {
        ours.reset(stream);
        theirs.reset(stream);
    }
    assert_eq!(ours, theirs, "{}", sent.escape_ascii());
});

/// Requests that a server has received.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// True if the connection was refused. Earlier requests are not compared, because `h2` reports them late.
    refused: bool,
    /// Streams reset by the client, as reported by our engine.
    gone: Vec<u32>,
    requests: BTreeMap<u32, Request>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Request {
    path: String,
    body: Vec<u8>,
    trailers: bool,
    end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Whole,
    Reset,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Frames of a client. Three bytes each select type, stream and variant.
fn client(bytes: &[u8]) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    frame(4, 0, 0, &[], &mut out);
    let (mut highest, mut begun) = (0, vec![0]);
    for step in bytes.chunks_exact(3).take(24) {
        let [what, stream, how] = [step[0], step[1], step[2]];
        // A known stream or the next one: the engines differ in what they remember of skipped ones. Malformed
        // heads always open a stream, or the order in which two faults are noticed would matter.
        let known = begun.get(usize::from(stream) % (begun.len() + 2)).copied().filter(|_| what % 20 != 5);
        let id = known.unwrap_or((highest + 1) | 1);
        if id > highest && what % 20 <= 8 {
            highest = id;
            begun.push(id);
        }
        let end = how & 1;
        let path = format!("/{}", how >> 4);
        let mut fields = vec![(":method", "POST"), (":scheme", "http"), (":path", &*path), (":authority", "a")];
        match what % 20 {
            0..=3 => frame(1, 4 | end, id, &block(&fields), &mut out),
            4 => {
                let length = (how >> 4).to_string();
                fields.push(("content-length", &length));
                frame(1, 4 | end, id, &block(&fields), &mut out);
            }
            5 => {
                // Malformed in ways that leave no doubt.
                match how >> 1 & 7 {
                    0 => fields.push(("X-Upper", "1")),
                    1 => fields.push(("connection", "close")),
                    2 => fields.push((":path", "/2")),
                    3 => fields.push((":unknown", "1")),
                    4 => fields.push(("transfer-encoding", "chunked")),
                    5 => drop(fields.remove(0)),
                    6 => fields.push(("te", "gzip")),
                    _ => fields.push((":status", "200")),
                }
                frame(1, 4 | end, id, &block(&fields), &mut out);
            }
            6 => {
                let block = block(&fields);
                let (first, second) = block.split_at(usize::from(how) % block.len());
                frame(1, end, id, first, &mut out);
                frame(9, 4, if how & 2 == 0 { id } else { id + 2 }, second, &mut out);
            }
            7 => frame(1, 5, id, &block(&[("x-sum", "1")]), &mut out),
            8 => frame(1, 5 | 8 | 32, id, &[&[how & 3, 0, 0, 0, 0, 9][..], &block(&fields), &[0; 3][..usize::from(how & 3)]].concat(), &mut out),
            9..=12 => frame(0, end, id, &bytes[..usize::from(how >> 4).min(bytes.len())], &mut out),
            13 => frame(0, end | 8, id, &[&[how >> 5][..], &[7; 5]].concat(), &mut out),
            14 => frame(3, 0, id, &[0, 0, 0, 8][..4 - usize::from(how & 8 > 0)], &mut out),
            15 => {
                let more = u32::from(how).wrapping_shl(u32::from(how & 3) * 8);
                // Not by 0, which our engine ignores on a closed stream.
                let more = if id > 0 { more.max(1) } else { more };
                frame(8, 0, id, &more.to_be_bytes(), &mut out);
            }
            16 => {
                let value = [0, 1, 65_535, 70_000, 1 << 31, u32::MAX][usize::from(how >> 3) % 6];
                let setting = [&[0, how & 7][..], &value.to_be_bytes()].concat();
                frame(4, 0, 0, &setting[..6 - usize::from(how & 64 > 0)], &mut out);
            }
            17 => frame(6, end, if how & 2 == 0 { 0 } else { id }, &[0; 8][..8 - usize::from(how & 4 > 0)], &mut out),
            18 => frame(2, 0, id, &[0, 0, 0, 99, 1], &mut out),
            _ => frame(11 + (how >> 4), how, id, b"unknown", &mut out),
        }
    }
    out
}

/// Runs our engine. Also returns the streams that it reset.
fn ours(sent: &[u8]) -> (Heard, Vec<u32>) {
    let mut side = Connection::server(Config::default(), 0);
    let mut heard = Heard::default();
    let mut at = 0;
    loop {
        match side.receive(&sent[at..], 0) {
            Err(_) => return (Heard { refused: true, ..Heard::default() }, resets(side.output())),
            Ok(Received { used: 0, event: None }) => return (heard, resets(side.output())),
            Ok(Received { used, event }) => {
                match event {
                    Some(Event::Head { stream, head }) => {
                        let end = if head.ends { End::Whole } else { End::Open };
                        heard.requests.insert(stream, Request { path: head.path, end, ..Request::default() });
                    }
                    Some(Event::Data { stream, range, flow, ends }) => {
                        side.consumed(stream, flow as usize);
                        let request = heard.requests.get_mut(&stream).expect("it has begun");
                        request.body.extend_from_slice(&sent[at..][range]);
                        request.end = if ends { End::Whole } else { End::Open };
                    }
                    Some(Event::Trailers { stream, .. }) => {
                        let request = heard.requests.get_mut(&stream).expect("it has begun");
                        (request.trailers, request.end) = (true, End::Whole);
                    }
                    Some(Event::Reset { stream, .. }) => heard.gone.push(stream),
                    _ => {}
                }
                at += used;
            }
        }
    }
}

/// Streams with an RST_STREAM among these frames.
fn resets(mut frames: &[u8]) -> Vec<u32> {
    let mut streams = Vec::new();
    while let Some((front, rest)) = frames.split_first_chunk::<9>() {
        let [a, b, c, kind, _, stream @ ..] = *front;
        if kind == 3 {
            streams.push(u32::from_be_bytes(stream));
        }
        frames = rest.get(u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
    }
    streams
}

impl Heard {
    /// Forgets a request. Its parts are not compared, because `h2` discards them.
    fn reset(&mut self, stream: u32) {
        self.requests.remove(&stream);
    }
}

/// A client that has sent everything, and accepts whatever arrives.
struct Sent<'s> {
    left: &'s [u8],
    got: &'s RefCell<Vec<u8>>,
}

impl AsyncRead for Sent<'_> {
    fn poll_read(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let n = self.left.len().min(buf.remaining());
        if n == 0 {
            return Poll::Pending;
        }
        buf.put_slice(&self.left[..n]);
        self.left = &self.left[n..];
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sent<'_> {
    fn poll_write(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.got.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Runs the `h2` crate. Also returns the streams that it reset.
fn theirs(sent: &[u8]) -> (Heard, Vec<u32>) {
    let got = RefCell::new(Vec::new());
    let heard = heard_by_theirs(Sent { left: sent, got: &got });
    (heard, resets(&got.borrow()))
}

fn heard_by_theirs(sent: Sent<'_>) -> Heard {
    let cx = &mut Context::from_waker(Waker::noop());
    let refused = || Heard { refused: true, ..Heard::default() };
    let mut handshake = pin!(
        h2::server::Builder::new().max_concurrent_streams(100).initial_window_size(256 << 10).handshake::<_, bytes::Bytes>(sent)
    );
    let Poll::Ready(connection) = handshake.as_mut().poll(cx) else { return refused() };
    let Ok(mut connection) = connection else { return refused() };
    let mut heard = Heard::default();
    let mut open = Vec::new();
    // Each turn processes everything received; streams report it afterwards.
    for _ in 0..64 {
        while let Poll::Ready(accepted) = connection.poll_accept(cx) {
            let Some(Ok((request, respond))) = accepted else { return refused() };
            let (parts, body) = request.into_parts();
            let id = body.stream_id().as_u32();
            let path = parts.uri.path().to_string();
            heard.requests.insert(id, Request { path, ..Request::default() });
            open.push((id, body, respond));
        }
    }
    for (id, mut body, _respond) in open {
        let request = heard.requests.get_mut(&id).expect("it is there");
        loop {
            match body.poll_data(cx) {
                Poll::Ready(Some(Ok(part))) => request.body.extend_from_slice(&part),
                Poll::Ready(Some(Err(_))) => {
                    request.end = End::Reset;
                    break;
                }
                Poll::Pending => break,
                Poll::Ready(None) => {
                    match body.poll_trailers(cx) {
                        Poll::Ready(Ok(trailers)) => (request.trailers, request.end) = (trailers.is_some(), End::Whole),
                        Poll::Ready(Err(_)) => request.end = End::Reset,
                        Poll::Pending => {}
                    }
                    break;
                }
            }
        }
        if request.end == End::Reset {
            heard.reset(id);
        }
    }
    heard
}
