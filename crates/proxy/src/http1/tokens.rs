//! Which tokens is a head made of? One pass over its bytes finds them, and checks on the way what each may be made of
//! (RFC 9110 section 5, RFC 9112 sections 3 to 5).
//!
//! No more than the grammar has, and nothing of what it lets recipients put up with: a line ends in CR LF, a field is one
//! line, nothing stands between a name and its colon.

use super::{FIELDS_MAX, Limits, Reject, Version};

/// Room for the fields of one head after the other.
pub type Room = Vec<Field>;

/// Where in its head a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    name: u32,
    colon: u32,
    value: u32,
    end: u32,
}

impl Field {
    /// Where its line begins.
    #[inline]
    pub fn place(&self) -> usize {
        self.name as usize
    }

    /// Its name, as sent: case does not count.
    #[inline]
    pub fn name<'b>(&self, head: &'b [u8]) -> &'b [u8] {
        &head[self.name as usize..self.colon as usize]
    }

    /// Its value, without the white space around it.
    #[inline]
    pub fn value<'b>(&self, head: &'b [u8]) -> &'b [u8] {
        &head[self.value as usize..self.end as usize]
    }

    /// Whether it is spelled as nobody can misread: its value, which is not empty, behind at most one space, and nothing
    /// behind that.
    #[inline]
    pub fn is_plain(&self, head: &[u8]) -> bool {
        let (colon, value) = (self.colon as usize, self.value as usize);
        let spaced = value == colon + 1 || value == colon + 2 && head[colon + 1] == b' ';
        spaced && head.get(self.end as usize) == Some(&b'\r')
    }
}

/// The bytes of a head, or of what began as one, as far as they were read.
#[derive(Debug)]
pub struct Tokens<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Tokens<'b> {
    /// From the first byte on.
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Tokens<'b> {
        Tokens { bytes, at: 0 }
    }

    /// How many bytes were read.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Goes on to there; what lies between.
    #[inline]
    fn to(&mut self, end: usize) -> &'b [u8] {
        let from = std::mem::replace(&mut self.at, end);
        &self.bytes[from..end]
    }

    /// So many bytes that are next.
    #[inline]
    fn next<const N: usize>(&self) -> Option<&'b [u8; N]> {
        self.bytes.get(self.at..)?.first_chunk()
    }

    /// Goes by these bytes, which have to be next.
    ///
    /// # Errors
    /// They are not.
    #[inline]
    pub fn expect<const N: usize>(&mut self, bytes: &[u8; N]) -> Result<(), Reject> {
        if self.next() != Some(bytes) {
            return Err(Reject::Malformed);
        }
        self.at += N;
        Ok(())
    }

    /// A method.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn method(&mut self) -> Result<&'b [u8], Reject> {
        let end = token_end(self.bytes, self.at);
        if end > self.at { Ok(self.to(end)) } else { Err(Reject::Malformed) }
    }

    /// The target of a request. What is not ASCII is for the caller to judge.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn target(&mut self) -> Result<&'b [u8], Reject> {
        let end = target_end(self.bytes, self.at);
        if end > self.at { Ok(self.to(end)) } else { Err(Reject::Malformed) }
    }

    /// A version that we speak.
    ///
    /// # Errors
    /// It is another, or none.
    #[inline]
    pub fn version(&mut self) -> Result<Version, Reject> {
        let version = match self.next() {
            Some(b"HTTP/1.1") => Version::V11,
            Some(b"HTTP/1.0") => Version::V10,
            _ => return Err(Reject::Version),
        };
        self.at += 8;
        Ok(version)
    }

    /// Three digits.
    ///
    /// # Errors
    /// There are others.
    #[inline]
    pub fn status(&mut self) -> Result<u16, Reject> {
        let digits = self.next::<3>().filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let [hundreds, tens, ones] = digits.ok_or(Reject::Malformed)?.map(|digit| u16::from(digit - b'0'));
        self.at += 3;
        Ok(hundreds * 100 + tens * 10 + ones)
    }

    /// What may stand in a value or a reason, be it nothing.
    #[inline]
    pub fn text(&mut self) -> &'b [u8] {
        self.to(text_end(self.bytes, self.at))
    }

    /// All fields, and the empty line behind them.
    ///
    /// # Errors
    /// A line that is no field; more than the limit, if nothing before was wrong.
    pub fn fields(&mut self, room: &mut Room, limits: &Limits) -> Result<(), Reject> {
        room.clear();
        let (bytes, most) = (self.bytes, limits.fields.min(FIELDS_MAX));
        loop {
            let name = self.at;
            let colon = token_end(bytes, name);
            self.at = colon;
            if colon == name {
                return self.expect(b"\r\n");
            }
            self.expect(b":")?;
            while let Some(b" " | b"\t") = self.next() {
                self.at += 1;
            }
            let value = self.at;
            let mut end = text_end(bytes, value);
            self.at = end;
            self.expect(b"\r\n")?;
            while end > value && matches!(bytes[end - 1], b' ' | b'\t') {
                end -= 1;
            }
            if room.len() == most {
                return Err(Reject::TooManyFields);
            }
            room.push(Field { name: name as u32, colon: colon as u32, value: value as u32, end: end as u32 });
        }
    }
}

