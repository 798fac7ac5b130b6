//! What do the fields say that a proxy cares about? Where a body ends, how a connection goes on, and which fields do.

use super::chunked::Chunked;
use super::kind::{Kind, kind};
use super::{Body, Reject, Version};
use crate::head::Field;
use std::ops::Range;

/// What the `Connection` fields of a head say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `close`.
    pub close: bool,
    /// `keep-alive`.
    pub keep_alive: bool,
    /// `upgrade`.
    pub upgrade: bool,
    /// How many fields it names to be dropped.
    pub nominated: u32,
}

impl Options {
    /// Whether they leave the connection open for another message.
    #[inline]
    pub fn keep(&self, version: Version) -> bool {
        !self.close && (self.keep_alive || version == Version::V11)
    }

    /// Reads one `Connection` value.
    #[inline]
    pub fn read(&mut self, value: &[u8]) {
        // What nearly all senders say that say anything.
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

    /// Whether an option is the name of a field, and none of the words above.
    fn nominates(option: &[u8]) -> bool {
        ![&b"close"[..], b"keep-alive", b"upgrade"].iter().any(|word| option.eq_ignore_ascii_case(word))
    }
}

/// Fields that `Connection` may name in one head. No client needs as many as a head may have; each is looked for among all.
pub const NOMINATED_MAX: u32 = 32;

/// Drops the fields that `Connection` names. Fields that say where a message ends, where it goes or who sent it cannot be
/// dropped that way.
///
/// # Errors
/// It names more than [`NOMINATED_MAX`].
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

/// The non-empty elements of a comma-separated list (RFC 9110 section 5.6.1).
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// Whether an `Upgrade` names HTTP/2: a tunnel that speaks it would carry requests that are neither routed nor counted.
pub fn names_http2(upgrade: &[u8]) -> bool {
    list(upgrade).any(|protocol| protocol.to_ascii_lowercase().starts_with(b"h2"))
}

/// The lengths that `Content-Length` and `Transfer-Encoding` fields state, with all that is ambiguous refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    length: Option<u64>,
    /// Whether the last coding so far is `chunked`.
    chunked: bool,
    /// Whether there are others, or more of it.
    coded: bool,
    odd: bool,
}

impl Framing {
    /// Takes a field of a head, which is one of the two. One that is spelled in a way that some reader may stumble over
    /// (tabs, leading zeros, `CHUNKED`) does not go on as it came: [`odd`](Self::odd) says what does.
    ///
    /// # Errors
    /// As [`length`](Self::length).
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

    /// What is to be written in the place of fields that do not go on as they came.
    #[inline]
    pub fn odd(self, stated: Stated) -> Stated {
        if self.odd { stated } else { Stated::Nothing }
    }

    /// Takes a `Content-Length`.
    ///
    /// # Errors
    /// A second one (even an equal one), or anything but digits that fit 63 bits.
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

    /// Takes a `Transfer-Encoding`.
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

    /// What was stated: chunked, a length, or nothing.
    ///
    /// # Errors
    /// Both, or a coding in HTTP/1.0, which knows none, or any but one `chunked`: others would have to be decoded by both
    /// sides alike.
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

/// What a head says of the length of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stated {
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// `Content-Length`.
    Length(u64),
    /// Neither.
    Nothing,
}

impl Stated {
    /// The body that it is the length of; `nothing` if nothing is stated.
    #[inline]
    pub fn body(self, nothing: Body) -> Body {
        match self {
            Stated::Chunked => Body::Chunked(Chunked::default()),
            Stated::Length(n) => Body::Length(n),
            Stated::Nothing => nothing,
        }
    }

    /// Appends the field that states it.
    #[cold]
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Stated::Nothing => {}
            Stated::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Stated::Length(n) => out.extend_from_slice(format!("Content-Length: {n}\r\n").as_bytes()),
        }
    }
}

/// Appends the fields that go on, in runs of the original bytes: case, order and spacing stay. `head` is the whole head; what is
/// between `from` and the first field goes on, too.
pub fn write_kept(head: &[u8], from: usize, fields: &[Field], out: &mut Vec<u8>) {
    let mut run = from;
    for line in fields.iter().filter(|field| field.dropped).map(Field::line) {
        append(&[&head[run..line.start]], out);
        run = line.end;
    }
    append(&[&head[run..head.len() - 2]], out);
}

/// The line of the only field that does not go on; empty if all do, `None` if several do not.
#[inline]
pub fn only_dropped(fields: &[Field]) -> Option<Range<usize>> {
    let mut dropped = fields.iter().filter(|field| field.dropped).map(Field::line);
    let only = dropped.next().unwrap_or(0..0);
    dropped.next().is_none().then_some(only)
}

/// Appends one after the other. Called, as it is shorter than what it does would be for each of them in its place.
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
