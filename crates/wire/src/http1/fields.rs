//! The fields that a proxy interprets: framing of the body, persistence of the connection, and which fields are
//! forwarded.

use super::chunked::Chunked;
use super::kind::{Kind, kind};
use super::{Body, Reject, Version};
use crate::head::Field;
use std::ops::Range;

/// Options in the `Connection` fields of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub close: bool,
    pub keep_alive: bool,
    pub upgrade: bool,
    /// Number of other options, which name fields to be dropped.
    pub nominated: u32,
}

impl Options {
    /// True if the connection stays open for another message.
    #[inline]
    pub fn keep(&self, version: Version) -> bool {
        !self.close && (self.keep_alive || version == Version::V11)
    }

    /// Reads the value of a `Connection` field.
    #[inline]
    pub fn read(&mut self, value: &[u8]) {
        // The value that nearly all senders use.
        if value == b"keep-alive" {
            self.keep_alive = true;
            return;
        }
        for token in list(value) {
            if token.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if token.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                self.nominated += 1;
            }
        }
    }

    /// True if an option is the name of a field, not an option listed above.
    fn nominates(option: &[u8]) -> bool {
        ![&b"close"[..], b"keep-alive", b"upgrade"].iter().any(|word| option.eq_ignore_ascii_case(word))
    }
}

/// Most fields that `Connection` may name in a head. No client needs many, and each is compared with every field.
pub const NOMINATED_MAX: u32 = 32;

/// Drops the fields that `Connection` names. Fields that decide where a message ends, where it goes or who sent it
/// cannot be dropped in this way.
///
/// # Errors
/// If `Connection` names more than [`NOMINATED_MAX`].
#[cold]
pub fn drop_nominated(head: &[u8], fields: &mut [Field], options: Options) -> Result<(), Reject> {
    if options.nominated > NOMINATED_MAX {
        return Err(Reject::Nominated);
    }
    for i in 0..fields.len() {
        if kind(fields[i].name(head)) != Kind::Connection {
            continue;
        }
        for named in list(fields[i].value(head)).filter(|token| Options::nominates(token)) {
            for field in fields.iter_mut().filter(|f| f.name(head).eq_ignore_ascii_case(named)) {
                field.dropped |= kind(field.name(head)) == Kind::Other;
            }
        }
    }
    Ok(())
}

/// Drops every field of this kind.
#[cold]
pub fn drop_all(of: Kind, head: &[u8], fields: &mut [Field]) {
    for field in fields {
        field.dropped |= kind(field.name(head)) == of;
    }
}

/// Splits a comma-separated list into its non-empty elements (RFC 9110 section 5.6.1).
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// True if an `Upgrade` names HTTP/2. Such a tunnel would carry requests that are neither routed nor counted.
pub fn names_http2(upgrade: &[u8]) -> bool {
    list(upgrade).any(|protocol| protocol.to_ascii_lowercase().starts_with(b"h2"))
}

/// True if an `Upgrade` names WebSocket.
pub fn names_websocket(upgrade: &[u8]) -> bool {
    list(upgrade).any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// Framing stated by `Content-Length` and `Transfer-Encoding` fields. Anything ambiguous is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    length: Option<u64>,
    /// True if the last coding so far is `chunked`.
    chunked: bool,
    /// True if there are other codings, or `chunked` is repeated.
    coded: bool,
    odd: bool,
}

impl Framing {
    /// Reads either of these two fields. A field with a spelling that some readers misread (tabs, leading zeros,
    /// `CHUNKED`) is not forwarded as it came; [`odd`](Self::odd) returns its replacement.
    ///
    /// # Errors
    /// Errors of [`length`](Self::length).
    pub fn take(&mut self, head: &[u8], kind: Kind, field: &mut Field) -> Result<(), Reject> {
        let value = field.value(head);
        let plain = if kind == Kind::ContentLength {
            self.length(value)?;
            value[0] != b'0' || value.len() == 1
        } else {
            self.transfer_encoding(value);
            value == b"chunked"
        };
        field.dropped = !(plain && field.plain);
        self.odd |= field.dropped;
        Ok(())
    }

    /// Returns the framing to write instead of fields that are not forwarded as they came.
    #[inline]
    pub fn odd(self, stated: Stated) -> Stated {
        if self.odd { stated } else { Stated::Nothing }
    }

    /// Reads a `Content-Length`.
    ///
    /// # Errors
    /// If it is repeated (even with an equal value), or anything but up to 18 digits.
    pub fn length(&mut self, value: &[u8]) -> Result<(), Reject> {
        if self.length.is_some() {
            return Err(Reject::LengthRepeated);
        }
        let digit = |n: u64, d: &u8| d.is_ascii_digit().then(|| n * 10 + u64::from(d - b'0'));
        self.length = match value.len() {
            1..=18 => value.iter().try_fold(0, digit),
            _ => None,
        };
        match self.length {
            Some(_) => Ok(()),
            None if value.contains(&b',') => Err(Reject::LengthRepeated),
            None => Err(Reject::LengthMalformed),
        }
    }

