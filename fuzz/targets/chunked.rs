//! Chunked bodies compared with a naive reader: if one of the two reads a body to its end, so does the other,
//! with the same length and content, however the bytes are split.
#![no_main]

mod naive;
#[path = "../../crates/wire/tests/wire/mod.rs"]
mod wire;

use evenkeel_wire::http1::Reject;
use evenkeel_wire::http1::chunked::{Chunked, Keep};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let finest = decode(bytes.chunks(1));
    assert_eq!(decode([bytes]), finest);
    for cuts in naive::cuts(bytes) {
        assert_eq!(decode(wire::pieces(bytes, &cuts)), finest);
    }
    let ours = finest.ok().filter(|decoded| decoded.done).map(|d| (d.content, d.used));
    let theirs = read(bytes);
    assert_eq!(ours, theirs);
});

#[derive(Debug, PartialEq)]
struct Decoded {
    content: Vec<u8>,
    used: usize,
    done: bool,
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Decoded, Reject> {
    let mut chunked = Chunked::default();
    let mut decoded = Decoded { content: vec![], used: 0, done: false };
    for piece in pieces {
        let mut piece = piece.to_vec();
        let taken = chunked.advance(&mut piece, Keep::Content)?;
        decoded.used += taken.used;
        decoded.content.extend_from_slice(&piece[..taken.kept]);
    }
    decoded.done = chunked.is_done();
    Ok(decoded)
}

/// Reads a whole body by the grammar of RFC 9112 section 7.1, with our limits. Returns its content and
/// length.
fn read(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut at, mut content, mut extensions) = (0, Vec::new(), 0);
    loop {
        let line = line(bytes, &mut at)?;
        let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        if digits == 0 || digits > 15 {
            return None;
        }
        match &line[digits..] {
            [] => {}
            [b';', extension @ ..] => extensions += extension.len(),
            _ => return None,
        }
        if extensions > 16 * 1024 {
            return None;
        }
        let text = std::str::from_utf8(&line[..digits]).ok()?;
        let size = usize::try_from(u64::from_str_radix(text, 16).ok()?).ok()?;
        if size == 0 {
            break;
        }
        let end = at.checked_add(size)?;
        content.extend_from_slice(bytes.get(at..end)?);
        if bytes.get(end..end + 2)? != b"\r\n" {
            return None;
        }
        at = end + 2;
    }
    let trailers = at;
    loop {
        let line = line(bytes, &mut at)?;
        if line.is_empty() {
            // The final line ending is not counted.
            return (at - 2 - trailers <= 16 * 1024).then_some((content, at));
        }
        let colon = line.iter().position(|b| *b == b':')?;
        let name = line[..colon].to_ascii_lowercase();
        let forbidden = "content-length transfer-encoding host connection trailer content-encoding content-type \
                         content-range x-forwarded-for x-forwarded-proto x-forwarded-host te expect upgrade keep-alive \
                         proxy-connection authorization proxy-authorization cookie set-cookie";
        let token = !name.is_empty() && name.iter().all(|b| naive::is_token(*b));
        if !token
            || forbidden.split(' ').any(|f| f.as_bytes() == name)
            || naive::is_lookalike(&String::from_utf8_lossy(&name))
        {
            return None;
        }
    }
}

/// Reads a line of text without its ending, which must be a CRLF.
fn line<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = bytes.get(*at..)?;
    let end = rest.iter().position(|b| *b < b' ' && *b != b'\t' || *b == 0x7f)?;
    if rest.get(end..end + 2)? != b"\r\n" {
        return None;
    }
    *at += end + 2;
    Some(&rest[..end])
}