/// Where, from `at` on, the first byte is that does not belong. Eight at a time are looked at: `suspect` sets the highest
/// bit of each byte of a word that may not belong, and `belongs` decides.
#[inline(always)]
fn run_end(bytes: &[u8], mut at: usize, suspect: impl Fn(u64) -> u64, belongs: impl Fn(u8) -> bool) -> usize {
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let suspects = suspect(u64::from_le_bytes(*eight)) & each(0x80);
        if suspects == 0 {
            at += 8;
            continue;
        }
        at += suspects.trailing_zeros() as usize / 8;
        if !belongs(bytes[at]) {
            return at;
        }
        at += 1;
    }
    while bytes.get(at).is_some_and(|b| belongs(*b)) {
        at += 1;
    }
    at
}

/// A byte eight times.
const fn each(b: u8) -> u64 {
    u64::from_ne_bytes([b; 8])
}

/// In the highest bit of each byte of `low`, which has none of these bits yet: whether the byte is `least` or more.
#[inline(always)]
fn from(low: u64, least: u8) -> u64 {
    low + each(0x80 - least)
}

/// Where a value or a reason ends: at controls but tabs.
#[inline(always)]
fn text_end(bytes: &[u8], at: usize) -> usize {
    // The last of all bytes is taken for DEL, and is as rare as tabs.
    let suspect = |word: u64| !(from(word & each(0x7f), b' ') | word) | from(word & each(0x7f), 0x7f);
    run_end(bytes, at, suspect, |b| b >= b' ' && b != 0x7f || b == b'\t')
}

/// Where a target ends: at controls and spaces.
#[inline(always)]
fn target_end(bytes: &[u8], at: usize) -> usize {
    let suspect = |word: u64| !(from(word & each(0x7f), b'!') | word) | from(word & each(0x7f), 0x7f);
    run_end(bytes, at, suspect, |b| b > b' ' && b != 0x7f)
}

/// Where a method or the name of a field ends.
#[inline(always)]
fn token_end(bytes: &[u8], at: usize) -> usize {
    // Nearly all are letters and hyphens. A difference that is not zero carries into the highest bit.
    let suspect = |word: u64| {
        let lower = (word | each(0x20)) & each(0x7f);
        let hyphen = word ^ each(b'-');
        (!from(lower, b'a') | from(lower, b'z' + 1) | word) & (from(hyphen & each(0x7f), 1) | hyphen)
    };
    run_end(bytes, at, suspect, |b| IN_TOKEN[usize::from(b)])
}

/// What a token may be made of (RFC 9110 section 5.6.2).
const IN_TOKEN: [bool; 256] = super::alphanumeric_and(b"!#$%&'*+-.^_`|~");

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
