//! Both sides of the HTTP/2 engine on any bytes: they are accepted or refused, the output is bounded by the
//! input, and splitting the input changes nothing.
#![no_main]

use evenkeel_wire::h2::{Config, Connection, ErrorCode, Event, PREFACE, Received};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

// The first byte selects the size of reads, and the meaning of the rest: raw bytes, or frames as kind, flags,
// stream, payload length and payload, so that most of them are complete.
fuzz_target!(|bytes: &[u8]| {
    let [mode, rest @ ..] = bytes else { return };
    let mut frames = Vec::new();
    if mode & 1 == 0 {
        frames.extend_from_slice(rest);
    } else {
        frames = whole_frames(rest);
    }
    let cut = 1 + usize::from(mode >> 1);
    for is_server in [true, false] {
        let whole = hear(is_server, &frames, usize::MAX);
        assert!(whole == hear(is_server, &frames, cut), "reads of {cut} bytes");
        // The smallest answer is a frame without payload.
        assert!(whole.written <= 4 * frames.len() + 64, "{} of {}", whole.written, frames.len());
    }
});

fn whole_frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    while let [kind, flags, stream, len, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        frames.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        frames.extend_from_slice(&[kind % 12, *flags, 0, 0, 0, *stream]);
        frames.extend_from_slice(payload);
        bytes = rest;
    }
    frames
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// Heads, trailers, resets and so on, in order.
    events: Vec<String>,
    /// Data of each stream; true if it is complete.
    data: BTreeMap<u32, (Vec<u8>, bool)>,
    error: Option<ErrorCode>,
    written: usize,
}

fn hear(is_server: bool, frames: &[u8], cut: usize) -> Heard {
    // Small enough for inputs to reach the limits.
    let config = Config { max_streams: 4, max_header_list: 512, max_fields: 12, header_table: 256, ..Config::default() };
    let mut side;
    let mut bytes = Vec::new();
    if is_server {
        side = Connection::server(config, 0);
        bytes.extend_from_slice(PREFACE);
    } else {
        side = Connection::client(config, 0);
        for method in [&b"GET"[..], b"HEAD", b"CONNECT"] {
            let fields: [(&[u8], &[u8]); 2] = [(b":method", method), (b":authority", b"a:1")];
            side.open(fields.into_iter(), method == b"GET").expect("it may");
        }
    }
    bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(frames);
    let before = side.output().len();
    let (mut heard, mut held) = (Heard::default(), Vec::new());
    for part in bytes.chunks(cut) {
        held.extend_from_slice(part);
        loop {
            match side.receive(&held, 0) {
                Err(error) => {
                    heard.error = Some(error.code);
                    heard.written = side.output().len() - before;
                    return heard;
                }
                Ok(Received { used: 0, event: None }) => break,
                Ok(Received { used, event }) => {
                    assert!(used <= held.len());
                    match event {
                        Some(Event::Data { stream, range, flow, ends }) => {
                            assert!(range.end <= used && range.len() == flow as usize);
                            let data = heard.data.entry(stream).or_default();
                            assert!(!data.1, "data behind the end");
                            data.0.extend_from_slice(&held[range]);
                            data.1 = ends;
                        }
                        Some(event) => heard.events.push(format!("{event:?}")),
                        None => {}
                    }
                    held.drain(..used);
                }
            }
        }
        assert!(held.len() < (16 << 10) + 9, "it waits for more than a frame");
    }
    assert!(side.open_streams() <= 4);
    heard.written = side.output().len() - before;
    heard
}
