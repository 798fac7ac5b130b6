//! Comparison with another parser, httparse, which must find the same tokens.

use super::*;
use crate::http1::FIELDS_MAX;
use crate::http1::head_len;
use proptest::prelude::*;

/// Parts of valid and of invalid heads.
const PIECES: [&str; 29] = [
    "GET ",
    "x~",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "HTTP/1.1 200 OK",
    "HTTP/1.0 9a9 ",
    " 404",
    "\r\n",
    "\r\n",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "\0",
    "\t",
    " ",
    ":",
    ": ",
    "Host: a",
    "A:b ",
    "Content-Length: 0",
    "a-value-of-some-length",
    "é",
    "\u{7f}",
    "\u{80}",
    "\"",
    "/",
    "(",
];

/// Common result of both parsers: the tokens and length of a head, or its refusal.
type Read = Result<(Vec<Vec<u8>>, usize), Reject>;

const LIMITS: Limits = Limits { head: 4096, fields: 3 };

fn ours<'b>(bytes: &'b [u8], first: impl FnOnce(&mut Tokens<'b>) -> Result<Vec<Vec<u8>>, Reject>) -> Read {
    let (mut tokens, mut room) = (Tokens::new(bytes), Room::new());
    let mut found = first(&mut tokens)?;
    let head_len = tokens.fields(&mut room, &LIMITS)?;
    found.extend(room.iter().flat_map(|field| [field.name(bytes).to_vec(), field.value(bytes).to_vec()]));
    Ok((found, head_len))
}

fn our_request(bytes: &[u8]) -> Read {
    ours(bytes, |tokens| {
        let method = tokens.method()?.to_vec();
        tokens.expect(b" ")?;
        let target = tokens.target()?.bytes.to_vec();
        std::str::from_utf8(&target).map_err(|_| Reject::Malformed)?;
        tokens.expect(b" ")?;
        let version = format!("{:?}", tokens.version()?);
        tokens.expect(b"\r\n")?;
        Ok(vec![method, target, version.into()])
    })
}

fn our_response(bytes: &[u8]) -> Read {
    ours(bytes, |tokens| {
        let version = format!("{:?}", tokens.version()?);
        tokens.expect(b" ").map_err(|_| Reject::Version)?;
        let status = tokens.status()?.to_string();
        let reason = if tokens.expect(b" ").is_ok() { tokens.text() } else { b"" };
        tokens.expect(b"\r\n")?;
        let reason = if reason.is_ascii() { reason } else { b"" };
        Ok(vec![version.into(), status.into(), reason.to_vec()])
    })
}

fn their(parsed: httparse::Result<usize>, first: Vec<Vec<u8>>, headers: &[httparse::Header<'_>]) -> Read {
    match parsed {
        Ok(httparse::Status::Complete(len)) => {
            let fields = headers.iter().flat_map(|field| [field.name.as_bytes().to_vec(), field.value.to_vec()]);
            Ok((first.into_iter().chain(fields).collect(), len))
        }
        Err(httparse::Error::Version) => Err(Reject::Version),
        Err(httparse::Error::TooManyHeaders) => Err(Reject::TooManyFields),
        _ => Err(Reject::Malformed),
    }
}

fn version(minor: Option<u8>) -> Vec<u8> {
    minor.map_or(String::new(), |minor| format!("V1{minor}")).into()
}

fn their_request(bytes: &[u8]) -> Read {
    let mut headers = [httparse::EMPTY_HEADER; LIMITS.fields];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(bytes);
    let text = |part: Option<&str>| part.unwrap_or_default().as_bytes().to_vec();
    let first = vec![text(request.method), text(request.path), version(request.version)];
    their(parsed, first, request.headers)
}

fn their_response(bytes: &[u8]) -> Read {
    let mut headers = [httparse::EMPTY_HEADER; LIMITS.fields];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes);
    let status = response.code.map_or(String::new(), |code| code.to_string());
    let first = vec![version(response.version), status.into(), response.reason.unwrap_or_default().into()];
    their(parsed, first, response.headers)
}

/// Replaces a later version, which we read alike, by the latest that the other parser knows.
fn in_latest(bytes: &[u8]) -> Vec<u8> {
    let mut latest = bytes.to_vec();
    let line = bytes.iter().position(|&b| b == b'\r').unwrap_or(bytes.len());
    for at in [0, line.saturating_sub(8)] {
        if let Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'2'..=b'9']) = latest.get_mut(at..at + 8) {
            *minor = b'1';
        }
    }
    latest
}

/// Compares the parsers. The other parser accepts lines that end in LF alone and empty lines in front; such heads never
/// get here.
fn check(bytes: &[u8]) {
    if matches!(bytes.first(), Some(b'\r' | b'\n')) || !matches!(head_len(bytes, &LIMITS), Ok(Some(_))) {
        return;
    }
    let latest = in_latest(bytes);
    assert_eq!(our_request(bytes), their_request(&latest), "{}", bytes.escape_ascii());
    assert_eq!(our_response(bytes), their_response(&latest), "{}", bytes.escape_ascii());
}

proptest! {
    #[test]
    fn pieces_of_heads_fall_into_the_same_tokens(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..20)) {
        check([pieces.concat().as_bytes(), b"\r\n\r\n"].concat().as_slice());
    }

    #[test]
    fn any_byte_anywhere_makes_the_same_difference(at in any::<prop::sample::Index>(), byte: u8, padding in 0_usize..20) {
        let padding = "x".repeat(padding);
        for first in ["GET /a?b HTTP/1.1", "HTTP/1.1 200 Fine"] {
            let mut head = format!("{first}\r\nHost:\ta.b:80 \r\nX-{padding}: {padding} \t{padding}\r\nEmpty: \r\n\r\n").into_bytes();
            check(&head);
            let at = at.index(head.len() - 4);
            head[at] = byte;
            check(&head);
            head.insert(at, b' ');
            check(&head);
        }
    }
}

#[test]
fn a_run_ends_at_each_byte_that_does_not_belong_wherever_that_stands() {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    type Run = (fn(&[u8]) -> &[u8], fn(u8) -> bool);
    let runs: [Run; 3] = [
        (behind_token, is_token),
        (behind_target, |b| b.is_ascii_graphic() || !b.is_ascii()),
        (behind_text, |b| b.is_ascii_graphic() || !b.is_ascii() || b == b' ' || b == b'\t'),
    ];
    for (behind, belongs) in runs {
        for byte in 0..=255 {
            for at in 0..40 {
                let mut bytes = [b'a'; 48];
                bytes[at] = byte;
                let left = if belongs(byte) { 0 } else { 48 - at };
                assert_eq!(behind(&bytes).len(), left, "{byte:#x} at {at}");
                assert_eq!(behind(&bytes[at..=at]).len(), usize::from(!belongs(byte)));
            }
        }
    }
}

#[test]
fn more_fields_than_the_limit_are_refused_and_many_are_not() {
    let most = Limits { fields: FIELDS_MAX, ..Limits::default() };
    for (n, fits) in [(FIELDS_MAX, true), (FIELDS_MAX + 1, false)] {
        let (lines, mut room) = ("a:b\r\n".repeat(n) + "\r\n", Room::new());
        let read = Tokens::new(lines.as_bytes()).fields(&mut room, &most);
        assert_eq!(read, if fits { Ok(lines.len()) } else { Err(Reject::TooManyFields) });
        assert_eq!(room.len(), FIELDS_MAX);
    }
}
