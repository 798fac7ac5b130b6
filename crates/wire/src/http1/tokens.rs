//! Which tokens is a head made of? One pass over its bytes finds them, and checks on the way what each may be made of
//! (RFC 9110 section 5, RFC 9112 sections 3 to 5).
//!
//! No more than the grammar has, and nothing of what it lets recipients put up with: a line ends in CR LF, a field is one
//! line, nothing stands between a name and its colon.

use super::{FIELDS_MAX, Limits, Reject, Version};
use crate::head::{Field, Room};

/// The bytes of a head, or of what began as one, from the first that was not read yet.
#[derive(Debug)]
pub struct Tokens<'b> {
    left: &'b [u8],
    /// How many there were.
    len: usize,
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub struct Target<'b> {
    /// All of it.
    pub bytes: &'b [u8],
    /// True if it is ASCII, and has no fragment.
    pub is_plain: bool,
}

impl<'b> Tokens<'b> {
    /// From the first byte on.
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Tokens<'b> {
        Tokens { left: bytes, len: bytes.len() }
    }

    /// How many bytes were read before these are left.
    #[inline]
    fn at(&self, left: &[u8]) -> u32 {
        (self.len - left.len()) as u32
    }

    /// Goes on to where these are left; what lies between.
    #[inline]
    fn to(&mut self, left: &'b [u8]) -> &'b [u8] {
        let from = std::mem::replace(&mut self.left, left);
        &from[..from.len() - left.len()]
    }

    /// Goes by these bytes, which have to be next.
    ///
    /// # Errors
    /// They are not.
    #[inline]
    pub fn expect<const N: usize>(&mut self, bytes: &[u8; N]) -> Result<(), Reject> {
        self.left = self.left.strip_prefix(bytes).ok_or(Reject::Malformed)?;
        Ok(())
    }

    /// A method.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn method(&mut self) -> Result<&'b [u8], Reject> {
        let method = self.to(behind_token(self.left));
        if method.is_empty() { Err(Reject::Malformed) } else { Ok(method) }
    }

    /// The target of a request. One that is not plain is for the caller to judge.
    ///
    /// # Errors
    /// There is none.
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

    /// A version that we speak. A later minor one means what the latest means that is known (RFC 9110 section 2.5).
    ///
    /// # Errors
    /// It is another, or none.
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

    /// Three digits.
    ///
    /// # Errors
    /// There are others.
    #[inline]
    pub fn status(&mut self) -> Result<u16, Reject> {
        let next = self.left.split_first_chunk::<3>().filter(|(digits, _)| digits.iter().all(u8::is_ascii_digit));
        let (digits, left) = next.ok_or(Reject::Malformed)?;
        let [hundreds, tens, ones] = digits.map(|digit| u16::from(digit - b'0'));
        self.left = left;
        Ok(hundreds * 100 + tens * 10 + ones)
    }

    /// What may stand in a value or a reason, be it nothing.
    #[inline(always)]
    pub fn text(&mut self) -> &'b [u8] {
        self.to(behind_text(self.left))
    }

    /// All fields, and the empty line behind them: the length of the head.
    ///
    /// # Errors
    /// A line that is no field; more than the limit, if nothing before was wrong.
    pub fn fields(mut self, room: &mut Room, limits: &Limits) -> Result<usize, Reject> {
        room.clear();
        let most = limits.fields.min(FIELDS_MAX);
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
            // Nothing, tabs and spaces come before all else that a text may begin or end with.
            let plain = text.first() > Some(&b' ') && text.last() > Some(&b' ');
            if !plain {
                end -= (text.len() - text.trim_ascii_end().len()) as u32;
                value = end - text.trim_ascii().len() as u32;
            }
            self.expect(b"\r\n")?;
            if room.len() == most {
                return Err(Reject::TooManyFields);
            }
            let next = self.at(self.left);
            room.push(Field { name, name_end, value, end, next, plain, dropped: false });
            name = next;
        }
    }
}

/// What is left behind those bytes that belong. Sixteen are looked at together: `is_plain`, made of nothing but comparisons,
/// which the compiler then does for all at once, knows nearly all that do, and `is_rare` the others.
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

/// Which of sixteen marks are set, the first in the lowest bit.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn marked(marks: [u8; 16]) -> u16 {
    use std::arch::x86_64::{__m128i, _mm_movemask_epi8};
    // SAFETY: every x86_64 has SSE2, and any sixteen bytes are one of its vectors.
    unsafe { _mm_movemask_epi8(std::mem::transmute::<[u8; 16], __m128i>(marks)) as u16 }
}

/// The same, where one instruction does not do it.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn marked(marks: [u8; 16]) -> u16 {
    (0..16).fold(0, |marked, i| marked | u16::from(marks[i] & 1) << i)
}

/// What is behind a value or a reason, which ends at controls but tabs.
#[inline(never)]
fn behind_text(bytes: &[u8]) -> &[u8] {
    behind(bytes, |b| b >= b' ' && b != 0x7f, |b| b == b'\t')
}

/// Returns the bytes behind a target, which ends at controls and spaces. Nearly all targets are plain: then `bytes` begin at the end.
#[inline]
fn behind_target(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b <= b' ' || b == 0x7f).unwrap_or(bytes.len());
    &bytes[end..]
}

/// Returns the bytes behind the ASCII part of a target, up to a fragment.
#[inline(always)]
fn behind_plain_target(bytes: &[u8]) -> &[u8] {
    behind(bytes, |b| (b'!'..0x7f).contains(&b) && b != b'#', |_| false)
}

/// What is behind a method or the name of a field. Nearly all are letters and hyphens.
#[inline(never)]
fn behind_token(bytes: &[u8]) -> &[u8] {
    behind(bytes, |b| (b | 0x20).is_ascii_lowercase() || b == b'-', |b| IN_TOKEN[usize::from(b)])
}

/// The letters, the digits and `others`, as a table.
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

/// What a token may be made of (RFC 9110 section 5.6.2).
const IN_TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
