//! Every row of the HTTP/2 table, in each way in which its request can be framed.

use super::h2_requests::{Does, Row, SECTIONS};
use super::{Seen, expand, page};
use crate::support::h2_client::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, H2Client, HEADERS, get, raw_block,
};
use crate::support::{Proxy, text};

const PROTOCOL_ERROR: u32 = 1;

/// Ways to split a request into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Each part of the row in a frame of its own.
    Whole,
    /// The head in frames of a byte and the rest, each in a write of its own.
    Head,
    /// The stream ends with an empty frame after the last part.
    End,
}

/// Bytes of a part of a row, with its escapes replaced: `\r`, `\n`, `\t`, `\0`, `\x7f`.
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

/// Header block of fields that are written as lines.
fn fields(lines: &str) -> Vec<u8> {
    let fields: Vec<(Vec<u8>, Vec<u8>)> = lines
        .split('⏎')
        .map(|line| {
            // The first colon of a pseudo-header field belongs to its name.
            let colon = line.char_indices().skip(1).find(|(_, c)| *c == ':').filter(|_| !line.starts_with(": "));
            let at = colon.map_or(0, |(at, _)| at);
            (unescape(&line[..at]), unescape(line[at + 1..].strip_prefix(' ').unwrap_or(&line[at + 1..])))
        })
        .collect();
    raw_block(fields.iter().map(|(name, value)| (&name[..], &value[..])))
}

/// Frames of a row, cut in one of the ways.
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

/// True if a row means the same when its stream ends in a separate frame, by which the endpoint learns of a body.
fn keeps_meaning(row: &Row) -> bool {
    !matches!(row.does, Does::Passes(_)) || row.sent.contains("‖DATA")
}

#[test]
fn every_request_of_http_2_has_the_result_of_its_row() {
    let seen = Seen::default();
    let endpoint = seen.endpoint();
    // Within two frames, as heads are sent here.
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true\nlimits = { headers = \"16KiB\" }", "", "");
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
            // A request that is cut may have been complete for the endpoint, which then counts it.
            let expected = match row.does {
                Does::Passes(_) => 1..=1,
                Does::Cuts(_) => 0..=1,
                Does::Answers(_) | Does::Resets => 0..=0,
            };
            let came = match row.does {
                // It is undefined how much the endpoint has got by then.
                Does::Cuts(begun) => bytes.is_empty() || bytes.starts_with(begun) || begun.starts_with(&bytes),
                _ => text(bytes.as_bytes()) == text(at_endpoint.as_bytes()),
            };
            let got = answer.shown();
            // An early response of the proxy may end in a reset of the rest.
            let got = got.strip_suffix(" RST(0)").unwrap_or(&got);
            // The endpoint may have answered a request that was complete for it before the rest came.
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
            // The connection and its HPACK table are intact.
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
