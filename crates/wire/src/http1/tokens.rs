//! Tokens of a head. A single pass over its bytes finds them, and checks the bytes that each may consist of (RFC 9110
//! section 5, RFC 9112 sections 3 to 5).
//!
//! Accepts only the grammar, and nothing that recipients may tolerate: a line ends in CR LF, a field is a single line,
//! and nothing stands between a name and its colon.

use super::{Limits, Reject, Version};
use crate::head::{Field, Room};

/// The bytes of a head that were not read yet.
#[derive(Debug)]
pub struct Tokens<'b> {
    left: &'b [u8],
    /// Number of bytes at the start.
    len: usize,
}

/// Target of a request line, not yet validated.
#[derive(Clone, Copy, Debug)]
pub struct Target<'b> {
    pub bytes: &'b [u8],
    /// True if it is ASCII, and has no fragment.
    pub is_plain: bool,
}

impl<'b> Tokens<'b> {
    /// Returns the tokens from the first byte on.
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Tokens<'b> {
        Tokens { left: bytes, len: bytes.len() }
    }

    /// Number of bytes read when these are left.
    #[inline]
    fn at(&self, left: &[u8]) -> u32 {
        (self.len - left.len()) as u32
    }

    /// Advances to where these bytes are left, and returns those skipped.
    #[inline]
    fn to(&mut self, left: &'b [u8]) -> &'b [u8] {
        let from = std::mem::replace(&mut self.left, left);
        &from[..from.len() - left.len()]
    }

    /// Skips these bytes, which have to be next.
    ///
    /// # Errors
    /// If other bytes are next.
    #[inline]
    pub fn expect<const N: usize>(&mut self, bytes: &[u8; N]) -> Result<(), Reject> {
        self.left = self.left.strip_prefix(bytes).ok_or(Reject::Malformed)?;
        Ok(())
    }

    /// Reads a method.
    ///
    /// # Errors
    /// If there is none.
    #[inline]
    pub fn method(&mut self) -> Result<&'b [u8], Reject> {
        let method = self.to(behind_token(self.left));
        if method.is_empty() { Err(Reject::Malformed) } else { Ok(method) }
    }

    /// Reads the target of a request. The caller decides about a target that is not plain.
    ///
    /// # Errors
    /// If there is none.
    #[inline]
    pub fn target(&mut self) -> Result<Target<'b>, Reject> {
        let plain = behind_plain_target(self.left);
        let behind = behind_target(plain);
        let bytes = self.to(behind);
        if bytes.is_empty() {
            Err(Reject::Malformed)
        } else {
            Ok(Target { bytes, is_plain: plain.len() == behind.len() })
        }
    }

    /// Reads a version. Later minor versions of HTTP/1 mean the same as 1.1, the latest known (RFC 9110 section 2.5).
    ///
    /// # Errors
    /// If the major version is another, or there is none.
    #[inline]
    pub fn version(&mut self) -> Result<Version, Reject> {
        if self.expect(b"HTTP/1.1").is_ok() {
            Ok(Version::V11)
        } else if self.expect(b"HTTP/1.0").is_ok() {
            Ok(Version::V10)
        } else {
            self.later_version()
        }
    }

    #[cold]
    fn later_version(&mut self) -> Result<Version, Reject> {
        let minor = self.left.strip_prefix(b"HTTP/1.").ok_or(Reject::Version)?;
        let [b'2'..=b'9', left @ ..] = minor else { return Err(Reject::Version) };
        self.left = left;
        Ok(Version::V11)
    }

    /// Reads a status of three digits.
    ///
    /// # Errors
    /// If the next three bytes are not digits.
    #[inline]
    pub fn status(&mut self) -> Result<u16, Reject> {
        let next = self.left.split_first_chunk::<3>().filter(|(digits, _)| digits.iter().all(u8::is_ascii_digit));
        let (digits, left) = next.ok_or(Reject::Malformed)?;
        let [hundreds, tens, ones] = digits.map(|digit| u16::from(digit - b'0'));
        self.left = left;
        Ok(hundreds * 100 + tens * 10 + ones)
    }

    /// Reads the text of a value or a reason, which may be empty.
    #[inline(always)]
    pub fn text(&mut self) -> &'b [u8] {
        self.to(behind_text(self.left))
    }

    /// Reads all fields and the empty line after them. Returns the length of the head.
    ///
    /// # Errors
    /// If a line is not a field, or there are more fields than the limit and nothing before is malformed.
    pub fn fields(mut self, room: &mut Room, limits: &Limits) -> Result<usize, Reject> {
        room.clear();
        let mut name = self.at(self.left);
        loop {
            self.left = behind_token(self.left);
            let name_end = self.at(self.left);
            if name_end == name {
                self.expect(b"\r\n")?;
                return Ok(self.len - self.left.len());
            }
            self.expect(b":")?;
            if let Some(left) = self.left.strip_prefix(b" ") {
                self.left = left;
            }
            let (mut value, text) = (self.at(self.left), self.text());
            let mut end = self.at(self.left);
            // Tabs and spaces are less than any other byte that a text may begin or end with, and so is None.
            let plain = text.first() > Some(&b' ') && text.last() > Some(&b' ');
            if !plain {
                end -= (text.len() - text.trim_ascii_end().len()) as u32;
                value = end - text.trim_ascii().len() as u32;
            }
            self.expect(b"\r\n")?;
            if room.len() == limits.fields {
                return Err(Reject::TooManyFields);
            }
            let next = self.at(self.left);
            room.push(Field { name, name_end, value, end, next, plain, dropped: false });
            name = next;
        }
    }
}

