//! What becomes of each row of HTTP/2, in each way in which its request can be framed?

use super::h2_requests::{Does, Row, SECTIONS};
use super::{Seen, expand, page};
use crate::support::h2_client::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, H2Client, HEADERS, get, raw_block,
};
use crate::support::{Proxy, text};

/// `PROTOCOL_ERROR`.
const PROTOCOL_ERROR: u32 = 1;

/// How the frames of a request are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// A frame for each part.
    Whole,
    /// The head in frames of a byte and the rest, each in a write of its own.
    Head,
    /// The stream ends with an empty frame behind the last part.
    End,
}

/// The bytes that a part of a row stands for: `\r`, `\n`, `\t`, `\0`, `\x7f`.
fn unescape(written: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), written.as_bytes());
    while let [first, behind @ ..] = rest {
        let (byte, used) = match behind {
            [b'r', ..] if *first == b'\\' => (b'\r', 2),
            [b'n', ..] if *first == b'\\' => (b'\n', 2),
            [b't', ..] if *first == b'\\' => (b'\t', 2),
            [b'0', ..] if *first == b'\\' => (0, 2),
            [b'x', high, low, ..] if *first == b'\\' => {
                let hex = [*high, *low];
                (u8::from_str_radix(std::str::from_utf8(&hex).expect("digits"), 16).expect("two digits"), 4)
            }
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    bytes
}

/// The block of fields that stand in lines.
fn fields(lines: &str) -> Vec<u8> {
    let fields: Vec<(Vec<u8>, Vec<u8>)> = lines
        .split('⏎')
        .map(|line| {
            // The colon of a pseudo-header field is none.
            let colon = line.char_indices().skip(1).find(|(_, c)| *c == ':').filter(|_| !line.starts_with(": "));
            let at = colon.map_or(0, |(at, _)| at);
            (unescape(&line[..at]), unescape(line[at + 1..].strip_prefix(' ').unwrap_or(&line[at + 1..])))
        })
        .collect();
    raw_block(fields.iter().map(|(name, value)| (&name[..], &value[..])))
}

/// The frames of a row.
fn frames(row: &Row, stream: u32, cut: Cut) -> Vec<Frame> {
    let sent = expand(row.sent);
    let parts: Vec<&str> = sent.split('‖').collect();
    let last = parts.len() - 1;
    let mut frames = Vec::new();
    for (at, part) in parts.into_iter().enumerate() {
        let ends = if at == last && cut != Cut::End { END_STREAM } else { 0 };
        if let Some(data) = part.strip_prefix("DATA ") {
            frames.push(Frame::new(DATA, ends, stream, unescape(data)));
            continue;
        }
        let is_trailers = part.starts_with("TRAILERS ");
        let block = fields(part.strip_prefix("TRAILERS ").unwrap_or(part));
        // Trailers end their stream.
        let ends = if is_trailers { END_STREAM } else { ends };
        if cut == Cut::Head || block.len() > 16_384 {
            let first = if cut == Cut::Head { 1 } else { 16_384 };
            frames.push(Frame::new(HEADERS, ends, stream, &block[..first]));
            for (n, piece) in block[first..].chunks(16_384).enumerate() {
                let is_last = first + (n + 1) * 16_384 >= block.len();
                frames.push(Frame::new(CONTINUATION, if is_last { END_HEADERS } else { 0 }, stream, piece));
            }
        } else {
            frames.push(Frame::new(HEADERS, ends | END_HEADERS, stream, block));
        }
    }
    if cut == Cut::End && frames.last().is_none_or(|frame| frame.flags & END_STREAM == 0) {
        frames.push(Frame::new(DATA, END_STREAM, stream, ""));
    }
    frames
}

/// Whether a row means the same when its end comes in a frame of its own: the endpoint then learns of a body.
fn keeps_meaning(row: &Row) -> bool {
    !matches!(row.does, Does::Passes(_)) || row.sent.contains("‖DATA")
}

#[test]
fn every_request_of_http_2_comes_to_what_its_row_says() {
    let seen = Seen::default();
    let endpoint = seen.endpoint();
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", "");
    let mut client = H2Client::connect(proxy.addr());
    let (mut stream, mut cases) = (1, 0);
    let mut wrong = String::new();
    for row in SECTIONS.iter().flat_map(|(_, rows)| *rows) {
        for cut in [Cut::Whole, Cut::Head, Cut::End] {
            if cut == Cut::End && !keeps_meaning(row) {
                continue;
            }
            cases += 1;
            let shown = format!("{} {cut:?}", page::h2_code(row.sent));
            for frame in frames(row, stream, cut) {
                if !client.send(&frame) {
                    break;
                }
            }
            let answer = client.answer(stream);
            let (count, bytes) = seen.take(&proxy);
            let (want, at_endpoint) = match row.does {
                Does::Passes(bytes) => ("200".to_string(), bytes.to_string()),
                Does::Answers(status) => (status.to_string(), String::new()),
                Does::Resets => (format!("RST({PROTOCOL_ERROR})"), String::new()),
                Does::Cuts(begun) => (format!("RST({PROTOCOL_ERROR})"), begun.to_string()),
            };
            // What is cut may have been whole for the endpoint: it is one request then, and counted.
            let expected = match row.does {
                Does::Passes(_) => 1..=1,
                Does::Cuts(_) => 0..=1,
                Does::Answers(_) | Does::Resets => 0..=0,
            };
            let came = match row.does {
                // How much of it has gone on by then, nothing says.
                Does::Cuts(begun) => bytes.is_empty() || bytes.starts_with(begun) || begun.starts_with(&bytes),
                _ => text(bytes.as_bytes()) == text(at_endpoint.as_bytes()),
            };
            let got = answer.shown();
            // An early answer of this side may end in a reset of the rest.
            let got = got.strip_suffix(" RST(0)").unwrap_or(&got);
            // The endpoint may have answered what was whole for it before the rest came, which ends the request.
            let is_early = matches!(row.does, Does::Cuts(_)) && got == "200" && count == 1;
            if (got != want && !is_early) || !came || !expected.contains(&count) {
                wrong += &format!(
                    "{shown}\n  got {got}, want {want}\n  {count} at the endpoint: {}\n",
                    text(bytes.as_bytes())
                );
            }
            if answer.goaway.is_some() {
                client = H2Client::connect(proxy.addr());
                stream = 1;
                continue;
            }
            // The connection and its table of fields are as they should be.
            client.head(stream + 2, &get("/then"), true);
            let then = client.answer(stream + 2);
            if then.body_text() != "GET /then HTTP/1.1" {
                wrong += &format!("{shown}\n  the next request: {}\n", then.shown());
                client = H2Client::connect(proxy.addr());
                stream = 1;
            } else {
                stream += 4;
            }
            if stream > 200 {
                // Malformed requests have a budget.
                client = H2Client::connect(proxy.addr());
                stream = 1;
            }
            seen.take(&proxy);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases > 300, "{cases}");
}
