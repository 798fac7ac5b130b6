//! Readings of a path: every text for which some server takes it. Servers decode a path once, several times or not at
//! all, take `\` for `/`, leave out parameters (`;v=1`), merge slashes, take the text behind two slashes for a host,
//! resolve `.` and `..`, and do so in different orders. [`Readings`] applies these steps in every order, with at most three decodings.
//!
//! Bytes that a path cannot have as such (controls, spaces, `?`, `#`, bytes beyond ASCII) stay escaped in every reading:
//! `%C3%A9` is one text for all readers, as it is in the patterns of routes.

use crate::http1::tokens::marked;
use std::ops::Range;

/// Most readings of a path. A path of a usual client has at most four.
pub const READINGS_MAX: usize = 32;
/// Most bytes of all readings of a path of usual length. A longer path may have three readings.
const BYTES_MAX: usize = 16 * 1024;
/// Most times that a reader decodes a path: two proxies and an application.
const DECODED_MAX: u8 = 3;

/// More readings than are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// Returns true if readers may take the path for another text. False for nearly all paths, after a look at sixteen bytes
/// at once.
#[inline]
pub fn has_several(path: &str) -> bool {
    has_features(path.as_bytes()) && may_differ(path)
}

#[cold]
fn may_differ(path: &str) -> bool {
    match features(path.as_bytes()) {
        0 => false,
        found if found & !(STRAY | END | RESERVED) == ESCAPE => {
            escapes(path.as_bytes()).any(|(escape, byte)| !(stays(byte) && is_upper(escape)) || ends(byte))
        }
        _ => true,
    }
}

