//! A decoder of chunked bodies (RFC 9112 section 7.1) that accepts bytes split anywhere.
//!
//! The reader keeps the chunks or only their content. Either way every byte is checked, so that both sides of the proxy
//! agree about the end. Extensions are never forwarded: no known peer needs them, and readers that skip them
//! differently disagree about where a chunk begins.

use super::Reject;
use super::kind::{Kind, NAME_MAX, kind};

/// Most bytes of chunk extensions in a body. Only attackers send many, to make a server read without end.
const EXTENSIONS_MAX: u32 = 16 * 1024;
/// Most bytes of trailer fields in a body.
const TRAILERS_MAX: u32 = 16 * 1024;
/// Most hexadecimal digits of a chunk size: 2^60 bytes are enough, and 64 bits cannot overflow.
const SIZE_DIGITS_MAX: u8 = 15;

/// Names that are forbidden in trailers, in addition to the fields of a head that a proxy interprets: merged into the
/// head by a later reader, they would change the sender's identity or the meaning of the content (RFC 9110 section
/// 6.5.1).
const NOT_IN_TRAILERS: [&[u8]; 8] = [
    b"trailer",
    b"authorization",
    b"proxy-authorization",
    b"cookie",
    b"set-cookie",
    b"content-encoding",
    b"content-type",
    b"content-range",
];
/// Bytes of a trailer's name that are kept. Longer than any name looked for, so that the beginning of a longer one is
/// none of them.
const NAME_KEPT: usize = NAME_MAX + 1;

/// State of a chunked body. Boxed, as bodies are moved around and most of them are not chunked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunked(Box<Decoder>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Decoder {
    state: State,
    /// Bytes of the current chunk still to come, or the size so far while that is read.
    left: u64,
    digits: u8,
    extensions: u32,
    trailers: u32,
    /// Start of the current trailer's name, in lower case.
    name: [u8; NAME_KEPT],
    name_len: u8,
    /// Trailers up to their empty line, if they are inspected before they are forwarded.
    held: Option<Vec<u8>>,
    /// True if white space may follow the size of a chunk.
    pads: bool,
    /// True if trailers are not forwarded.
    drops: bool,
}

/// The bytes of a body that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Content and framing, without chunk extensions.
    Framed,
    /// Content without any framing.
    Content,
}

/// Number of bytes that a body consumed, and how many of them are kept at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub used: usize,
    pub kept: usize,
    /// Number of framing bytes and runs of content, which is the cost of decoding.
    pub steps: usize,
}

/// Parser states in their order: from `TrailerStart` on, bytes are trailers or the empty line after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    #[default]
    Size,
    Padding,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

impl State {
    /// True within the line of a trailer.
    fn is_trailer(self) -> bool {
        matches!(self, State::TrailerName | State::TrailerValue | State::TrailerLf)
    }
}

/// True if a trailer field of this name may be forwarded: it changes neither the sender's identity nor the
/// meaning of the content.
pub fn may_trail(name: &[u8]) -> bool {
    kind(name) == Kind::Other && !NOT_IN_TRAILERS.iter().any(|other| name.eq_ignore_ascii_case(other))
}

impl Chunked {
    /// True once the last byte of the body was consumed.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.0.state == State::Done
    }

    /// Allows white space after the size of a chunk. It is not forwarded.
    pub fn tolerate_padding(&mut self) {
        self.0.pads = true;
    }

    /// Holds trailers back for [`take_trailers`](Self::take_trailers).
    pub fn hold_trailers(&mut self) {
        self.0.held.get_or_insert_default();
    }

    /// Drops trailers instead of forwarding them. They must be well-formed nevertheless.
    pub fn drop_trailers(&mut self) {
        self.0.drops = true;
    }

    /// Takes the trailers of a complete body, with the empty line after them. `None` if they were not held, or taken
    /// before.
    pub fn take_trailers(&mut self) -> Option<Vec<u8>> {
        if self.is_done() { self.0.held.take() } else { None }
    }

    /// Consumes the part of `bytes` that belongs to the body, and moves the bytes to be kept to the front.
    ///
    /// # Errors
    /// If a byte is not allowed at its position.
    pub fn advance(&mut self, bytes: &mut [u8], keep: Keep) -> Result<Taken, Reject> {
        self.0.advance(bytes, keep)
    }
}

