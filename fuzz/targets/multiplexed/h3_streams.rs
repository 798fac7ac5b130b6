//! Both sides of the HTTP/3 engine on streams with any bytes: they are accepted or refused, and splitting them changes
//! nothing.
#![no_main]

use evenkeel_wire::h3::{
    Config, Connection, ConnectionError, ErrorCode, Event, MessageStream, Received, UnidirectionalStream,
};
use libfuzzer_sys::fuzz_target;

// The first byte selects the size of reads, the second the stream, and if the rest is raw bytes or frames as type,
// payload length and payload, so that most of them are complete.
fuzz_target!(|bytes: &[u8]| {
    let [cut, mode, rest @ ..] = bytes else { return };
    let mut stream = Vec::new();
    let is_message = mode & 1 == 0;
    if !is_message {
        // A control stream after its settings, or a stream of any type.
        let start: &[u8] = if mode & 8 == 0 { &[0, 4, 0] } else { &[] };
        stream.extend_from_slice(start);
    }
    if mode & 2 == 0 {
        stream.extend_from_slice(rest);
    } else {
        whole_frames(rest, &mut stream);
    }
    let ends = mode & 4 == 0;
    for is_server in [true, false] {
        let whole = hear(is_server, is_message, &stream, usize::MAX, ends);
        assert_eq!(whole, hear(is_server, is_message, &stream, 1 + usize::from(*cut), ends));
    }
});

fn whole_frames(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let [kind, len, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        match kind {
            0x0..0x40 => out.push(*kind),
            0x40..0x80 => out.extend_from_slice(&[0x80, 0xf, 7, kind & 1]),
            // Most are heads.
            _ => out.push(1),
        }
        if payload.len() < 64 {
            out.push(payload.len() as u8);
        } else {
            out.extend_from_slice(&[0x40, payload.len() as u8]);
        }
        out.extend_from_slice(payload);
        bytes = rest;
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// Heads, trailers, resets and so on, in order.
    events: Vec<String>,
    body: Vec<u8>,
    is_over: bool,
    error: Option<ErrorCode>,
}

fn hear(is_server: bool, is_message: bool, bytes: &[u8], cut: usize, ends: bool) -> Heard {
    // Small enough for inputs to reach the limits.
    let config = Config { max_header_list: 512, max_fields: 12, ..Config::default() };
    let mut side = if is_server { Connection::server(config, 0) } else { Connection::client(config, 0) };
    let asked: [(&[u8], &[u8]); 1] = [(b":method", [&b"GET"[..], b"HEAD", b"CONNECT"][bytes.len() % 3])];
    let mut message = if is_server { MessageStream::request(0) } else { MessageStream::response(asked.into_iter(), 0) };
    let mut other = UnidirectionalStream::default();
    let mut receive = |part: &[u8], ends: bool| -> Result<Received, ConnectionError> {
        if is_message {
            side.receive(&mut message, part, ends, 0)
        } else {
            side.receive_unidirectional(&mut other, part, ends, 0)
        }
    };
    let mut heard = Heard::default();
    let parts = bytes.chunks(cut).map(|part| (part, ends && cut == usize::MAX));
    for (mut part, ends) in parts.chain([(&[][..], ends)]) {
        loop {
            let received = match receive(part, ends) {
                Ok(received) => received,
                Err(error) => {
                    heard.error = Some(error.code);
                    return heard;
                }
            };
            assert!(received.used <= part.len());
            let Some(event) = received.event else {
                assert_eq!(received.used, part.len(), "it consumes all bytes");
                break;
            };
            if !heard.add(event, &part[..received.used]) {
                return heard;
            }
            part = &part[received.used..];
        }
    }
    heard
}

impl Heard {
    /// Adds an event; false if the rest depends on where the end of the stream was known.
    fn add(&mut self, event: Event, bytes: &[u8]) -> bool {
        match event {
            Event::Head(mut head) => {
                assert!(!self.is_over);
                self.is_over = std::mem::take(&mut head.ends);
                self.events.push(format!("{head:?}"));
            }
            Event::Data { range, ends } => {
                assert!(!self.is_over);
                assert!(ends || !range.is_empty());
                self.body.extend_from_slice(&bytes[range]);
                self.is_over = ends;
            }
            Event::Reset { .. } | Event::Refused(_) => {
                let text = match event {
                    Event::Refused(refused) => {
                        format!("{} {} {:?}: {}", refused.head.method, refused.head.path, refused.status, refused.why)
                    }
                    other => format!("{other:?}"),
                };
                // A fault that is known with the head if the end is, too.
                for known in ["the body length differs", "an interim response ends", "without a final response"] {
                    if text.contains(known) {
                        *self = Heard { events: vec!["faulty".into()], ..Heard::default() };
                        return false;
                    }
                }
                self.events.push(text);
            }
            other => self.events.push(format!("{other:?}")),
        }
        true
    }
}