/// Returns the path in the normal form of RFC 3986 section 6.2.2: unreserved characters decoded, other escapes in upper
/// case, slashes merged, segments `.` and `..` resolved.
pub fn normalised(path: &str) -> String {
    let (mut unescaped, mut merged, mut out) = (Vec::new(), Vec::new(), Vec::new());
    unescape(path.as_bytes(), &mut unescaped);
    merge(&unescaped, &mut merged);
    resolve(&merged, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns a text with its escapes as readings have them: unreserved characters decoded, other escapes in upper case.
pub fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    unescape(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the only other reading of a path whose escapes all stand for unreserved characters or stay, as usual
/// clients send them. `None` for any other path: [`Readings`] has its readings.
pub fn sole_other(path: &str) -> Option<Vec<u8>> {
    if features(path.as_bytes()) != ESCAPE {
        return None;
    }
    let mut other = Vec::with_capacity(path.len());
    unescape(path.as_bytes(), &mut other);
    // Decoded dots and tildes may make segments that readers resolve.
    (features(&other) & !ESCAPE == 0).then_some(other)
}

/// The readings of a path, found in turn. The first reading is the path as sent.
#[derive(Debug)]
pub struct Readings {
    /// All readings so far, without gaps.
    bytes: Vec<u8>,
    all: Vec<Reading>,
    /// Copy of the reading from which others are made.
    source: Vec<u8>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Reading {
    range: Range<usize>,
    /// Number of times that it was decoded.
    decoded: u8,
    /// True if the readings that a single step makes of it were added.
    is_done: bool,
}

impl Readings {
    /// Starts with the path as sent.
    pub fn of(path: &str) -> Readings {
        // Room for the readings of a usual path: as sent, decoded, and a copy to compare.
        let mut bytes = Vec::with_capacity(3 * path.len());
        bytes.extend_from_slice(path.as_bytes());
        let mut all = Vec::with_capacity(4);
        all.push(Reading { range: 0..bytes.len(), decoded: 0, is_done: false });
        let bytes_max = BYTES_MAX.max(3 * bytes.len());
        Readings { bytes, all, source: Vec::with_capacity(path.len()), bytes_max }
    }

    /// Returns the next reading, starting with the path as sent. `None` once there are no more.
    ///
    /// # Errors
    /// There are too many readings, so that those so far are not all.
    pub fn read_next(&mut self) -> Result<Option<&[u8]>, TooMany> {
        // The least decoded reading first: each reading is found with the fewest decodings.
        let open = self.all.iter().enumerate().filter(|(_, reading)| !reading.is_done);
        let Some(at) = open.min_by_key(|(_, reading)| reading.decoded).map(|(at, _)| at) else { return Ok(None) };
        self.all[at].is_done = true;
        let (range, decoded) = (self.all[at].range.clone(), self.all[at].decoded);
        self.source.clear();
        self.source.extend_from_slice(&self.bytes[range.clone()]);
        let found = features(&self.source);
        for (feature, step) in STEPS {
            if found & feature != 0 {
                self.add(*step, decoded)?;
            }
        }
        // Without these, the first step has decoded everything.
        if found & (RESERVED | STRAY) != 0 && decoded < DECODED_MAX {
            self.add(decode, decoded + 1)?;
        }
        Ok(Some(&self.bytes[range]))
    }

    /// Number of readings found so far.
    pub fn found(&self) -> usize {
        self.all.len()
    }

    /// Adds what a step makes of the source, unless it is known.
    fn add(&mut self, step: Step, decoded: u8) -> Result<(), TooMany> {
        let start = self.bytes.len();
        step(&self.source, &mut self.bytes);
        let (known, new) = self.bytes.split_at(start);
        if self.all.iter().any(|reading| known[reading.range.clone()] == *new) {
            self.bytes.truncate(start);
            return Ok(());
        }
        if self.all.len() == READINGS_MAX || self.bytes.len() > self.bytes_max {
            return Err(TooMany);
        }
        self.all.push(Reading { range: start..self.bytes.len(), decoded, is_done: false });
        Ok(())
    }
}

/// Appends what a reader makes of a path.
type Step = fn(&[u8], &mut Vec<u8>);

/// Steps other than decoding, with the feature of a path without which a step changes nothing.
const STEPS: &[(u8, Step)] = &[
    (ESCAPE, unescape),
    (STRAY, |path, out| decoded(path, out, |_, byte| is_unreserved(byte))),
    (END, |path, out| cut(path, out, 0)),
    (END, |path, out| cut(path, out, b'?')),
    (END, |path, out| cut(path, out, b'#')),
    (BACKSLASH, slash),
    (PARAMETERS, bare),
    (SLASHES, merge),
    (SLASHES, behind_host),
    (DOT, resolve),
];

/// Escapes, and percent signs that begin none.
const ESCAPE: u8 = 1;
const BACKSLASH: u8 = 2;
/// Semicolons, behind which some readers find parameters.
const PARAMETERS: u8 = 4;
/// Slashes that some readers merge.
const SLASHES: u8 = 8;
/// A segment that begins with a dot.
const DOT: u8 = 16;
/// Percent signs that begin no escape.
const STRAY: u8 = 32;
/// Escapes at which some readers end a path.
const END: u8 = 64;
/// Escapes that readers decode, but not all of them.
const RESERVED: u8 = 128;

/// True if a path has any of the features.
#[inline]
fn has_features(path: &[u8]) -> bool {
    // Comparisons alone, so that the compiler vectorises them.
    let mark = |is: bool| u8::from(is).wrapping_neg();
    let is_odd = |sixteen: &[u8; 16]| {
        let (mut special, mut slashes, mut dots) = ([0; 16], [0; 16], [0; 16]);
        for (at, byte) in sixteen.iter().enumerate() {
            special[at] = mark((*byte == b'%') | (*byte == b'\\') | (*byte == b';'));
            slashes[at] = mark(*byte == b'/');
            dots[at] = mark((*byte == b'.') | (*byte == b'/'));
        }
        marked(special) | (marked(slashes) << 1) & marked(dots) != 0
    };
    let mut rest = path;
    // Each look begins at the last byte of the one before, for pairs of bytes.
    while let Some(sixteen) = rest.first_chunk::<16>() {
        if is_odd(sixteen) {
            return true;
        }
        rest = &rest[15..];
    }
    match path.last_chunk::<16>() {
        Some(sixteen) => is_odd(sixteen),
        None => {
            let mut padded = [0; 16];
            padded[..path.len()].copy_from_slice(path);
            is_odd(&padded)
        }
    }
}

/// Features of a path for which it may have several readings.
fn features(path: &[u8]) -> u8 {
    let mut found = 0;
    for (at, byte) in path.iter().enumerate() {
        found |= match byte {
            b'%' => ESCAPE | features_of_escape(&path[at..]),
            b'\\' => BACKSLASH,
            b';' => PARAMETERS,
            b'/' => match path.get(at + 1) {
                Some(b'/') => SLASHES,
                Some(b'.') => DOT,
                _ => 0,
            },
            _ => 0,
        };
    }
    found
}

/// Features of the percent sign at the front of these bytes.
fn features_of_escape(bytes: &[u8]) -> u8 {
    match escape(bytes) {
        None => STRAY,
        Some(byte) if ends(byte) => END,
        Some(byte) if is_unreserved(byte) || stays(byte) => 0,
        Some(_) => RESERVED,
    }
}

/// The escape at the front of these bytes, decoded.
pub(crate) fn escape(bytes: &[u8]) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let [b'%', high, low, ..] = *bytes else { return None };
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

/// The escapes of a path, each with its byte. A percent sign without two digits is none.
fn escapes(path: &[u8]) -> impl Iterator<Item = (&[u8], u8)> {
    memchr::memchr_iter(b'%', path).filter_map(|at| Some((path.get(at..at + 3)?, escape(&path[at..])?)))
}

/// True for bytes that are escaped in every reading.
fn stays(byte: u8) -> bool {
    !byte.is_ascii_graphic() || ends(byte)
}

/// True for bytes at which some readers end a path once it is decoded.
fn ends(byte: u8) -> bool {
    matches!(byte, 0 | b'?' | b'#')
}

fn is_upper(escape: &[u8]) -> bool {
    !escape.iter().any(u8::is_ascii_lowercase)
}

/// Copies a path and decodes the escapes for which `decodes` is true, by the bytes before the escape and by its own byte.
/// All others are in upper case.
fn decoded(path: &[u8], out: &mut Vec<u8>, decodes: impl Fn(&[u8], u8) -> bool) {
    let mut at = 0;
    while let Some(skipped) = memchr::memchr(b'%', &path[at..]) {
        out.extend_from_slice(&path[at..at + skipped]);
        at += skipped;
        match escape(&path[at..]) {
            Some(byte) if decodes(out, byte) => out.push(byte),
            Some(_) => out.extend(path[at..at + 3].iter().map(u8::to_ascii_uppercase)),
            None => out.push(b'%'),
        }
        at += if escape(&path[at..]).is_some() { 3 } else { 1 };
    }
    out.extend_from_slice(&path[at..]);
}

/// Decodes unreserved characters (RFC 3986 section 6.2.2.2). A digit behind a percent sign that begins no escape stays: it
/// would make one.
fn unescape(path: &[u8], out: &mut Vec<u8>) {
    let begins_escape = |before: &[u8]| match before {
        [.., b'%'] => true,
        [.., b'%', digit] => digit.is_ascii_hexdigit(),
        _ => false,
    };
    decoded(path, out, |before, byte| is_unreserved(byte) && !(byte.is_ascii_hexdigit() && begins_escape(before)));
}

pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Decodes everything that a path can have as such.
fn decode(path: &[u8], out: &mut Vec<u8>) {
    decoded(path, out, |_, byte| !stays(byte));
}

/// Ends the path at an escaped byte, as some readers do once it is decoded.
fn cut(path: &[u8], out: &mut Vec<u8>, end: u8) {
    let end = memchr::memchr_iter(b'%', path).find(|at| escape(&path[*at..]) == Some(end));
    out.extend_from_slice(&path[..end.unwrap_or(path.len())]);
}

fn slash(path: &[u8], out: &mut Vec<u8>) {
    out.extend(path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }));
}

/// Leaves out the parameters of segments.
fn bare(path: &[u8], out: &mut Vec<u8>) {
    let mut is_within = false;
    out.extend(path.iter().filter(|byte| {
        is_within = **byte == b';' || is_within && **byte != b'/';
        !is_within
    }));
}

fn merge(path: &[u8], out: &mut Vec<u8>) {
    let mut last = 0;
    out.extend(path.iter().filter(|byte| std::mem::replace(&mut last, **byte) != b'/' || **byte != b'/'));
}

/// Leaves out a first segment behind two slashes, which parsers of URLs take for a host.
fn behind_host(path: &[u8], out: &mut Vec<u8>) {
    let rest = path.strip_prefix(b"//").map(|host| memchr::memchr(b'/', host).map_or(&b"/"[..], |end| &host[end..]));
    out.extend_from_slice(rest.unwrap_or(path));
}

/// Resolves segments `.` and `..` (RFC 3986 section 5.2.4).
fn resolve(path: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if segment == b".." {
            let above = memchr::memrchr(b'/', &out[start..]).unwrap_or(0);
            out.truncate(start + above);
        } else if segment != b"." {
            out.push(b'/');
            out.extend_from_slice(segment);
            continue;
        }
        if segments.peek().is_none() {
            out.push(b'/');
        }
    }
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