    /// Reads a `Transfer-Encoding`.
    pub fn transfer_encoding(&mut self, value: &[u8]) {
        if self.chunked || self.coded || !value.eq_ignore_ascii_case(b"chunked") {
            self.other_coding(value);
        } else {
            self.chunked = true;
        }
    }

    #[cold]
    fn other_coding(&mut self, value: &[u8]) {
        self.coded = true;
        self.chunked = list(value).last().map_or(self.chunked, |last| last.eq_ignore_ascii_case(b"chunked"));
    }

    /// Returns the framing: chunked, a length, or nothing.
    ///
    /// # Errors
    /// If both are stated; if there is a coding in HTTP/1.0, which has none; or if the coding is anything but a single
    /// `chunked`, as both sides would have to decode others alike.
    pub fn stated(self, version: Version) -> Result<Stated, Reject> {
        match (self.chunked | self.coded, self.length) {
            (true, _) if version == Version::V10 => Err(Reject::TransferEncodingIn10),
            (true, Some(_)) => Err(Reject::LengthAndChunked),
            (true, None) if self.coded && self.chunked => Err(Reject::TransferEncoding),
            (true, None) if self.coded => Err(Reject::NotChunkedLast),
            (true, None) => Ok(Stated::Chunked),
            (false, Some(n)) => Ok(Stated::Length(n)),
            (false, None) => Ok(Stated::Nothing),
        }
    }
}

/// Framing of a body, as its head states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stated {
    /// By `Transfer-Encoding: chunked`.
    Chunked,
    /// By `Content-Length`, in bytes.
    Length(u64),
    /// Neither field is present.
    Nothing,
}

impl Stated {
    /// Returns the body with this framing; `nothing` if none is stated.
    #[inline]
    pub fn body(self, nothing: Body) -> Body {
        match self {
            Stated::Chunked => Body::Chunked(Chunked::default()),
            Stated::Length(n) => Body::Length(n),
            Stated::Nothing => nothing,
        }
    }

    /// Appends the field that states this framing.
    #[cold]
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Stated::Nothing => {}
            Stated::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Stated::Length(n) => out.extend_from_slice(format!("Content-Length: {n}\r\n").as_bytes()),
        }
    }
}

/// Appends the fields that are forwarded, in runs of the original bytes, which keeps case, order and spacing. `head` is
/// the whole head. Bytes between `from` and the first field are appended too.
pub fn write_kept(head: &[u8], from: usize, fields: &[Field], out: &mut Vec<u8>) {
    let mut run = from;
    for line in fields.iter().filter(|field| field.dropped).map(Field::line) {
        append(&[&head[run..line.start]], out);
        run = line.end;
    }
    append(&[&head[run..head.len() - 2]], out);
}

/// Returns the line of the only dropped field; empty if there is none, `None` if there are several.
#[inline]
pub fn only_dropped(fields: &[Field]) -> Option<Range<usize>> {
    let mut dropped = fields.iter().filter(|field| field.dropped).map(Field::line);
    let only = dropped.next().unwrap_or(0..0);
    dropped.next().is_none().then_some(only)
}

/// Appends the parts in order. Not inlined, as a call is shorter than its body would be at each caller.
#[inline(never)]
pub fn append(parts: &[&[u8]], out: &mut Vec<u8>) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_that_two_readers_could_take_differently_is_refused() {
        for bad in ["", " 5", "+5", "-5", "0x5", "5 5", "5a", "9999999999999999999", "٥"] {
            assert_eq!(Framing::default().length(bad.as_bytes()), Err(Reject::LengthMalformed), "{bad:?}");
        }
        for bad in ["5, 5", "5,6", ","] {
            assert_eq!(Framing::default().length(bad.as_bytes()), Err(Reject::LengthRepeated), "{bad:?}");
        }
        let mut twice = Framing::default();
        assert_eq!(twice.length(b"5").and_then(|()| twice.length(b"5")), Err(Reject::LengthRepeated));
        let coded = |values: &[&str]| {
            let mut framing = Framing::default();
            values.iter().for_each(|value| framing.transfer_encoding(value.as_bytes()));
            framing.stated(Version::V11)
        };
        for ends in [&["gzip, chunked"][..], &["chunked, chunked"], &["gzip", "CHUNKED"], &["chunked", "chunked"]] {
            assert_eq!(coded(ends), Err(Reject::TransferEncoding), "{ends:?}");
        }
        for other in [&["gzip"][..], &["xchunked"], &["chunked;q=1"], &[""], &["identity"], &["chunked", "gzip"]] {
            assert_eq!(coded(other), Err(Reject::NotChunkedLast), "{other:?}");
        }
        let mut both = Framing::default();
        both.length(b"0").unwrap();
        both.transfer_encoding(b"Chunked");
        assert_eq!(both.stated(Version::V11), Err(Reject::LengthAndChunked));
        assert_eq!(both.stated(Version::V10), Err(Reject::TransferEncodingIn10));
    }
}