impl Decoder {
    fn advance(&mut self, bytes: &mut [u8], keep: Keep) -> Result<Taken, Reject> {
        let (mut used, mut kept, mut steps) = (0, 0, 0);
        while used < bytes.len() && self.state != State::Done {
            let from = used;
            steps += 1;
            let keeps = if self.state == State::Data {
                let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - used);
                used += take;
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                true
            } else {
                let held = self.held.as_mut().filter(|_| self.state >= State::TrailerStart);
                let is_held = held.map(|held| held.push(bytes[used])).is_some();
                let was_trailer = self.state.is_trailer();
                self.byte(bytes[used])?;
                used += 1;
                let is_dropped = self.drops && (was_trailer || self.state.is_trailer());
                let is_forwarded = !matches!(self.state, State::Padding | State::Extension) && !is_held && !is_dropped;
                keep == Keep::Framed && is_forwarded
            };
            if keeps {
                if kept < from {
                    bytes.copy_within(from..used, kept);
                }
                kept += used - from;
            }
        }
        Ok(Taken { used, kept, steps })
    }

    fn byte(&mut self, b: u8) -> Result<(), Reject> {
        self.state = match (self.state, b) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if self.digits < SIZE_DIGITS_MAX => {
                let digit = (b as char).to_digit(16).ok_or(Reject::Chunk)?;
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
                State::Size
            }
            (State::Size, b'\r') if self.digits > 0 => State::SizeLf,
            (State::Padding | State::Extension, b'\r') => State::SizeLf,
            (State::Size, b';') if self.digits > 0 => State::Extension,
            (State::Padding, b';') => State::Extension,
            (State::Size, b'\t' | b' ') if self.digits > 0 && !self.pads => return Err(Reject::ChunkPadding),
            (State::Size, b'\t' | b' ') if self.digits > 0 => State::Padding,
            (state @ State::Padding, b'\t' | b' ') | (state @ State::Extension, b'\t' | b' '..=b'~' | 0x80..) => {
                self.extensions += 1;
                if self.extensions > EXTENSIONS_MAX {
                    return Err(Reject::Chunk);
                }
                state
            }
            (State::SizeLf, b'\n') => {
                self.digits = 0;
                if self.left == 0 { State::TrailerStart } else { State::Data }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size,
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::EndLf, b'\n') => State::Done,
            (State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf, b) => {
                return self.trailer(b);
            }
            _ => return Err(Reject::Chunk),
        };
        Ok(())
    }

    fn trailer(&mut self, b: u8) -> Result<(), Reject> {
        self.trailers += 1;
        if self.trailers > TRAILERS_MAX {
            return Err(Reject::TrailersTooLarge);
        }
        self.state = match (self.state, b) {
            (State::TrailerName, b':') => {
                let name = &self.name[..usize::from(self.name_len).min(NAME_KEPT)];
                if kind(name) != Kind::Other || NOT_IN_TRAILERS.contains(&name) {
                    return Err(Reject::Trailer);
                }
                self.name_len = 0;
                State::TrailerValue
            }
            (State::TrailerStart | State::TrailerName, b) if is_token(b) => {
                if let Some(kept) = self.name.get_mut(usize::from(self.name_len)) {
                    *kept = b.to_ascii_lowercase();
                }
                self.name_len = self.name_len.saturating_add(1);
                State::TrailerName
            }
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => State::TrailerValue,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            _ => return Err(Reject::Trailer),
        };
        Ok(())
    }
}