/// Skips the bytes of a class and returns the rest. Sixteen bytes are checked at once: `is_plain`, which consists of
/// comparisons only so that the compiler vectorises it, accepts nearly all of the class, and `is_rare` the others.
#[inline(always)]
fn behind(mut bytes: &[u8], is_plain: impl Fn(u8) -> bool, is_rare: impl Fn(u8) -> bool) -> &[u8] {
    while let Some((sixteen, behind)) = bytes.split_first_chunk::<16>() {
        let others = marked(sixteen.map(|b| if is_plain(b) { 0 } else { 0xff }));
        if others == 0 {
            bytes = behind;
            continue;
        }
        bytes = &bytes[others.trailing_zeros() as usize..];
        match bytes {
            [first, behind @ ..] if is_rare(*first) => bytes = behind,
            _ => return bytes,
        }
    }
    while let [first, behind @ ..] = bytes
        && (is_plain(*first) || is_rare(*first))
    {
        bytes = behind;
    }
    bytes
}

/// Bit mask of sixteen marks, the first in the lowest bit.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn marked(marks: [u8; 16]) -> u16 {
    use std::arch::x86_64::{__m128i, _mm_movemask_epi8};
    // SAFETY: every x86_64 has SSE2, and any sixteen bytes are a vector of SSE2.
    unsafe { _mm_movemask_epi8(std::mem::transmute::<[u8; 16], __m128i>(marks)) as u16 }
}

/// The mask on targets without an instruction for it.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn marked(marks: [u8; 16]) -> u16 {
    (0..16).fold(0, |marked, i| marked | u16::from(marks[i] & 1) << i)
}

/// Skips a value or a reason, which ends at control characters other than tabs.
#[inline(never)]
fn behind_text(bytes: &[u8]) -> &[u8] {
    behind(bytes, |b| b >= b' ' && b != 0x7f, |b| b == b'\t')
}

/// Skips a target, which ends at control characters and spaces. Nearly all targets are plain: then `bytes` begin at the
/// end.
#[inline]
fn behind_target(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b <= b' ' || b == 0x7f).unwrap_or(bytes.len());
    &bytes[end..]
}

/// Skips the ASCII part of a target, up to a fragment.
#[inline(always)]
fn behind_plain_target(bytes: &[u8]) -> &[u8] {
    behind(bytes, |b| (b'!'..0x7f).contains(&b) && b != b'#', |_| false)
}

/// Skips a method or the name of a field. Nearly all bytes are letters and hyphens.
#[inline(never)]
fn behind_token(bytes: &[u8]) -> &[u8] {
    behind(bytes, |b| (b | 0x20).is_ascii_lowercase() || b == b'-', |b| IN_TOKEN[usize::from(b)])
}

/// Table of the letters, the digits and `others`.
pub(super) const fn alphanumeric_and(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 128 {
        table[b] = (b as u8).is_ascii_alphanumeric();
        b += 1;
    }
    let mut i = 0;
    while i < others.len() {
        table[others[i] as usize] = true;
        i += 1;
    }
    table
}

/// Bytes of a token (RFC 9110 section 5.6.2).
const IN_TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