/// True for a `tchar` of RFC 9110 section 5.6.2.
fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(input: &[u8], keep: Keep) -> Result<(Vec<u8>, usize, bool), Reject> {
        let (mut body, mut bytes) = (Chunked::default(), input.to_vec());
        let Taken { used, kept, .. } = body.advance(&mut bytes, keep)?;
        assert_eq!(&bytes[used..], &input[used..], "what is behind the body stays where it is");
        bytes.truncate(kept);
        Ok((bytes, used, body.is_done()))
    }

    fn decode(input: &[u8]) -> Result<(Vec<u8>, usize, bool), Reject> {
        take(input, Keep::Content)
    }

    #[test]
    fn takes_exactly_the_body() {
        let wire = b"5;x=y\r\nhello\r\n0B\r\n, the world\r\n0\r\nEtag: 1\r\n\r\nGET";
        assert_eq!(decode(wire), Ok((b"hello, the world".to_vec(), wire.len() - 3, true)));
        assert_eq!(decode(b"0\r\n\r\n"), Ok((vec![], 5, true)));
        assert_eq!(decode(b"3\r\nab"), Ok((b"ab".to_vec(), 5, false)));
    }

    #[test]
    fn framed_bytes_stay_as_they_came_but_for_extensions() {
        for wire in ["5\r\nhello\r\n000\r\nEtag: 1\r\n\r\n", "A\r\n0123456789\r\n0\r\n\r\n", "5\r\nhel"] {
            assert_eq!(take(wire.as_bytes(), Keep::Framed).map(|t| t.0), Ok(wire.as_bytes().to_vec()));
        }
        let wire = b"5;a=\"b;c\" ; d\r\nhello\r\n1;\r\n;\r\n0;last\r\nEtag: 1;x\r\n\r\nGET";
        let want = b"5\r\nhello\r\n1\r\n;\r\n0\r\nEtag: 1;x\r\n\r\n";
        assert_eq!(take(wire, Keep::Framed), Ok((want.to_vec(), wire.len() - 3, true)));
    }

    #[test]
    fn trailers_that_are_held_come_in_one_piece_however_the_body_was_split() {
        let wire = b"5\r\nhello\r\n0\r\nEtag: 1\r\nEndpoint-Load-Metrics: TEXT eps=1\r\n\r\nGET";
        for (at, keep) in (0..wire.len()).flat_map(|at| [(at, Keep::Framed), (at, Keep::Content)]) {
            let (mut body, mut kept) = (Chunked::default(), Vec::new());
            body.hold_trailers();
            for part in [&wire[..at], &wire[at..]] {
                let mut bytes = part.to_vec();
                let taken = body.advance(&mut bytes, keep).expect("it is good");
                kept.extend_from_slice(&bytes[..taken.kept]);
                assert_eq!(body.take_trailers().is_some(), body.is_done() && taken.used > 0, "{at}");
            }
            let want: &[u8] = if keep == Keep::Framed { b"5\r\nhello\r\n0\r\n" } else { b"hello" };
            assert_eq!(kept, want, "{at}");
        }
        let mut body = Chunked::default();
        body.hold_trailers();
        body.advance(&mut wire.to_vec(), Keep::Framed).expect("it is good");
        let trailers = body.take_trailers().expect("it is done");
        assert_eq!(trailers, b"Etag: 1\r\nEndpoint-Load-Metrics: TEXT eps=1\r\n\r\n");
    }

    #[test]
    fn trailers_that_are_dropped_leave_a_whole_body_however_it_was_split() {
        let wire = b"5\r\nhello\r\n0;x\r\nEtag: 1\r\nX-Sum:\r\n\r\nGET";
        for (at, keep) in (0..wire.len()).flat_map(|at| [(at, Keep::Framed), (at, Keep::Content)]) {
            let (mut body, mut kept) = (Chunked::default(), Vec::new());
            body.drop_trailers();
            for part in [&wire[..at], &wire[at..]] {
                let mut bytes = part.to_vec();
                let taken = body.advance(&mut bytes, keep).expect("it is good");
                kept.extend_from_slice(&bytes[..taken.kept]);
            }
            let want: &[u8] = if keep == Keep::Framed { b"5\r\nhello\r\n0\r\n\r\n" } else { b"hello" };
            assert!(body.is_done() && kept == want, "{at}: {}", kept.escape_ascii());
        }
        let mut body = Chunked::default();
        body.drop_trailers();
        assert_eq!(body.advance(&mut b"0\r\na: \x00\r\n\r\n".to_vec(), Keep::Framed), Err(Reject::Trailer));
    }

    /// Names of 21, 22 and 25 bytes passed, as only 20 were kept.
    #[test]
    fn every_name_of_a_proxy_is_refused_and_none_for_its_beginning() {
        for name in [
            "X-Client-Cert-Issuer",
            "X-Client-Cert-Subject",
            "X-Client-Cert-Verified",
            "X-Client-Cert-Fingerprint",
            "x_client-cert_fingerprint",
            "Client-Cert-Chain",
        ] {
            let wire = |name: &str| format!("0\r\n{name}: x\r\n\r\n");
            assert_eq!(decode(wire(name).as_bytes()), Err(Reject::Trailer), "{name}");
            assert!(decode(wire(&format!("{name}-x")).as_bytes()).is_ok(), "{name}-x");
            assert!(!may_trail(name.as_bytes()) && may_trail(format!("{name}-x").as_bytes()), "{name}");
        }
    }

    #[test]
    fn white_space_behind_a_size_is_dropped_where_it_is_tolerated() {
        for wire in ["5 \r\nhello\r\n0\t \r\n\r\n", "5  ;a=b\r\nhello\r\n0 \r\n\r\n"] {
            assert_eq!(decode(wire.as_bytes()), Err(Reject::ChunkPadding));
            let (mut body, mut bytes) = (Chunked::default(), wire.as_bytes().to_vec());
            body.tolerate_padding();
            let Taken { used, kept, .. } = body.advance(&mut bytes, Keep::Framed).expect("it is tolerated");
            assert_eq!((used, &bytes[..kept]), (wire.len(), &b"5\r\nhello\r\n0\r\n\r\n"[..]));
        }
        for bad in ["5 5\r\n", " 5\r\n", "5 \n", &format!("5{}", " ".repeat(20_000))] {
            let mut body = Chunked::default();
            body.tolerate_padding();
            assert_eq!(body.advance(&mut bad.as_bytes().to_vec(), Keep::Framed), Err(Reject::Chunk), "{:?}", &bad[..3]);
        }
    }

    #[test]
    fn refuses_what_two_readers_could_take_differently() {
        let long = format!("{}\r\n", "0".repeat(16));
        for bad in [
            "\r\n",
            "5\n",
            " 5\r\n",
            "0x5\r\n",
            "-5\r\n",
            "g\r\n",
            ";x\r\n",
            "5\r\nhello0\r\n",
            "5\r\nhello\n",
            "5\rx",
            "5;\x01\r\n",
            "5;\n",
            "fffffffffffffffff\r\n",
            &long,
        ] {
            assert_eq!(decode(bad.as_bytes()), Err(Reject::Chunk), "{bad:?}");
        }
        for bad in [
            "0\r\nContent-Length: 5\r\n\r\n",
            "0\r\nHOST: a\r\n\r\n",
            "0\r\nA: b\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n",
            "0\r\nTransfer_Encoding: chunked\r\n\r\n",
            "0\r\nExpect: 100-continue\r\n\r\n",
            "0\r\nSet-Cookie: a=b\r\n\r\n",
            "0\r\nProxy-Authorization: a\r\n\r\n",
            "0\r\n a: b\r\n\r\n",
            "0\r\nab\r\n\r\n",
            "0\r\na : b\r\n\r\n",
            "0\r\na: b\n\r\n",
            "0\r\na: \x00\r\n\r\n",
            "0\r\n: b\r\n\r\n",
        ] {
            assert_eq!(decode(bad.as_bytes()), Err(Reject::Trailer), "{bad:?}");
        }
    }
}
